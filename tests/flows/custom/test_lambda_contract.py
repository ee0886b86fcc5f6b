"""The orchestration Lambda's contract: what it is told, and what it may and may not say."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from custom_support import asks, calls, finishes, model, replying, says, told
from whole_agents import INSTRUCTION, Calls, agent, outcome, texts_of

from orchestrator import Agent, DefinitionError, Limits
from orchestrator.actions import USER_INPUT, ActionGroup
from orchestrator.errors import DependencyFailed, LimitExceeded
from orchestrator.flows.custom import LambdaOrchestration
from orchestrator.guardrails import Verdict


def test_what_it_is_told() -> None:
    orchestration, events = replying(
        asks("Think."), calls("vacations::get_days", employee="7"), finishes("12 days.")
    )
    made = Calls()
    hr = agent(model("I thought."), made.groups(), orchestration=orchestration)
    hr.invoke(
        "How many?",
        session_id="s-1",
        session_attributes={"secret": "s"},
        prompt_session_attributes={"day": "Monday"},
    )
    start, answered, called = events
    assert (start["version"], start["state"]) == ("1.0", "START")
    assert json.loads(start["input"]["text"]) == {"text": "How many?"}
    context = start["context"]
    assert context["sessionId"] == "s-1" and context["session"] == []
    assert context["sessionAttributes"] == {"secret": "s"}
    assert context["promptSessionAttributes"] == {"day": "Monday"}
    configuration = context["agentConfiguration"]
    assert configuration["instruction"] == INSTRUCTION
    assert configuration["defaultModelId"] == hr.plan.orchestration.model.model_id
    assert configuration["tools"] == list(hr.plan.catalog.tool_specs())
    assert "guardrails" not in configuration
    assert answered["state"] == "MODEL_INVOKED"
    reply = json.loads(answered["input"]["text"])
    message = {"role": "assistant", "content": [{"text": "I thought."}]}
    assert reply["output"] == {**message, "message": message}  # either is read by public ones
    assert reply["stopReason"] == "end_turn"
    assert reply["usage"].keys() == {"inputTokens", "outputTokens", "totalTokens"}
    assert called["state"] == "TOOL_INVOKED"
    result = {"toolUseId": "own-1", "content": [{"text": "12"}]}
    assert json.loads(called["input"]["text"]) == {"toolResult": result}
    (turn,) = called["context"]["session"]
    assert (turn["agentInput"], turn["agentOutput"]) == ("How many?", "")
    first, second = turn["intermediarySteps"]
    assert first["orchestrationInput"] == {"state": "START", "text": "How many?"}
    assert first["orchestrationOutput"]["event"] == "INVOKE_MODEL"
    assert json.loads(first["orchestrationOutput"]["text"])["messages"]
    assert second["orchestrationInput"] == {
        "state": "MODEL_INVOKED",
        "text": answered["input"]["text"],
    }


def test_a_later_turn_is_told_what_was_answered() -> None:
    orchestration, events = replying(finishes("Hello."), finishes("Bye."))
    hr = agent(model(), orchestration=orchestration)
    hr.invoke("Hi", session_id="s-1")
    hr.invoke("Bye", session_id="s-1")
    (turn,) = events[1]["context"]["session"]
    assert (turn["agentInput"], turn["agentOutput"]) == ("Hi", "Hello.")
    (step,) = turn["intermediarySteps"]
    assert step["orchestrationOutput"] == {"event": "FINISH", "text": "Hello."}


def test_attributes_go_both_ways() -> None:
    orchestration, events = replying(
        says(
            "INVOKE_MODEL",
            {"messages": [{"role": "user", "content": "Hi"}]},
            sessionAttributes={"n": 1, "gone": None},
            promptSessionAttributes={"p": "q"},
        ),
        {"actionEvent": "FINISH", "output": {"text": "Done."}},
    )
    hr = agent(model("x"), orchestration=orchestration)
    hr.invoke("Hi", session_id="s-1", session_attributes={"old": "1"})
    after = events[1]["context"]
    assert after["sessionAttributes"] == {"n": "1"}  # they replace; what is no text becomes one
    assert after["promptSessionAttributes"] == {"p": "q"}
    orchestration, events = replying(finishes("Again."))
    again = agent(model(), orchestration=orchestration, sessions=hr.sessions)
    again.invoke("Hi", session_id="s-1")
    assert events[0]["context"]["sessionAttributes"] == {"n": "1"}
    assert events[0]["context"]["promptSessionAttributes"] == {}


def test_a_handler_that_changes_its_event_changes_nothing_else() -> None:
    seen: list[Any] = []

    def orchestrate(event: dict[str, Any]) -> Any:
        seen.append(json.dumps(event["context"]["agentConfiguration"]))
        event["context"]["agentConfiguration"]["tools"].clear()
        event["context"]["session"].append("rubbish")
        return asks("Hi") if event["state"] == "START" else finishes("Done.")

    hr = agent(model("x"), Calls().groups(), orchestration=LambdaOrchestration(orchestrate))
    assert hr.invoke("Hi", session_id="s-1").text == "Done."
    assert seen[0] == seen[1]


def test_a_tool_that_is_not_there_is_told_to_the_handler() -> None:
    orchestration, events = replying(calls("vacations__get_dayz"), calls("x"), finishes("No."))
    hr = agent(model(), Calls().groups(), orchestration=orchestration)
    reply = hr.invoke("Hi", session_id="s-1")
    for event, text in zip(events[1:], ("is not a valid function", "format"), strict=True):
        result = json.loads(event["input"]["text"])["toolResult"]
        assert result["status"] == "error" and text in result["content"][0]["text"]
    assert told(reply).count("observation REPROMPT") == 2


def test_a_tool_that_asks_the_user_ends_the_turn() -> None:
    orchestration, events = replying(calls("user__askuser", question="Who?"), finishes("Hi Ann."))
    groups = [ActionGroup("UserInput", signature=USER_INPUT)]
    hr = agent(model(), groups, orchestration=orchestration)
    reply = hr.invoke("Hi", session_id="s-1")
    assert (reply.text, reply.stop_reason) == ("Who?", "ask_user")
    assert told(reply)[-1] == "observation ASK_USER"
    assert hr.invoke("Ann", session_id="s-1").text == "Hi Ann."
    assert events[1]["context"]["session"][0]["agentOutput"] == "Who?"


class Masks:
    id = "masks"
    version = "7"

    def check(self, text: str, source: str) -> Verdict:
        if "bomb" in text:
            return Verdict("INTERVENED", "No.", True, [])
        masked = text.replace("Ann", "{NAME}")
        return Verdict("INTERVENED", masked) if masked != text else Verdict("NONE", text)


def guards(text: str, **members: Any) -> dict[str, Any]:
    request = {"source": "OUTPUT", "content": [{"text": {"text": text}}], **members}
    return says("APPLY_GUARDRAIL", request)


def test_a_guardrail_that_it_applies() -> None:
    orchestration, events = replying(
        guards("of Ann", guardrailIdentifier="masks", guardrailVersion="7"), finishes("For Ann.")
    )
    hr = agent(model(), orchestration=orchestration, guardrail=Masks())
    reply = hr.invoke("I am Ann", session_id="s-1")
    assert reply.text == "For {NAME}."  # answers are checked in any case
    start, checked = events
    assert json.loads(start["input"]["text"]) == {"text": "I am {NAME}"}
    named = start["context"]["agentConfiguration"]["guardrails"]
    assert named == {"identifier": "masks", "version": "7"}
    assert checked["state"] == "APPLY_GUARDRAIL_INVOKED"
    assert json.loads(checked["input"]["text"]) == {
        "action": "GUARDRAIL_INTERVENED",
        "outputs": [{"text": "of {NAME}"}],
        "assessments": [],
    }
    assert told(reply) == ["guardrailTrace"] * 3 + ["observation FINISH"]
    # Later turns read what the user read.
    orchestration, events = replying(finishes("Ok."))
    again = agent(model(), orchestration=orchestration, guardrail=Masks(), sessions=hr.sessions)
    again.invoke("And?", session_id="s-1")
    (turn,) = events[0]["context"]["session"]
    assert turn["agentOutput"] == "For {NAME}."
    assert turn["intermediarySteps"][-1]["orchestrationOutput"]["text"] == "For {NAME}."


WRONG = [
    (None, "'the reply' is missing"),
    ("nothing", "'the reply' is a text"),
    ([asks("x")], "'the reply' is a list"),
    ({}, "'actionEvent' is missing"),
    (says("INVOKE_MODLE", "x"), "'actionEvent' is 'INVOKE_MODLE', not one of INVOKE_MODEL"),
    ({"actionEvent": "FINISH"}, "'output' is missing"),
    ({"actionEvent": "FINISH", "output": {}}, "'output.text' is missing"),
    ({"actionEvent": "FINISH", "output": {"text": {"a": 1}}}, "'output.text' is an object"),
    ({**finishes("x"), "context": []}, None),
    (says("INVOKE canary-7", "x"), "'actionEvent' is something else, not one of"),
    (says("FINISH", "x" * 7_000_000), "'output.text' has 7,000,000 characters; the most are"),
    ({"actionEvent": "INVOKE_TOOL", "output": {"text": [object()]}}, "that has no JSON text"),
    (says("FINISH", "x", sessionAttributes={"a": {(1, 2): 3}}), "'context.sessionAttributes' has"),
    (says("INVOKE_MODEL", "[" * 190 + "]" * 190), "'the request' is a list"),
    ({**finishes("x"), "context": "c"}, "'context' is a text"),
    (says("FINISH", "x", sessionAttributes="s"), "'context.sessionAttributes' is a text"),
    (says("INVOKE_MODEL", "{"), "INVOKE_MODEL with output.text: 'the request' is missing"),
    (says("INVOKE_MODEL", {}), "'messages' is missing, not a list"),
    (says("INVOKE_MODEL", {"messages": []}), "'messages' is empty"),
    (says("INVOKE_MODEL", {"messages": [{"role": "system"}]}), "'role' of messages[0] is 'system'"),
    (
        says("INVOKE_MODEL", {"messages": [{"role": "user", "content": [{"text": 1}]}]}),
        "'messages[0].content[0].text' is a int, not a text",
    ),
    (
        says("INVOKE_MODEL", {"messages": [{"role": "user", "content": [{"toolUse": {}}]}]}),
        "'messages[0].content[0].toolUse.toolUseId' is missing",
    ),
    (asks("x", system="s"), "'system' is a text, not a list"),
    (asks("x", toolConfig={"toolChoice": {"any": {}}}), "'toolConfig.toolChoice' can only be"),
    (asks("x", toolConfig={"tools": [{}]}), "'toolConfig.tools[0].toolSpec' is missing"),
    (asks("x", inferenceConfig={"topK": 1}), "'inferenceConfig' has no member 'topK'"),
    (
        asks("x", guardrailConfig={}),
        "the member 'guardrailConfig' is not supported: guard texts with",
    ),
    (asks("x", mesages=[]), "the member 'mesages' is not supported: leave it out"),
    (asks("x", modelId="other"), "asks for the model 'other', which the agent does not have"),
    (says("INVOKE_TOOL", "x"), "INVOKE_TOOL with output.text: 'output.text' is missing"),
    (says("INVOKE_TOOL", {"toolUse": {}}), "'output.text.toolUse.toolUseId' is missing"),
    (
        says("INVOKE_TOOL", {"toolUse": {"toolUseId": "", "name": "a"}}),
        "'output.text.toolUse.toolUseId' is empty",
    ),
    (
        says("INVOKE_TOOL", {"toolUse": {"toolUseId": "a", "name": "a", "input": []}}),
        "'output.text.toolUse.input' is a list",
    ),
    (guards("x"), "agent 'hr' has no guardrail"),
    (says("APPLY_GUARDRAIL", {"source": "BOTH"}), "'output.text.source' is 'BOTH'"),
    (guards("x", content=[]), "'output.text.content' is no list of texts"),
]


@pytest.mark.parametrize(("wrong", "text"), WRONG, ids=lambda it: str(it)[:40])
def test_a_wrong_reply_names_its_member_and_the_state(wrong: Any, text: str | None) -> None:
    orchestration, _ = replying(wrong)
    hr = agent(model("x"), orchestration=orchestration)
    if text is None:
        assert hr.invoke("Hi", session_id="s-1").text == "x"
        return
    with pytest.raises(DependencyFailed, match=re.escape(text)) as failed:
        hr.invoke("Hi", session_id="s-1")
    assert "orchestrate'" in failed.value.message
    assert failed.value.reply is not None
    assert told(failed.value.reply)[-1] == "failureTrace"


def test_another_guardrail_is_not_asked() -> None:
    orchestration, _ = replying(guards("x", guardrailIdentifier="other"))
    hr = agent(model(), orchestration=orchestration, guardrail=Masks())
    with pytest.raises(DependencyFailed, match="'other', and the agent's guardrail is 'masks'"):
        hr.invoke("Hi", session_id="s-1")


def test_a_handler_that_raises_is_named_and_its_text_kept_out(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def lambda_handler(event, context):\n    raise RuntimeError('canary')\n"
    )
    hr = agent(model(), orchestration=LambdaOrchestration("mine.py", tmp_path))
    with pytest.raises(DependencyFailed) as failed:
        hr.invoke("Hi", session_id="s-1")
    assert failed.value.message.startswith(
        "the orchestration 'mine.py:lambda_handler', asked in state START, raised RuntimeError at "
        "mine.py:2"
    )
    assert failed.value.resource == "mine.py:lambda_handler"
    assert "canary" not in failed.value.message


@pytest.mark.parametrize(
    ("limits", "script", "limit"),
    [
        (Limits(iterations=2), [asks("x")] * 3, "iterations"),
        (Limits(model_calls=2), [asks("x")] * 3, "model_calls"),
        (Limits(actions=2), [calls("wrong")] * 3, "actions"),
        (Limits(actions=2), [calls("vacations__get_days", employee="7")] * 3, "actions"),
        (Limits(actions=2), [guards("x")] * 3, "actions"),
    ],
    ids=["iterations", "model calls", "wrong tools", "tools", "checks"],
)
def test_a_loop_without_an_end_ends(limits: Limits, script: list[Any], limit: str) -> None:
    orchestration, events = replying(*script)
    asked = model("a", "b", "c")
    guardrail = Masks() if limit == "actions" else None
    hr = agent(
        asked, Calls().groups(), orchestration=orchestration, limits=limits, guardrail=guardrail
    )
    with pytest.raises(LimitExceeded) as reached:
        hr.invoke("Hi", session_id="s-1")
    assert reached.value.limit == limit
    assert len(events) == 3 and len(asked.requests) <= 2


def test_the_model_of_another_stage() -> None:
    small = model("small")
    small.model_id = "small"
    prompts = {"POST_PROCESSING": {"promptState": "DISABLED"}}
    orchestration, _ = replying(asks("x", modelId="small"), finishes("Done."))
    hr = agent(model("large"), orchestration=orchestration, prompts=prompts)
    stages = dict(hr.plan.stages)
    stages["POST_PROCESSING"] = replace(stages["POST_PROCESSING"], model=small)
    hr.plan = replace(hr.plan, stages=stages)
    assert hr.invoke("Hi", session_id="s-1").text == "Done."
    assert texts_of(small.requests[0]) == ["", "x"]


def test_replies_as_sloppy_as_public_ones() -> None:
    request = {"messages": [{"role": "user", "content": ["Hi"]}], "toolConfig": {"tools": []}}
    loose = {"actionEvent": "INVOKE_MODEL", "output": {"text": request, "trace": None}}
    orchestration, _ = replying(json.dumps(loose), says("FINISH", '"Said: \\"so\\""'))
    hr = agent(model("x"), orchestration=orchestration)
    assert hr.invoke("Hi", session_id="s-1").text == 'Said: "so"'
    (info,) = hr.sessions.store.list()
    notes = [it["notes"] for it in hr.sessions.store.load(info.key) if "notes" in it]
    assert notes == [
        ["'output.text' is an object, and not its JSON text"],
        ["'output.text' of FINISH is JSON text, and not the text itself"],
    ]


def test_a_turn_that_failed_after_a_tool_is_told() -> None:
    orchestration, events = replying(
        calls("vacations__get_days", employee="7"), None, finishes("Sorry.")
    )
    hr = agent(model(), Calls().groups(), orchestration=orchestration)
    assert outcome(hr, "How many?", session_id="s-1").stop_reason != "end_turn"
    assert hr.invoke("Well?", session_id="s-1").text == "Sorry."
    (turn,) = events[2]["context"]["session"]
    assert turn["agentOutput"] == "(The turn failed.)"
    (step,) = turn["intermediarySteps"]
    assert step["orchestrationOutput"]["event"] == "INVOKE_TOOL"


@pytest.mark.parametrize(
    ("lines", "text", "column"),
    [
        (
            "orchestrationType: CUSTOM_ORCHESTRATION",
            "nothing orchestrates; give customOrchestration",
            20,
        ),
        (
            "orchestrationType: CUSTOM_ORCHESTRATION\ncustomOrchestration: {executor: {}}",
            "nothing orchestrates",
            20,
        ),
        (
            "customOrchestration: {executor: {lambda: no.py}}\n"
            "orchestrationType: CUSTOM_ORCHESTRATION",
            "there is no file 'no.py'",
            42,
        ),
        (
            "customOrchestration: {executor: {lambda: ../x.py}}\n"
            "orchestrationType: CUSTOM_ORCHESTRATION",
            "leads out of the folder",
            42,
        ),
        (
            "customOrchestration: {executor: {lambda: agent.yaml}}\n"
            "orchestrationType: CUSTOM_ORCHESTRATION",
            "the orchestration 'agent.yaml' is not a Python file",
            42,
        ),
        (
            "customOrchestration: {executor: {lambda: 'arn:aws:lambda:x'}}\n"
            "orchestrationType: CUSTOM_ORCHESTRATION",
            "is not the ARN of a Lambda function",
            42,
        ),
    ],
)
def test_a_definition_that_is_wrong(lines: str, text: str, column: int, tmp_path: Path) -> None:
    head = "agentName: hr\ninstruction: You help.\nfoundationModel: local\n"
    (tmp_path / "agent.yaml").write_text(head + lines + "\n")
    with pytest.raises(DefinitionError, match=re.escape(text)) as wrong:
        Agent.load(tmp_path)
    assert (wrong.value.line, wrong.value.column) == (4, column)


def test_a_file_without_the_function(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def other(event): ...\n")
    with pytest.raises(DefinitionError, match="lambda_handler"):
        LambdaOrchestration("mine.py", tmp_path)


def test_a_trace_text_is_bounded() -> None:
    long = {**finishes("x"), "output": {"text": "x", "trace": {"event": {"text": "t" * 200_000}}}}
    orchestration, _ = replying(long)
    reply = agent(model(), orchestration=orchestration).invoke("Hi", session_id="s-1")
    custom = reply.trace[0]["trace"]["customOrchestrationTrace"]
    assert len(custom["event"]["text"]) == 100_000
