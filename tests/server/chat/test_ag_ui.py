"""AG-UI: runs as events, returns of control as interrupts, and their answers."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import Event
from chat_support import CLAUDE, calls, function, group, says, served, write_agent
from pydantic import TypeAdapter
from server_requests import write_keys

from orchestrator import DependencyFailed
from orchestrator.testing import ScriptedModel

ONE = {"actionGroups": [group(function("get_days"), function("book"))]}
ASKS = {"actionGroups": [group(function("book", confirms=True))]}
DAYS = ("hr__get_days", {"employee": "e7", "days": "3"})
BOOK = ("hr__book", {"employee": "e7"})
ANY = TypeAdapter(Event)


def body(text: str = "How many?", thread: str = "thread-1", **members: Any) -> dict[str, Any]:
    messages = [{"id": "m-1", "role": "user", "content": text}]
    return {
        "protocolVersion": "1.0",
        "threadId": thread,
        "runId": "run-1",
        "state": {},
        "messages": messages,
        "tools": [],
        "context": [],
        "forwardedProps": {},
        **members,
    }


def run(server: Any, path: str = "/ag-ui", **members: Any) -> list[dict[str, Any]]:
    heard = server.ask("POST", path, body(**members))
    assert heard.status == 200, heard.body
    assert heard.headers["content-type"].startswith("text/event-stream")
    for event in heard.events:
        ANY.validate_python(event)
    return heard.events


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


def answers(events: list[dict[str, Any]], *statuses: Any) -> list[dict[str, Any]]:
    interrupts = events[-1]["outcome"]["interrupts"]
    return [
        {"interruptId": one["id"], "status": "cancelled"}
        if answer is None
        else {"interruptId": one["id"], "status": "resolved", "payload": answer}
        for one, answer in zip(interrupts, statuses, strict=True)
    ]


def write_acting_agent(folder: Any) -> None:
    """An agent whose one function, `book`, is carried out by the server."""
    executor = {"lambda": "b.py"}
    write_agent(folder, "vacations", actionGroups=[group(function("book"), executor=executor)])
    (folder / "b.py").write_text(
        "def lambda_handler(event, context):\n"
        "    body = {'TEXT': {'body': 'booked'}}\n"
        "    return {'messageVersion': '1.0', 'response': {'actionGroup': event['actionGroup'],\n"
        "        'function': event['function'], 'functionResponse': {'responseBody': body}}}\n"
    )


def test_an_answer_streams(start):
    events = run(start([says("Five days.")], chunk=6))
    assert kinds(events)[:2] == ["RUN_STARTED", "STEP_STARTED"]
    assert kinds(events)[-2:] == ["STATE_SNAPSHOT", "RUN_FINISHED"]
    assert len(of(events, "TEXT_MESSAGE_START")) == len(of(events, "TEXT_MESSAGE_END")) == 1
    pieces = [event["delta"] for event in of(events, "TEXT_MESSAGE_CONTENT")]
    assert (len(pieces) > 1, "".join(pieces)) == (True, "Five days.")
    assert [event["delta"] for event in of(events, "REASONING_MESSAGE_CONTENT")] == ["I know it."]
    assert of(events, "MESSAGES_SNAPSHOT") == []
    assert events[0]["threadId"] == events[-1]["threadId"] == "thread-1"
    assert events[-1]["runId"] == "run-1"
    assert events[-1]["outcome"] == {"type": "success"}
    assert events[-1]["result"] == {"stopReason": "end_turn"}
    started, finished = of(events, "STEP_STARTED"), of(events, "STEP_FINISHED")
    assert [it["stepName"] for it in started] == [it["stepName"] for it in finished]
    assert started[0]["stepName"] == "ORCHESTRATION-1"


def test_the_thread_is_the_session(start):
    server = start([says("Hello."), says("You said hi.")])
    run(server, text="Hi")
    run(server, text="What did I say?")
    assert "Hi" in str(server.model.requests[1].messages)
    run_of_another = server.model.requests[1].messages
    assert len(run_of_another) == 3


def test_a_call_is_shown_with_its_result(tmp_path):
    write_acting_agent(tmp_path / "agents" / "vacations")
    model = ScriptedModel([calls(BOOK), says("Done.")], CLAUDE)
    with served(model, tmp_path / "agents") as server:
        events = run(server)
    (start,) = of(events, "TOOL_CALL_START")
    assert start["toolCallName"] == "hr::book"
    (arguments,) = of(events, "TOOL_CALL_ARGS")
    assert arguments["delta"] == '{"employee": "e7"}'
    (result,) = of(events, "TOOL_CALL_RESULT")
    assert (result["toolCallId"], result["content"]) == (start["toolCallId"], "booked")
    order = kinds(events)
    assert order.index("TOOL_CALL_END") < order.index("TOOL_CALL_RESULT")
    assert order.index("TOOL_CALL_RESULT") < order.index("TEXT_MESSAGE_START")


def test_a_return_of_control_is_an_interrupt(start):
    server = start([calls(DAYS, BOOK), says("Five days.")], members=ONE)
    events = run(server)
    names = [event["toolCallName"] for event in of(events, "TOOL_CALL_START")]
    assert names == ["hr__get_days", "hr__book"]
    outcome = events[-1]["outcome"]
    assert outcome["type"] == "interrupt"
    assert [it["reason"] for it in outcome["interrupts"]] == ["tool_call", "tool_call"]
    ids = [it["toolCallId"] for it in outcome["interrupts"]]
    assert ids == [event["toolCallId"] for event in of(events, "TOOL_CALL_START")]
    resumed = run(server, messages=[], resume=answers(events, "5 days", {"id": 7}))
    assert "".join(it["delta"] for it in of(resumed, "TEXT_MESSAGE_CONTENT")) == "Five days."
    last = str(server.model.requests[1].messages)
    assert "5 days" in last
    assert '{"id":7}' in last.replace("\\", "").replace(" ", "")


def test_tool_messages_answer_too(start):
    server = start([calls(DAYS), says("Five days.")], members=ONE)
    (interrupt,) = run(server)[-1]["outcome"]["interrupts"]
    tool = {"id": "m-2", "role": "tool", "toolCallId": interrupt["id"], "content": "5 days"}
    resumed = run(server, messages=[*body()["messages"], tool])
    assert resumed[-1]["outcome"] == {"type": "success"}


@pytest.mark.parametrize(
    ("answer", "denied"), [("CONFIRM", False), (True, False), (False, True), (None, True)]
)
def test_a_confirmation(start, answer, denied):
    server = start([calls(BOOK), says("So be it.")], members=ASKS)
    events = run(server)
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    assert "CONFIRM" in str(interrupt["responseSchema"]) or interrupt["reason"] == "tool_call"
    run(server, messages=[], resume=answers(events, answer))
    assert ("did not confirm" in str(server.model.requests[1].messages)) is denied


def test_a_cancelled_call_is_no_result(start):
    server = start([calls(DAYS), says("Then not.")], members=ONE)
    run(server, messages=[], resume=answers(run(server), None))
    assert "The user cancelled this call." in str(server.model.requests[1].messages)


def test_all_interrupts_have_to_be_answered(start):
    server = start([calls(DAYS, BOOK)], members=ONE)
    resume = answers(run(server), "5 days", "booked")[:1]
    heard = server.ask("POST", "/ag-ui", body(messages=[], resume=resume))
    assert heard.status == 400
    assert "hr__book" in heard.json["error"]["message"]


def test_an_interrupt_of_another_thread_is_refused(start):
    server = start([calls(DAYS)], members=ONE)
    resume = answers(run(server), "5 days")
    heard = server.ask("POST", "/ag-ui", body(thread="thread-2", messages=[], resume=resume))
    assert heard.status == 400
    assert "another session" in heard.json["error"]["message"]


def test_the_state_is_that_of_the_session(start):
    server = start([says("Hi."), says("Hi.")])
    events = run(server, state={"employee": "e7"})
    assert of(events, "STATE_SNAPSHOT")[0]["snapshot"] == {"employee": "e7"}
    assert of(run(server), "STATE_SNAPSHOT")[0]["snapshot"] == {"employee": "e7"}


def test_a_failure_ends_the_run(start):
    events = run(start([DependencyFailed("the model is down")]))
    assert kinds(events)[-1] == "RUN_ERROR"
    assert "RUN_FINISHED" not in kinds(events)
    assert events[-1]["code"] == "DependencyFailedException"
    assert events[-1]["message"]


def test_text_that_was_given_up_is_replaced(tmp_path):
    # The first reply streams an answer, and calls something all the same.
    first = [{"text": "<answer>Maybe five"}, *calls(BOOK)]
    write_acting_agent(tmp_path / "agents" / "vacations")
    model = ScriptedModel([first, says("Six.")], CLAUDE, chunk=6)
    with served(model, tmp_path / "agents") as server:
        events = run(server)
    assert "Maybe" in "".join(it["delta"] for it in of(events, "TEXT_MESSAGE_CONTENT"))
    (snapshot,) = of(events, "MESSAGES_SNAPSHOT")
    assert [one["content"] for one in snapshot["messages"]] == ["How many?", "Six."]
    assert kinds(events).index("MESSAGES_SNAPSHOT") > kinds(events).index("TEXT_MESSAGE_END")


def test_each_tenant_has_threads_of_its_own(start, tmp_path):
    tenants = {"team-a": "key-of-team-a-0123456789", "team-b": "key-of-team-b-0123456789"}
    keys = [{"tenant": name, "apiKey": key, "allow": ["*"]} for name, key in tenants.items()]
    script = [says("Noted."), calls(DAYS), says("I know nothing."), says("Five days.")]
    server = start(script, members=ONE, keys=write_keys(tmp_path, keys))

    def ask(tenant: str, **members: Any) -> Any:
        key = {"Authorization": f"Bearer {tenants[tenant]}"}
        return server.ask("POST", "/ag-ui", body(**members), **key)

    assert server.ask("POST", "/ag-ui", body()).status == 403
    assert server.model.requests == []
    assert ask("team-a", text="My secret is 4711.", state={"who": "a"}).status == 200
    asked = ask("team-a", text="And my days?").events
    resume = answers(asked, "5 days")
    # The other tenant's thread of the same id knows nothing, and cannot answer for the first.
    assert ask("team-b", messages=[], resume=resume).status == 404
    other = ask("team-b", text="What is my secret?").events
    assert "4711" not in str(server.model.requests[-1].messages)
    assert of(other, "STATE_SNAPSHOT")[0]["snapshot"] == {}
    ended = ask("team-a", messages=[], resume=resume).events
    assert ended[-1]["outcome"] == {"type": "success"}
    assert of(ended, "STATE_SNAPSHOT")[0]["snapshot"] == {"who": "a"}


WRONG = {
    "no body": ({}, "is no RunAgentInput: threadId"),
    "a tool of the page": (
        body(tools=[{"name": "f", "description": "", "parameters": {}}]),
        "'tools' of the page are not supported",
    ),
    "no message": (body(messages=[]), "the last message must be of the role 'user'"),
    "a state that is no text": (body(state={"a": 1}), "'state' holds the session's attributes"),
    "a bad thread": (body(thread="no/such thread"), "session"),
    "an unknown interrupt": (
        body(messages=[], resume=[{"interruptId": "x", "status": "resolved"}]),
        "is none of an agent's tool calls",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_before_the_run(start, name):
    asked, message = WRONG[name]
    heard = start([]).ask("POST", "/ag-ui", asked)
    assert heard.status == 400
    assert message in heard.json["error"]["message"]


def test_one_of_several_agents_is_named_in_the_path(tmp_path):
    for name in ("one", "two"):
        write_agent(tmp_path / "agents" / name, name)
    with served(ScriptedModel([says("Hi.")], CLAUDE), tmp_path / "agents") as server:
        assert server.ask("POST", "/ag-ui", body()).status == 400
        assert server.ask("POST", "/ag-ui/three", body()).status == 404
        assert kinds(run(server, "/ag-ui/two"))[-1] == "RUN_FINISHED"
