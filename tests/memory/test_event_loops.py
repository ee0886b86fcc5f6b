"""A store of memories may block: no event loop waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from memory_support import TTL, Talker, remembered, remembering
from waiting import HANGS
from whole_agents import BOTH, INSTRUCTION, Calls, Family

from orchestrator import ActionGroup, Agent, ReturnControl, SessionConflict, Sessions, SQLiteStore
from orchestrator.memory import InMemoryMemory
from orchestrator.testing import FakeClock

DO = [{"name": "do", "description": "Does it."}]


def on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Watched:
    """A store that notes what is asked of it, and what of that by an event loop's own thread."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.on_loops: list[str] = []
        self.gate = threading.Event()
        self.reached = threading.Event()
        self.gate.set()
        self._store = InMemoryMemory()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def watched(*args: Any, **options: Any) -> Any:
            self.asked.append(name)
            if on_a_loop():
                self.on_loops.append(name)
            self.reached.set()
            self.gate.wait()
            return method(*args, **options)

        return watched


@pytest.fixture
def store() -> Iterator[Watched]:
    watched = Watched()
    yield watched
    watched.gate.set()


async def astreamed(subject: Any, *args: Any, **options: Any) -> Any:
    return [event async for event in subject.astream(*args, **options)][-1].reply


@pytest.mark.parametrize("streams", [False, True])
def test_no_loop_reads_or_writes_a_memory(store: Any, streams: bool, tmp_path: Path) -> None:
    clock = FakeClock()
    sessions = Sessions(SQLiteStore(tmp_path / "s.sqlite"), clock=clock)
    subject = remembering(Talker(), store=store, sessions=sessions)
    asked: dict[str, Any] = {"memory_id": "ana"}

    async def main() -> None:
        ask = (lambda *a, **k: astreamed(subject, *a, **k)) if streams else subject.ainvoke
        await ask("topic-idle", "s-1", **asked)
        clock.advance(TTL + 1)
        await ask("topic-new", "s-2", **asked)
        await ask("Bye", "s-2", end_session=True)

    asyncio.run(main())
    assert store.on_loops == []
    assert {"touch", "recent", "find_unsummarised", "add"} <= set(store.asked)
    assert remembered(subject, "ana") == [("s-2", "new: said new"), ("s-1", "idle: said idle")]


@BOTH
def test_a_hand_over_is_noted_by_no_loop_either(family: Family, store: Any) -> None:
    model = family.model([family.calls(("g::do", {})), "<answer>Done.</answer>"])
    group = ActionGroup("g", functions=DO, executor=ReturnControl())
    subject = remembering(model, store=store, action_groups=[group])

    async def main() -> str:
        reply = await subject.ainvoke("Do it.", "s-1", memory_id="ana")
        assert reply.return_control is not None
        results = reply.return_control.answer("Yes.")
        return (await subject.ainvoke(session_id="s-1", results=results)).text

    assert asyncio.run(main()) == "Done."
    assert store.on_loops == [] and store.asked.count("touch") == 3


def test_a_session_whose_opening_nobody_waits_for_is_free_again(store: Any) -> None:
    model = Talker()
    subject = remembering(model, store=store)

    async def main() -> str:
        store.gate.clear()
        task = asyncio.create_task(subject.ainvoke("topic-one", "s-1", memory_id="ana"))
        await asyncio.to_thread(store.reached.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        store.gate.set()
        end = monotonic() + HANGS
        while monotonic() < end:  # the thread that opens the session still has it
            try:
                return (await subject.ainvoke("topic-two", "s-1", memory_id="ana")).text
            except SessionConflict:
                await asyncio.to_thread(lambda: None)
        return "The session was never free."

    assert asyncio.run(main()) == "Noted."
    (request,) = model.requests["ORCHESTRATION"]
    assert "topic-one" not in str(request.messages)


def test_an_agent_without_memory_opens_its_turns_on_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began: list[str] = []
    start = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        began.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    subject = Agent("hr", INSTRUCTION, Talker(), action_groups=Calls().groups())
    assert asyncio.run(subject.ainvoke("Hi", "s-1")).text == "Noted."
    assert [name for name in began if name == "orchestrator-action"] == []
