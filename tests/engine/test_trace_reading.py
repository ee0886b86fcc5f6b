"""A trace is the same whenever and wherever it is read."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from engine_turns import HOUSE, roc_agent
from trace_turns import EACH_TURN, IDS, Turn
from whole_agents import (
    BOTH,
    INSTRUCTION,
    NATIVE,
    Calls,
    Family,
    agent,
    answer,
    live_parts,
    outcome,
    streamed,
)

from orchestrator import ActionGroup, Agent, Collaborator, ReturnControl, SQLiteStore, TurnEnd
from orchestrator.actions import ActionResult
from orchestrator.sessions import Sessions
from orchestrator.testing import FakeClock, InMemoryStore, ScriptedModel

QUESTION = "How many days have I left?"


class Ticking(FakeClock):
    """A clock that moves on whenever it is read, so that no two times are equal by accident."""

    def __call__(self) -> int:
        self.now += 1_000_003
        return self.now


@pytest.mark.parametrize(("turn", "family"), EACH_TURN, ids=IDS)
def test_the_live_trace_is_the_one_read_afterwards(turn: Turn, family: Family) -> None:
    asked = agent(
        family.model(turn.script(family), chunk=5),
        sessions=Sessions(clock=FakeClock()),
        **turn.agent_options(),
    )
    events, error = streamed(asked, QUESTION, "s-1")
    reply = error.reply if error else events[-1].reply
    assert live_parts(events) == reply.trace
    if turn.results is not None:
        results = reply.return_control.answer(turn.results)
        events, error = streamed(asked, "", "s-1", results=results)
        assert error is None
        assert live_parts(events) == events[-1].reply.trace
        assert live_parts(events)


@BOTH
def test_a_trace_that_is_read_later_has_no_later_turns(family: Family) -> None:
    def city() -> ActionResult:
        """Where the user is."""
        return ActionResult("Oslo", prompt_session_attributes={"city": "Oslo"})

    city.__annotations__["return"] = ActionResult
    post = {"POST_PROCESSING": {"promptState": "ENABLED"}}
    called = family.calls(("place::city", {}))
    final = ["<final_response>One.</final_response>", "<final_response>Two.</final_response>"]
    script = [
        called,
        answer("One."),
        final[0],
        answer("Two."),
        final[1],
        answer("Three."),
        "Three.",
    ]
    model = family.model(script)
    asked = agent(model, [ActionGroup("place", [city])], prompts=post)
    first = asked.invoke("First?", "s-1", prompt_session_attributes={"city": "Rome"})
    for question in ("Second?", "Third?"):
        asked.invoke(question, "s-1")
    told = json.dumps(first.trace)
    assert "Oslo" in told and "Rome" in told
    assert "Second?" not in told and "Two." not in told
    assert "Second?" in json.dumps(model.requests[-2].messages)


@BOTH
def test_events_of_a_trace_are_in_the_order_of_their_times(family: Family) -> None:
    script = [family.calls(("vacations::get_days", {"employee": "E-1"})), answer("12")]
    sessions = Sessions(clock=Ticking())
    events, _ = streamed(agent(family.model(script), Calls().groups(), sessions=sessions), "Q?")
    for parts in (live_parts(events), events[-1].reply.trace):
        times = [part["eventTime"] for part in parts]
        assert times == sorted(times)


@BOTH
def test_a_hand_over_keeps_its_time_when_its_trace_is_read_later(family: Family) -> None:
    clock = FakeClock()
    script = [family.calls(("house::light", {"on": True})), answer("It is on.")]
    asked = roc_agent(family.model(script), sessions=Sessions(clock=clock))
    first = asked.invoke("Light, please.", "s-1")
    assert first.return_control is not None
    parts = list(first.trace)
    clock.advance(1800)
    parts += asked.invoke(session_id="s-1", results=first.return_control.answer("on")).trace
    (turn,) = asked.turns("s-1")
    assert turn.trace == parts


def test_a_collaborators_results_keep_their_time_while_another_one_waits() -> None:
    clock = FakeClock()
    light = NATIVE.calls(("house::light", {"on": True}))
    groups = [ActionGroup("house", functions=HOUSE, executor=ReturnControl())]
    team = [
        Agent(name, INSTRUCTION, NATIVE.model([light, answer("It is on.")]), action_groups=groups)
        for name in ("left", "right")
    ]
    messages = [
        ("AgentCommunication::sendMessage", {"recipient": one.name, "content": "Light, please."})
        for one in team
    ]
    boss = Agent(
        "boss",
        INSTRUCTION,
        NATIVE.model([NATIVE.calls(*messages), answer("Done.")]),
        collaborators=[Collaborator(one, "Sees to its side.") for one in team],
        sessions=Sessions(clock=clock),
    )
    control = boss.invoke("Light, please.", "s-1").return_control
    assert control is not None
    clock.advance(1800)
    results = control.answer("on")
    events, _ = streamed(boss, "", "s-1", results=results)
    clock.advance(1800)
    assert boss.invoke(session_id="s-1", results=results).trace == live_parts(events)


@pytest.mark.parametrize(("turn", "family"), EACH_TURN, ids=IDS)
def test_async_and_sync_tell_the_same(turn: Turn, family: Family) -> None:
    script = turn.script(family)

    def made() -> Any:
        sessions = Sessions(clock=FakeClock())
        return agent(family.model(script), sessions=sessions, **turn.agent_options())

    async def asynchronously() -> list[Any]:
        events = []
        try:
            async for event in made().astream(QUESTION, "s-1"):
                events.append(event)
        except Exception as error:
            events.append(TurnEnd(error.reply))  # type: ignore[attr-defined]
        return events

    events = asyncio.run(asynchronously())
    reply = outcome(made(), QUESTION, "s-1")
    assert told(live_parts(events)) == told(reply.trace) == told(events[-1].reply.trace)
    assert events[-1].reply.text == reply.text


def told(parts: list[dict[str, Any]]) -> str:
    """The parts without the request's random id and the ids that are made from it."""
    ((_, first),) = parts[0]["trace"].items()
    request = (first.get("traceId") or next(iter(first.values()))["traceId"])[:36]
    text = json.dumps(parts).replace(request, "<request>")
    text = re.sub(r"(<source>\\+n)[0-9a-f]+", r"\1<id>", text)
    text = re.sub(r"msg_bdrk_[0-9a-f]+", "<message>", text)
    found = json.loads(text)
    _forget(found)
    return json.dumps(found)


def _forget(value: Any) -> None:
    if isinstance(value, dict):
        value.pop("clientRequestId", None)
        if "invocationId" in value:
            value["invocationId"] = ""
        for item in value.values():
            _forget(item)
    elif isinstance(value, list):
        for item in value:
            _forget(item)


@BOTH
def test_the_same_results_again_give_the_same_reply_and_trace_in_another_process_too(
    family: Family, tmp_path: Path
) -> None:
    turn = next(one for one, _ in EACH_TURN if one.name == "return of control")
    file = tmp_path / "sessions.db"
    script = turn.script(family)
    first = agent(family.model(script), sessions=SQLiteStore(file), **turn.agent_options())
    control = first.invoke(QUESTION, "s-1").return_control
    results = control.answer(turn.results)
    reply = first.invoke(session_id="s-1", results=results)
    again = first.invoke(session_id="s-1", results=results)
    assert (again.text, again.trace) == (reply.text, reply.trace)
    # A new agent on the same file, whose model has nothing to say.
    other = agent(family.model([]), sessions=SQLiteStore(file), **turn.agent_options())
    reread = other.invoke(session_id="s-1", results=results)
    assert (reread.text, reread.trace) == (reply.text, reply.trace)
    assert reread.trace


@pytest.mark.parametrize(("turn", "family"), EACH_TURN, ids=IDS)
def test_a_new_process_reads_the_same_trace_from_the_journal(
    turn: Turn, family: Family, tmp_path: Path
) -> None:
    def made(script: list[Any]) -> Any:
        store = SQLiteStore(tmp_path / "sessions.db")
        sessions = Sessions(store, clock=FakeClock())
        return agent(family.model(script), sessions=sessions, **turn.agent_options())

    first = made([answer("Hello."), *turn.script(family)])
    if "prompts" not in turn.agent_options():
        first.invoke("Hi", "s-1")  # a turn before, whose history the prompts tell
    else:
        first = made(turn.script(family))
    reply = outcome(first, QUESTION, "s-1")
    assert made([]).turns("s-1")[-1].trace == reply.trace


def test_a_trace_goes_by_the_type_of_a_damaged_reply() -> None:
    class Store(InMemoryStore):  # of another class, so that replies are kept as they were read
        pass

    store = Store()
    model = ScriptedModel(["<answer>Twelve."], "anthropic.claude-3-5-sonnet-20240620-v1:0")
    agent = Agent("hr", "You answer questions.", model, sessions=store)
    agent.invoke("How many?", "s-1")
    (info,) = store.list()
    (reply,) = (it for it in store.load(info.key) if it["kind"] == "model")
    details = reply["response"]["orchestrationParsedResponse"]["responseDetails"]
    details |= {"invocationType": None, "agentFinalResponse": {}}
    (turn,) = Agent("hr", "You answer questions.", model, sessions=store).turns("s-1")
    parts = [part["trace"]["orchestrationTrace"] for part in turn.trace]
    assert [it for one in parts for it in one][-1] == "modelInvocationOutput"
