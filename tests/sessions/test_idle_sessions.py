"""Sessions in memory are freed when they were idle for longer than their time-out."""

from __future__ import annotations

from typing import Any

import pytest
from whole_agents import INSTRUCTION, NATIVE, agent, answer, texts_of

from orchestrator import ActionGroup, Agent, ReturnControl, SessionConflict, Sessions
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.models.base import Usage
from orchestrator.testing import FakeClock

TTL = 60
ENOUGH = 16  # so many turns look for idle sessions at least once
DOOR = {"name": "open_door", "description": "Opens.", "parameters": {}}


class Greeter(Model):
    """Answers whatever it is asked."""

    model_id = NATIVE.model_id

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        text = answer("Hello.")
        if request.stage == "MEMORY_SUMMARIZATION":
            text = "<summary><topic name='t'>said hello</topic></summary>"
        return ModelReply([{"text": text}], "end_turn", Usage(1, 1, calls=1))


def greeter(clock: FakeClock, ttl: int = TTL, **options: Any) -> Agent:
    options.setdefault("sessions", Sessions(clock=clock))
    return Agent("hr", INSTRUCTION, Greeter(), idle_session_ttl=ttl, **options)


def stored(agent: Agent) -> set[str]:
    return {info.label.rpartition("/")[2] for info in agent.sessions.store.list()}


def test_idle_sessions_are_freed_by_the_next_ones() -> None:
    clock = FakeClock()
    asked = greeter(clock)
    for n in range(ENOUGH):
        asked.invoke("Hello?", f"old-{n}")
    clock.advance(TTL + 1)
    for n in range(ENOUGH):
        asked.invoke("Hello?", f"new-{n}")
    assert stored(asked) == {f"new-{n}" for n in range(ENOUGH)}
    assert {label.rpartition("/")[2] for label in asked.sessions._cache._sessions} == stored(asked)


def test_no_more_than_twice_as_many_stay_as_must() -> None:
    clock = FakeClock()
    asked = greeter(clock)
    most = 0
    for n in range(1000):
        asked.invoke("Hello?", f"s-{n}")
        clock.advance(1)
        most = max(most, len(stored(asked)))
    assert most <= 2 * (TTL + 2 + ENOUGH)


def test_a_session_that_is_used_stays() -> None:
    clock, model = FakeClock(), Greeter()
    sessions = Sessions(clock=clock)
    asked = Agent("hr", INSTRUCTION, model, idle_session_ttl=TTL, sessions=sessions)
    asked.invoke("I am Ana.", "ana")
    for n in range(2 * ENOUGH):
        clock.advance(TTL - 1)
        asked.invoke("Hello?", f"s-{n}")
        asked.invoke("Who am I?", "ana")
    assert "I am Ana." in texts_of(model.asked[-1])
    assert len(asked.turns("ana")) == 2 * ENOUGH + 1


def test_each_session_has_the_time_out_of_its_agent() -> None:
    clock = FakeClock()
    sessions = Sessions(clock=clock)
    short = greeter(clock, sessions=sessions)
    long = greeter(clock, 10 * TTL, sessions=sessions, agent_id="ABCDEFGHIJ")
    short.invoke("Hello?", "short")
    long.invoke("Hello?", "long")
    clock.advance(TTL + 1)
    for _ in range(ENOUGH):
        short.invoke("Hello?", "other")
    assert stored(short) == {"long", "other"}
    clock.advance(10 * TTL)
    for _ in range(ENOUGH):
        short.invoke("Hello?", "other")
    assert stored(short) == {"other"}


def test_a_session_whose_turn_runs_stays() -> None:
    clock = FakeClock()
    asked = greeter(clock)
    asked.invoke("I am Ana.", "ana")
    events = asked.stream("Who am I?", "ana")
    next(events)
    clock.advance(TTL + 1)
    for n in range(ENOUGH):
        asked.invoke("Hello?", f"s-{n}")
    assert "ana" in stored(asked)
    list(events)
    assert [turn.text for turn in asked.turns("ana")] == ["Hello.", "Hello."]


def test_a_turn_that_waits_is_freed_with_its_session() -> None:
    clock = FakeClock()
    model = NATIVE.model([NATIVE.calls(("house::open_door", {}))] + [answer("Hello.")] * ENOUGH)
    house = ActionGroup("house", functions=[DOOR], executor=ReturnControl())
    asked = agent(model, [house], sessions=Sessions(clock=clock), idle_session_ttl=TTL)
    assert asked.invoke("Open.", "s-1").return_control is not None
    clock.advance(TTL + 1)
    for _ in range(ENOUGH):
        asked.invoke("Hello?", "s-2")
    assert stored(asked) == {"s-2"}


def test_a_session_that_its_user_ended_is_freed_too() -> None:
    clock = FakeClock()
    asked = greeter(clock)
    asked.invoke("Hello?", "s-1")
    asked.end_session("s-1")
    asked.invoke("Hello?", "s-2", end_session=True)
    assert len(asked.turns("s-1")) == 1  # it can be read until then
    clock.advance(TTL + 1)
    for _ in range(ENOUGH):
        asked.invoke("Hello?", "s-3")
    assert stored(asked) == {"s-3"}


def test_a_session_of_a_memory_stays_until_it_is_summarised() -> None:
    clock = FakeClock()
    asked = greeter(clock, memory=":memory:")
    asked.invoke("Hello?", "s-1", memory_id="ana")
    clock.advance(TTL + 1)
    asked.invoke("Hello?", "s-2", memory_id="bob")
    for _ in range(ENOUGH):
        asked.invoke("Hello?", "s-3")
    assert {"s-1", "s-2"} <= stored(asked)
    asked.remember()
    (kept,) = asked.memories("ana")
    assert kept["sessionSummary"]["sessionId"] == "s-1"
    clock.advance(TTL + 1)
    for _ in range(ENOUGH):
        asked.invoke("Hello?", "s-3")
    assert stored(asked) == {"s-2", "s-3"}  # that one was not idle yet


def test_ending_what_never_was_keeps_nothing() -> None:
    asked = greeter(FakeClock())
    for n in range(100):
        asked.end_session(f"s-{n}")
    assert len(asked.sessions._cache._sessions) <= 2 * ENOUGH
    assert stored(asked) == set()


@pytest.mark.parametrize("cached", [1, 10_000])
def test_sessions_that_are_no_longer_decoded_are_freed_too(cached: int) -> None:
    clock = FakeClock()
    asked = greeter(clock, sessions=Sessions(clock=clock, cached=cached))
    for n in range(5):
        asked.invoke("Hello?", f"s-{n}")
    asked.end_session("s-0")
    clock.advance(TTL + 1)
    for _ in range(ENOUGH):
        asked.invoke("Hello?", "last")
    assert stored(asked) == {"last"}


def test_stored_sessions_are_not_deleted(tmp_path: Any) -> None:
    clock = FakeClock()
    asked = greeter(clock, sessions=Sessions.of(tmp_path / "s.db"))
    asked.sessions.clock = clock
    asked.invoke("Hello?", "s-1")
    clock.advance(TTL + 1)
    for _ in range(ENOUGH):
        asked.invoke("Hello?", "s-2")
    assert stored(asked) == {"s-1", "s-2"}


@pytest.mark.parametrize(("most", "gone"), [(20, 2), (5, 1)])
def test_a_tenth_of_the_idle_sessions_makes_room_for_more(most: int, gone: int) -> None:
    asked = greeter(FakeClock(), sessions=Sessions(clock=FakeClock(), cached=most))
    for n in range(most + 1):
        asked.invoke("Hello?", f"s-{n}")
    labels = [label.rpartition("/")[2] for label in asked.sessions._cache._sessions]
    assert labels == [f"s-{n}" for n in range(gone, most + 1)]


def test_a_session_that_is_taken_is_named_without_its_agent() -> None:
    sessions = Sessions()
    sessions.acquire("AGENT/ALIAS/s-1", TTL)
    with pytest.raises(SessionConflict, match=r"^session 's-1' is busy with another"):
        sessions.acquire("AGENT/ALIAS/s-1", TTL)
