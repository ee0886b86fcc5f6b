"""A process that is forked in the middle of a turn: the turn goes on in its parent alone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from forking import run_in_child
from whole_agents import NATIVE, Calls, agent, answer

from orchestrator import Agent, SQLiteStore, TextDelta
from orchestrator.errors import SessionBusy
from orchestrator.sessions import Sessions

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]

LOOK = ("vacations::get_days", {"employee": "7"})


def asked(sessions: Any) -> Agent:
    script = [NATIVE.calls(LOOK), answer("Twelve."), answer("Hello."), answer("Bye.")]
    return agent(NATIVE.model(script), Calls().groups(), sessions=sessions)


def kinds(subject: Agent) -> Sequence[str]:
    (info,) = subject.sessions.store.list()
    return [record["kind"] for record in subject.sessions.store.load(info.key)]


def stream(subject: Agent, fork: Callable[[Any], None]) -> str:
    events = subject.stream("How many days?", "s-1")
    first = next(events)
    fork(events)
    return "".join(event.text for event in [first, *events] if isinstance(event, TextDelta))


def astream(subject: Agent, fork: Callable[[Any], None]) -> str:
    async def read() -> str:
        events = subject.astream("How many days?", "s-1")
        first = await anext(events)
        fork(events)
        rest = [first, *[event async for event in events]]
        return "".join(event.text for event in rest if isinstance(event, TextDelta))

    return asyncio.run(read())


def finish(step: Any) -> None:
    """A step of a generator that has nothing to wait for; asynchronous ones included."""
    if step is not None:
        with pytest.raises(StopIteration):
            step.send(None)


@pytest.mark.parametrize("run", [stream, astream])
def test_a_child_that_closes_a_stream_stops_nothing(run: Any, tmp_path: Path) -> None:
    subject = asked(tmp_path / "s.db")

    def fork(events: Any) -> None:
        before = kinds(subject)

        def work() -> None:
            finish(events.close() if run is stream else events.aclose())
            assert kinds(subject) == before
            with pytest.raises(SessionBusy, match="busy in another process"):
                subject.invoke("Hi", "s-1")
            assert subject.invoke("Hi", "s-2").text

        assert run_in_child(work) == 0

    assert run(subject, fork) == "Twelve."
    assert subject.invoke("Hi", "s-1").text == "Hello."


def test_a_child_that_goes_on_with_a_stream_writes_nothing(tmp_path: Path) -> None:
    subject = asked(SQLiteStore(tmp_path / "s.db"))

    def fork(events: Any) -> None:
        before = kinds(subject)

        def work() -> None:
            with pytest.raises(SessionBusy, match="the process which this one was forked from"):
                list(events)
            assert kinds(subject) == before

        assert run_in_child(work) == 0

    assert stream(subject, fork) == "Twelve."


def test_a_child_has_the_sessions_that_were_in_use_in_memory() -> None:
    subject = asked(Sessions())

    def fork(events: Any) -> None:
        def work() -> None:
            subject.invoke("Hi", "s-1")
            events.close()  # which gives nothing back that a turn of this process has
            with pytest.raises(StopIteration):
                next(events)

        assert run_in_child(work) == 0

    assert stream(subject, fork) == "Twelve."
