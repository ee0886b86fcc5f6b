"""Many sessions of one memory at the same time: each is summarised once, and none is lost."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from memory_support import TTL, Talker, remembered, remembering

from orchestrator import Sessions, SQLiteStore
from orchestrator.memory import SqliteMemory
from orchestrator.testing import FakeClock

SUMMARY = "MEMORY_SUMMARIZATION"
NAMES = [f"n{index}" for index in range(8)]


def made(kind: str, folder: Path, clock: FakeClock) -> tuple[Talker, Any]:
    model = Talker()
    if kind == "memory":
        return model, remembering(model, clock=clock)
    sessions = Sessions(SQLiteStore(folder / "sessions.sqlite"), clock=clock)
    store = SqliteMemory(folder / "memory.sqlite")
    return model, remembering(model, store=store, sessions=sessions)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_threads_that_all_find_the_same_idle_sessions(kind: str, tmp_path: Path) -> None:
    clock = FakeClock()
    model, subject = made(kind, tmp_path, clock)
    for name in NAMES:
        subject.invoke(f"topic-{name}", f"old-{name}", memory_id="ana")
    clock.advance(TTL + 1)
    with ThreadPoolExecutor(8) as pool:
        replies = pool.map(lambda n: subject.invoke("Hi", f"new-{n}", memory_id="ana"), NAMES)
        assert [reply.text for reply in replies] == ["Noted."] * 8
    subject.remember()
    assert len(model.requests[SUMMARY]) == len(NAMES)
    found = dict(remembered(subject, "ana"))
    assert found == {f"old-{name}": f"{name}: said {name}" for name in NAMES}


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_tasks_that_end_their_sessions_at_once(kind: str, tmp_path: Path) -> None:
    model, subject = made(kind, tmp_path, FakeClock())

    async def main() -> None:
        await asyncio.gather(
            *(
                subject.ainvoke(f"topic-{name}", f"s-{name}", memory_id="ana", end_session=True)
                for name in NAMES
            )
        )

    asyncio.run(main())
    assert len(model.requests[SUMMARY]) == len(NAMES)
    assert set(remembered(subject, "ana")) == {(f"s-{n}", f"{n}: said {n}") for n in NAMES}
