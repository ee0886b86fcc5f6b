"""Whole turns that handlers orchestrate which are written as AWS's samples are."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from custom_support import HANDLERS, LOOK, handled, told
from loopback import Sent, Site
from whole_agents import CLAUDE_3, NATIVE, XML, Calls, agent, live_parts, roles, streamed, texts_of

from orchestrator import ActionGroup, Agent, ReturnControl, SQLiteStore
from orchestrator.flows.custom import LambdaOrchestration
from orchestrator.testing import ScriptedModel

STEPS = [
    "custom asking after START",
    "modelInvocationInput",
    "modelInvocationOutput",
    "custom calling a tool",
    "invocationInput",
    "observation ACTION_GROUP",
    "custom asking after TOOL_INVOKED",
    "modelInvocationInput",
    "modelInvocationOutput",
    "custom done",
    "observation FINISH",
]


@pytest.mark.parametrize("family", [NATIVE, XML], ids=lambda family: family.name)
def test_react(family: Any) -> None:
    calls, model = Calls(), family.model([LOOK, "You have 12 days.", "I am."])
    orchestration = LambdaOrchestration("react.py", HANDLERS)
    hr = agent(model, calls.groups(), orchestration=orchestration)
    reply = hr.invoke("How many days?", session_id="s-1", prompt_session_attributes={"of": "Ann"})
    assert reply.text == "You have 12 days."
    assert calls.made == [("get_days", {"employee": "7", "year": 2026})]
    assert told(reply) == STEPS
    first = model.requests[0]
    assert first.system == 'You help employees with their vacations. {"of": "Ann"}'
    assert first.inference == {"maximumLength": 500, "temperature": 0.7, "topP": 0.9}
    assert [spec["toolSpec"]["name"] for spec in first.tools] == [
        "vacations__get_days",
        "vacations__book",
    ]
    # Messages are made of the session's steps again.
    assert texts_of(model.requests[1])[1:] == ["How many days?", "I look.", "", "", "12"]
    assert hr.invoke("Are you sure?", session_id="s-1").text == "I am."
    again = model.requests[2]
    assert roles(again) == ["user", "assistant", "user", "assistant", "user"]
    assert texts_of(again)[-2:] == ["You have 12 days.", "Are you sure?"]


def test_rewoo() -> None:
    plan = [
        {"tool": "vacations__get_days", "input": {"employee": "7"}},
        {"tool": "vacations__book", "input": {"employee": "7", "days": "2"}},
    ]
    hr, model, calls = handled("rewoo.py:plan_and_execute", [json.dumps(plan), 'Booked: "2".'])
    reply = hr.invoke("Book two of my days", session_id="s-1", session_attributes={"a": "b"})
    assert reply.text == 'Booked: "2".'
    assert calls.made[1] == ("book", {"employee": "7", "days": 2})
    assert texts_of(model.requests[1])[-1] == "Sum up: ['12', '12']"
    assert told(reply).count("observation ACTION_GROUP") == 2
    ids = [part["trace"]["orchestrationTrace"] for part in reply.trace if "custom" not in str(part)]
    assert {one["traceId"].rpartition("-")[2] for it in ids for one in it.values()} == {
        *("0", "1", "2")
    }
    # It replaced the session's attributes, and what is no text was left out.
    (info,) = hr.sessions.store.list()
    kept = [it for it in hr.sessions.store.load(info.key) if it["kind"] == "orchestrated"]
    assert kept[-1]["attributes"] == {"state": "{}"}
    assert [it["event"] for it in kept] == [
        *("INVOKE_MODEL", "INVOKE_TOOL", "INVOKE_TOOL", "INVOKE_MODEL", "FINISH")
    ]


def test_several_calls_of_a_reply_of_which_the_handler_carries_out_the_first() -> None:
    both = [*LOOK, {"toolUse": {"toolUseId": "t2", "name": "vacations__book", "input": {}}}]
    hr, model, calls = handled("react.py", [both, "12 days."])
    assert hr.invoke("How many?", session_id="s-1").text == "12 days."
    assert [name for name, _ in calls.made] == ["get_days"]
    # Providers refuse a tool use without a result.
    uses = [block for it in model.requests[1].messages for block in it["content"]]
    assert [it["toolUse"]["toolUseId"] for it in uses if "toolUse" in it] == ["t1"]


def test_a_streamed_turn_tells_the_same() -> None:
    hr, _, _ = handled("react.py", [LOOK, "You have 12 days."])
    events, error = streamed(hr, "How many days?", session_id="s-1")
    assert error is None
    reply = events[-1].reply
    assert reply.text == "You have 12 days."
    assert [part["trace"].keys() for part in live_parts(events)] == [
        part["trace"].keys() for part in reply.trace
    ]


def test_an_asynchronous_turn_does_the_same() -> None:
    hr, _, calls = handled("react.py", [LOOK, "You have 12 days."])
    reply = asyncio.run(hr.ainvoke("How many days?", session_id="s-1"))
    assert (reply.text, told(reply)) == ("You have 12 days.", STEPS)
    assert len(calls.made) == 1


def test_a_call_that_the_caller_carries_out(tmp_path: Path) -> None:
    def get_days(employee: str) -> str:
        """Days left."""
        raise AssertionError("the caller does it")

    def made(*script: Any) -> tuple[Agent, ScriptedModel]:
        model = NATIVE.model(list(script))
        group = ActionGroup("vacations", [get_days], ReturnControl())
        orchestration = LambdaOrchestration("react.py", HANDLERS)
        sessions = SQLiteStore(tmp_path / "sessions.db")
        return agent(model, [group], orchestration=orchestration, sessions=sessions), model

    first, _ = made(LOOK)
    waits = first.invoke("How many days?", session_id="s-1")
    assert waits.stop_reason == "return_control" and waits.return_control is not None
    assert told(waits)[-1] == "invocationInput"
    # Another process goes on: nothing is asked twice.
    second, model = made("You have 9 days.")
    reply = second.invoke(session_id="s-1", results=waits.return_control.answer("9"))
    assert reply.text == "You have 9 days."
    assert texts_of(model.requests[0])[-1] == "9"
    assert told(reply)[0] == "observation ACTION_GROUP"


def test_a_restarted_process_knows_the_turns_before(tmp_path: Path) -> None:
    def made(*script: Any) -> tuple[Agent, ScriptedModel]:
        hr, model, _ = handled("react.py", list(script), sessions=SQLiteStore(tmp_path / "s.db"))
        return hr, model

    made(LOOK, "You have 12 days.")[0].invoke("How many days?", session_id="s-1")
    again, model = made("I am.")
    assert again.invoke("Are you sure?", session_id="s-1").text == "I am."
    assert roles(model.requests[0]) == ["user", "assistant", "user", "assistant", "user"]
    assert texts_of(model.requests[0])[4:6] == ["", "12"]
    assert [len(turn.trace) for turn in again.turns("s-1")] == [11, 5]


def test_a_conversation_history_is_told_as_turns() -> None:
    hr, model, _ = handled("react.py", ["Ann."])
    history = [
        {"role": "user", "content": [{"text": "I am Ann."}]},
        {"role": "assistant", "content": [{"text": "Hello, Ann."}]},
    ]
    hr.invoke("Who am I?", session_id="s-1", conversation_history=history)
    assert texts_of(model.requests[0])[1:] == ["I am Ann.", "Hello, Ann.", "Who am I?"]


def test_an_agent_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "orchestration.py").write_text((HANDLERS / "react.py").read_text())
    (tmp_path / "agent.yaml").write_text(
        "agentName: hr\ninstruction: You help.\nfoundationModel: local\n"
        "orchestrationType: CUSTOM_ORCHESTRATION\n"
        "customOrchestration: {executor: {lambda: orchestration.py}}\n"
    )
    hr = Agent.load(tmp_path, model=ScriptedModel(["Hello."], CLAUDE_3))
    assert hr.invoke("Hi", session_id="s-1").text == "Hello."


def test_a_lambda_function_by_its_arn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    request = {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}
    replies = [
        {"actionEvent": "INVOKE_MODEL", "output": {"text": json.dumps(request)}},
        {"actionEvent": "FINISH", "output": {"text": "Done."}},
    ]
    with Site(*[Sent(json.dumps(one).encode()) for one in replies]).running() as site:
        monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", site.url("127.0.0.1"))
        arn = "arn:aws:lambda:eu-central-1:123456789012:function:orchestrate:live"
        hr = agent(NATIVE.model(["x"]), orchestration=LambdaOrchestration(arn))
        assert hr.invoke("Hi", session_id="s-1").text == "Done."
    states = [json.loads(got.body)["state"] for got in site.got]
    assert states == ["START", "MODEL_INVOKED"]
    assert "function%3Aorchestrate%3Alive/invocations" in site.got[0].path
