"""Whole agents written the way public ones are, run as they are: nothing in them is edited.

Each is our own; what it has of others is how it is made. `museum` is a CloudFormation template with
parameters that nobody set and a handler for Lambda's own folder; `harvest` has the console's names
and a code interpreter; `pantry` has a parser that writes the members of functions and of APIs
together; `ferry` is a Claude 2 agent that puts a verb in front of functions.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from runtime_servers import client_of, told
from whole_agents import members

from orchestrator import Agent
from orchestrator.actions import ActionResult
from orchestrator.cli import app
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.testing import ScriptedModel

HERE = Path(__file__).parent / "as_they_come"
HAIKU = "anthropic.claude-3-haiku-20240307-v1:0"
ANSWERS = "<thinking>I know it.</thinking><answer>{}</answer>"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the agents; the working directory is elsewhere."""
    shutil.copytree(HERE, tmp_path / "them")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "them"


def is_clean(folder: Path) -> bool:
    from orchestrator.agent.lint import lint_agent

    return not [it for it in lint_agent(folder) if it.severity == "error"]


def xml_call(name: str, **values: str) -> str:
    inner = "".join(f"<{key}>{value}</{key}>" for key, value in values.items())
    invoke = f"<invoke><tool_name>{name}</tool_name><parameters>{inner}</parameters></invoke>"
    return f"<thinking>I look.</thinking><function_calls>{invoke}</function_calls>"


def test_a_stack_with_a_guardrail_and_a_handler_of_lambda(place: Path, tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    assert run(["import", str(place / "museum/template.yaml"), "--into", str(agents)]) == 0
    assert is_clean(agents)
    model = ScriptedModel(
        [
            xml_call("visits::opening_hours", day="Monday"),
            ANSWERS.format("It is closed on Mondays."),
            xml_call("visits::opening_hours", day="Sunday"),
            ANSWERS.format("From ten."),
        ],
        HAIKU,
    )
    handler = place / "museum/src/visits/app.py:lambda_handler"
    given = Settings(port=0, agents=agents, lambdas={"museum-visits-test": str(handler)})
    # The template's guardrail came along; what `!GetAtt` says of it would do for one in AWS, too.
    assert (agents / "guardrail.yaml").is_file()
    with ServerState(given, models={"*": model}) as world, serve_in_thread(world) as url:
        client = client_of(url)
        texts = [ask(client, world, text) for text in ("Monday?", "Sunday?")]
        client.close()
    assert texts == ["It is closed on Mondays.", "From ten."]
    assert "We are closed on Monday." in str(model.requests[1].messages[-1])
    assert "{'day': 'sunday', 'open': '10 to 17 h'}" in str(model.requests[3].messages[-1])


def run(words: list[str]) -> int:
    from typer.testing import CliRunner

    return CliRunner().invoke(app, words).exit_code


def ask(client: Any, world: ServerState, text: str) -> str:
    (agent,) = world.agents.folders.all()
    response = client.invoke_agent(
        agentId=agent.agent_id, agentAliasId="TSTALIASID", sessionId="s-1", inputText=text
    )
    answer: str = told(response)["text"]
    return answer


class Interpreter:
    """Stands where the sandbox runs programs."""

    def __init__(self) -> None:
        self.programs: list[str] = []

    def call(self, call: Any, context: Any) -> ActionResult:
        self.programs.append(call.arguments["code"])
        return ActionResult("42", details={"executionOutput": "42"})


@pytest.mark.parametrize("verb", ["get", "GET"])
@pytest.mark.parametrize("name", ["codeinterpreteraction", "CodeInterpreterAction", "sums"])
def test_a_code_interpreter_as_the_console_names_it(place: Path, name: str, verb: str) -> None:
    file = place / "harvest/agent.yaml"
    file.write_text(file.read_text().replace("codeinterpreteraction", name))
    assert is_clean(place / "harvest")
    call = xml_call(f"{verb}::codeinterpreteraction::execute", code="print(6 * 7)")
    model = ScriptedModel([call, ANSWERS.format("42 crates.")], "anthropic.claude-3-sonnet")
    with Agent.load(place / "harvest", model=model) as agent:
        interpreter = Interpreter()
        (operation,) = agent.plan.catalog.operations
        agent.plan.catalog._compiled[id(operation)].executor.executor = interpreter  # type: ignore[union-attr]
        reply = agent.invoke("How many crates?", session_id="s-1")
    assert (reply.text, interpreter.programs) == ("42 crates.", ["print(6 * 7)"])
    assert "get::codeinterpreteraction::execute" in str(model.requests[0].system)
    shown = [
        part["trace"]["orchestrationTrace"]["invocationInput"]
        for part in reply.trace
        if "invocationInput" in part["trace"].get("orchestrationTrace", {})
    ]
    assert shown[0]["invocationType"] == "ACTION_GROUP_CODE_INTERPRETER"
    assert shown[0]["codeInterpreterInvocationInput"]["code"] == "print(6 * 7)"


def test_a_parser_that_writes_the_members_of_functions_and_apis(place: Path) -> None:
    assert is_clean(place / "pantry")
    model = ScriptedModel(
        [
            '<think>Is there salt?</think><call>stock.find_item(item="salt")</call>',
            "<think>None.</think><final>There is no salt.</final>",
        ],
        "deepseek.r1-v1:0",
    )
    with Agent.load(place / "pantry", model=model) as agent:
        reply = agent.invoke("Do we have salt?", session_id="s-1")
    assert reply.text == "There is no salt."
    assert '{"item": "salt", "left": "none"}' in str(model.requests[1].messages)
    assert "Write <call>" in str(model.requests[0].system)  # templates/orchestration.txt
    assert members(reply.trace)[2:5] == ["rationale", "invocationInput", "observation ACTION_GROUP"]


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("verb", ["get::", "GET::", "post::", ""])
def test_a_verb_in_front_of_a_function(place: Path, verb: str, is_streamed: bool) -> None:
    assert is_clean(place / "ferry")
    call = f'<function_call>{verb}crossings::next_ferry(harbour="north", time="12:00")'
    model = ScriptedModel(
        [
            f"<scratchpad>The next one.</scratchpad>\n{call}</function_call>",
            "<scratchpad>17:40.</scratchpad>\n<answer>At 17:40.</answer>",
        ],
        "anthropic.claude-v2",
        chunk=3,
    )
    with Agent.load(place / "ferry", model=model) as agent:
        if is_streamed:
            events = list(agent.stream("A ferry this afternoon?", session_id="s-1"))
            text = "".join(getattr(event, "text", "") for event in events[:-1])
            assert text.startswith("At 17:40.")
        else:
            assert agent.invoke("A ferry this afternoon?", session_id="s-1").text == "At 17:40."
    (message,) = model.requests[1].messages  # the prompt of Claude 2 is one text
    text = message["content"][0]["text"]
    assert f"{call}</function_call>\n<function_result>\n('17:40',)\n</function_result>" in text


def test_a_verb_counts_for_apis_only() -> None:
    from orchestrator import ActionGroup, ReturnControl
    from orchestrator.actions import Catalog

    paths = {"/ferries": {"get": {"operationId": "listFerries"}}}
    schema = {"openapi": "3.0.0", "paths": paths}
    api = ActionGroup("api", api_schema=schema, executor=ReturnControl())
    functions = ActionGroup("f", functions=[{"name": "list_all"}], executor=ReturnControl())
    catalog = Catalog([api, functions])
    found = catalog.find("f", "list_all", "DELETE", "list_all")
    assert found is not None and found.name == "list_all"
    assert catalog.find("api", "listFerries", "DELETE", "listFerries") is None
    both = {"verb": "GET", "functionName": "list_all", "apiName": "listFerries"}
    names = [catalog.find_invocation({**both, "actionGroupName": group}) for group in ("f", "api")]
    assert [one and one.name for one in names] == ["list_all", "listFerries"]
