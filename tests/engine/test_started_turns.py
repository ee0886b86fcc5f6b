"""`start` and `astart`: what is wrong with a call is known before its first event."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_turns import roc_agent
from whole_agents import INSTRUCTION, NATIVE, answer

from orchestrator import Agent, DependencyFailed, SessionConflict, SQLiteStore, ValidationError
from orchestrator.engine.results import ControlReturn
from orchestrator.sessions import Sessions
from orchestrator.testing import FakeClock


@pytest.fixture(params=["memory", "sqlite"])
def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sessions]:
    store = SQLiteStore(tmp_path / "s.sqlite") if request.param == "sqlite" else None
    yield Sessions(store, clock=FakeClock())
    if store is not None:
        store.close()


def hr(sessions: Sessions, *script: Any) -> Agent:
    return Agent("hr", INSTRUCTION, NATIVE.model(list(script)), sessions=sessions)


def told(events: list[Any]) -> list[Any]:
    return [(type(event).__name__, getattr(event, "text", None)) for event in events]


async def collected(agent: Agent, **options: Any) -> list[Any]:
    return [event async for event in await agent.astart("Hello", "s-1", **options)]


def test_the_events_are_those_of_a_stream(sessions: Sessions) -> None:
    streamed = list(hr(sessions, answer("Hello.")).stream("Hello", "s-2"))
    started = list(hr(sessions, answer("Hello.")).start("Hello", "s-3"))
    awaited = asyncio.run(collected(hr(sessions, answer("Hello."))))
    assert told(streamed) == told(started) == told(awaited)
    assert len(streamed) > 2


def test_what_is_wrong_with_the_call_is_raised_by_it(sessions: Sessions) -> None:
    agent = hr(sessions)
    with pytest.raises(ValidationError, match="session_id"):
        agent.start("Hello", "no spaces")
    with pytest.raises(ValidationError, match="the question is empty"):
        agent.start("", "s-1")
    with pytest.raises(ValidationError, match="session_id"):
        asyncio.run(agent.astart("Hello", "no spaces"))
    with pytest.raises(ValidationError, match="the question is empty"):
        asyncio.run(agent.astart("", "s-1"))
    assert agent.turns("s-1") == []


def test_the_session_is_taken_before_the_model_is_asked(sessions: Sessions) -> None:
    agent = hr(sessions, answer("Hello."))

    async def main() -> None:
        events = await agent.astart("Hello", "s-1")
        assert agent.plan.orchestration.model.requests == []  # type: ignore[attr-defined]
        with pytest.raises(SessionConflict):
            await agent.astart("Hello", "s-1")
        assert [event async for event in events]

    asyncio.run(main())
    assert [turn.text for turn in agent.turns("s-1")] == ["Hello."]


def test_closing_it_before_its_first_event_gives_the_session_back(sessions: Sessions) -> None:
    agent = hr(sessions, answer("One."), answer("Two."))
    agent.start("Hello", "s-1").close()

    async def main() -> str:
        events = await agent.astart("Hello", "s-1")
        await events.aclose()
        return (await agent.ainvoke("Hello", "s-1")).text

    assert asyncio.run(main()) == "One."
    reasons = [turn.stop_reason for turn in agent.turns("s-1")]
    assert reasons == ["cancelled", "cancelled", "end_turn"]


def test_what_goes_wrong_later_is_raised_by_the_events(sessions: Sessions) -> None:
    events = hr(sessions, DependencyFailed("broken")).start("Hello", "s-1")
    with pytest.raises(DependencyFailed, match="broken"):
        list(events)

    async def main() -> None:
        await collected(hr(sessions, DependencyFailed("broken")))

    with pytest.raises(DependencyFailed, match="broken"):
        asyncio.run(main())


def test_results_that_were_given_before_give_the_same_reply(sessions: Sessions) -> None:
    call = NATIVE.calls(("house::open_door", {"door": "front"}))
    agent = roc_agent(NATIVE.model([call, answer("It is open.")]), sessions=sessions)
    (control,) = [it for it in agent.start("Open", "s-1") if isinstance(it, ControlReturn)]
    results = control.answer({"open_door": "done"})
    first = list(agent.start(session_id="s-1", results=results))
    again = list(agent.start(session_id="s-1", results=results))
    assert first[-1].reply.text == again[-1].reply.text == "It is open."  # type: ignore[union-attr]
