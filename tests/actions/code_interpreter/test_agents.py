"""An agent whose model writes programs."""

from __future__ import annotations

import asyncio

import pytest
from interpreter_support import call, children, context, needs_sandbox

from orchestrator import ActionGroup, Agent
from orchestrator.actions.code_interpreter import CodeInterpreter, CodeInterpreterSettings
from orchestrator.testing import ScriptedModel

pytestmark = needs_sandbox

TOOL_USE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
XML = "anthropic.claude-3-sonnet-20240229-v1:0"


def agent(model, *groups):
    return Agent(name="sums", instruction="You do sums.", model=model, action_groups=list(groups))


def program(code):
    name = "get__codeinterpreteraction__execute"
    return [{"toolUse": {"toolUseId": "t-1", "name": name, "input": {"code": code}}}]


def code_group(**changes):
    executor = CodeInterpreter(CodeInterpreterSettings(**changes)) if changes else None
    return ActionGroup("code", signature="AMAZON.CodeInterpreter", executor=executor)


def test_a_model_with_tools_runs_a_program():
    model = ScriptedModel([program("sum(range(101))"), "<answer>5050</answer>"], TOOL_USE)
    reply = agent(model, code_group()).invoke("Add 1 to 100.", session_id="s-1")
    assert reply.text == "5050"
    assert "5050" in str(model.requests[1].messages[-1])
    (tool,) = model.requests[0].tools
    assert tool["toolSpec"]["name"] == "get__codeinterpreteraction__execute"


def test_a_model_of_xml_runs_a_program():
    written = (
        "<function_calls><invoke><tool_name>get::codeinterpreteraction::execute</tool_name>"
        "<parameters><code>a = 6\nif a < 7:\n    print(a * 7)</code></parameters></invoke>"
    )
    model = ScriptedModel([written, "<answer>42</answer>"], XML)
    assert agent(model, code_group()).invoke("6 times 7?", session_id="s-1").text == "42"
    assert "42" in str(model.requests[1].messages[-1])


def test_a_program_that_fails_is_mended_by_the_model():
    model = ScriptedModel([program("1 / 0"), program("1 / 2"), "<answer>0.5</answer>"], TOOL_USE)
    assert agent(model, code_group()).invoke("Divide.", session_id="s-1").text == "0.5"
    assert "ZeroDivisionError" in str(model.requests[1].messages[-1])
    assert "0.5" in str(model.requests[2].messages[-1])


def test_files_stay_between_the_turns_of_a_session():
    model = ScriptedModel(
        [
            program("open('n', 'w').write('7')"),
            "<answer>ok",
            program("open('n').read()"),
            "<answer>7",
        ],
        TOOL_USE,
    )
    sums = agent(model, code_group())
    sums.invoke("Keep 7.", session_id="s-1")
    sums.invoke("What was it?", session_id="s-1")
    (block,) = model.requests[3].messages[-1]["content"]
    assert "'7'" in block["toolResult"]["content"][0]["text"]


def test_an_agent_without_the_group_cannot_run_programs():
    model = ScriptedModel([program("1"), "<answer>No.</answer>"], TOOL_USE)
    agent(model).invoke("Add.", session_id="s-1")
    assert "not a valid function" in str(model.requests[1].messages[-1])


def test_the_asynchronous_driver_runs_programs_side_by_side():
    model = ScriptedModel([program("6 * 7"), "<answer>42</answer>"], TOOL_USE)
    reply = asyncio.run(agent(model, code_group()).ainvoke("6 times 7?", session_id="s-1"))
    assert reply.text == "42"


@pytest.mark.parametrize("when", [0, 10])
def test_being_cancelled_ends_the_program(interpreter, when):
    async def cancel():
        running = asyncio.create_task(interpreter.acall(call("while True: pass"), context()))
        known = children()
        while when and not children() - known:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    before = children()
    asyncio.run(cancel())
    assert children() <= before
