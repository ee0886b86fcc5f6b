"""An agent in a flow asks the user: the flow waits, and goes on with the answer."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from bedrock_flow_support import ready
from control_support import Served, calls, refused, says, served
from inline_snapshot import snapshot
from node_graphs import chain, data, end, flow, node, outputs, prompt, start, story

from orchestrator.models import ModelRequest

ASKS_USER = {
    "actionGroupName": "UserInputAction",
    "parentActionGroupSignature": "AMAZON.UserInput",
}


def answer(request: ModelRequest) -> Any:
    """A model that asks who it is about, once, and then knows."""
    if request.stage == "CONVERSE":
        return f"<{request.messages[-1]['content'][0]['text']}>"
    said = str(request.messages)
    if "Ada" in said:
        return says("Ada has twelve days.")
    return calls("user__askuser", {"question": "Who is it about?"})


def asking(server: Served) -> dict[str, Any]:
    """A node that asks an agent who may ask back."""
    agent = server.create()
    server.control.create_agent_action_group(agentId=agent, agentVersion="DRAFT", **ASKS_USER)
    server.prepare(agent)
    arn = server.world.agents.store.arns.alias(agent, "TSTALIASID")
    return node(
        "Ask",
        "Agent",
        [("agentInputText", "String")],
        [("agentResponse", "String")],
        agentAliasArn=arn,
    )


def say(
    server: Served, id: str, node: str, text: str, execution: str | None = None, **params: Any
) -> tuple[str, list[Any]]:
    """The execution's id, and the events."""
    member = (
        {"nodeOutputName": "document"} if node == "Start" else {"nodeInputName": "agentInputText"}
    )
    given = {"nodeName": node, "content": {"document": text}, **member}
    params |= {} if execution is None else {"executionId": execution}
    answered = server.runtime.invoke_flow(
        flowIdentifier=id, flowAliasIdentifier="TSTALIASID", inputs=[given], **params
    )
    with closing(answered["responseStream"]) as stream:
        return answered["executionId"], list(stream)


def test_a_flow_waits_for_the_answer_to_an_agents_question() -> None:
    with served(answer) as server:
        graph = flow(
            start(),
            prompt("Before", "{{text}}", ("text", "String")),
            asking(server),
            prompt("After", "{{text}}", ("text", "String")),
            end(),
            data("Start.document", "Before.text"),
            data("Before.modelCompletion", "Ask.agentInputText"),
            data("Ask.agentResponse", "After.text"),
            data("After.modelCompletion", "End.document"),
        )
        id = ready(server.control, graph)
        execution, events = say(server, id, "Start", "How many days?", enableTrace=True)
        assert story(events) == snapshot(
            [
                "Start gives document='How many days?'",
                "Start   -> Before.text",
                "Before takes text='How many days?' <- Start.document",
                "Before has Converse",
                "Before gives modelCompletion='<How many days?>'",
                "Before   -> Ask.agentInputText",
                "Ask takes agentInputText='<How many days?>' <- Before.modelCompletion",
                "Ask has orchestrationTrace ['modelInvocationInput']",
                "Ask has orchestrationTrace ['modelInvocationOutput']",
                "Ask has orchestrationTrace ['rationale']",
                "Ask has orchestrationTrace ['observation']",
                "Ask has InvokeAgent",
                "Ask asks 'Who is it about?'",
                "the end: INPUT_REQUIRED",
            ]
        )
        again, events = say(server, id, "Ask", "Ada", execution, enableTrace=True)
        assert again == execution
        # What was done before is done, and told, once.
        assert story(events) == snapshot(
            [
                "Ask has orchestrationTrace ['modelInvocationInput']",
                "Ask has orchestrationTrace ['modelInvocationOutput']",
                "Ask has orchestrationTrace ['rationale']",
                "Ask has orchestrationTrace ['observation']",
                "Ask has InvokeAgent",
                "Ask gives agentResponse='Ada has twelve days.'",
                "Ask   -> After.text",
                "After takes text='Ada has twelve days.' <- Ask.agentResponse",
                "After has Converse",
                "After gives modelCompletion='<Ada has twelve days.>'",
                "After   -> End.document",
                "End takes document='<Ada has twelve days.>' <- After.modelCompletion",
                "End outputs '<Ada has twelve days.>'",
                "the end: SUCCESS",
            ]
        )
        with refused("ResourceNotFoundException", "may have been answered already"):
            say(server, id, "Ask", "Ada", execution)


def test_a_run_that_waits_outlives_its_server(tmp_path: Path) -> None:
    state = tmp_path / "sessions.sqlite"
    with served(answer, state=state) as server:
        id = ready(server.control, chain(asking(server), "agentInputText", "agentResponse"))
        execution, _ = say(server, id, "Start", "How many days?")
    with served(answer, state=state) as server:
        with refused("ValidationException", "'End' does not wait for the user; there waits Ask"):
            say(server, id, "End", "Ada", execution)
        _, events = say(server, id, "Ask", "Ada", execution)
        assert outputs(events) == [("End", "Ada has twelve days.")]


def test_each_item_of_an_iterator_may_ask() -> None:
    with served(answer) as server:
        graph = flow(
            start("Array"),
            node(
                "Each",
                "Iterator",
                [("array", "Array")],
                [("arrayItem", "String"), ("arraySize", "Number")],
            ),
            asking(server),
            node(
                "All",
                "Collector",
                [("arrayItem", "String"), ("arraySize", "Number")],
                [("collectedArray", "Array")],
            ),
            end("Array"),
            data("Start.document", "Each.array"),
            data("Each.arrayItem", "Ask.agentInputText"),
            data("Ask.agentResponse", "All.arrayItem"),
            data("Each.arraySize", "All.arraySize"),
            data("All.collectedArray", "End.document"),
        )
        id = ready(server.control, graph)
        given = {"nodeName": "Start", "content": {"document": ["First?", "Second?"]}}
        answered = server.runtime.invoke_flow(
            flowIdentifier=id, flowAliasIdentifier="TSTALIASID", inputs=[given]
        )
        found = [story(answered["responseStream"])]
        for _ in range(2):
            _, events = say(server, id, "Ask", "Ada", answered["executionId"])
            found.append(story(events))
        assert found == snapshot(
            [
                ["Ask asks 'Who is it about?'", "the end: INPUT_REQUIRED"],
                ["Ask asks 'Who is it about?'", "the end: INPUT_REQUIRED"],
                [
                    "End outputs ['Ada has twelve days.', 'Ada has twelve days.']",
                    "the end: SUCCESS",
                ],
            ]
        )


@pytest.mark.parametrize("execution", [None, "unknown-one"])
def test_an_answer_belongs_to_a_run_that_waits(execution: str | None) -> None:
    with served(answer) as server:
        id = ready(server.control, chain(asking(server), "agentInputText", "agentResponse"))
        name = "ValidationException" if execution is None else "ResourceNotFoundException"
        with refused(name, "executionId" if execution is None else "waits for the user"):
            say(server, id, "Ask", "Ada", execution)
