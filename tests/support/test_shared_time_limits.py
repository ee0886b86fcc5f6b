"""The limits of an event loop have one timer together; each ends at its own time all the same."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextvars import ContextVar

import pytest

from orchestrator.support.time_limit import TimeLimit

OVER = 0.0  # a time of every event loop that has passed
FAR = 1_000.0


async def wait() -> None:
    await asyncio.get_running_loop().create_future()


async def is_cut_off(limit: TimeLimit) -> bool:
    try:
        with limit:
            await wait()
    except TimeoutError:
        return limit.expired
    return False


def test_a_limit_that_ends_before_the_others_cuts_off_its_own_work_alone() -> None:
    async def test() -> None:
        now = asyncio.get_running_loop().time()
        long, short = TimeLimit(now + FAR), TimeLimit(OVER)
        with long:
            assert await is_cut_off(short)
        assert not long.expired
        long.end()

    asyncio.run(test())


def test_a_limit_holds_when_those_before_it_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        later = loop.time() + FAR
        first, second, third = TimeLimit(later - 2), TimeLimit(later - 1), TimeLimit(later + FAR)
        first.end()
        works = [asyncio.create_task(is_cut_off(limit)) for limit in (second, third)]
        await asyncio.sleep(0)
        monkeypatch.setattr(loop, "time", lambda: later)
        assert await works[0]
        monkeypatch.undo()
        assert not works[1].done()
        works[1].cancel()

    asyncio.run(test())


def test_a_limit_can_be_moved_to_an_earlier_time() -> None:
    async def test() -> None:
        limit = TimeLimit(asyncio.get_running_loop().time() + FAR)
        limit.reschedule(OVER)
        assert await is_cut_off(limit)

    asyncio.run(test())


def test_limits_of_one_thread_s_loops_know_their_own() -> None:
    async def begin() -> TimeLimit:
        return TimeLimit(asyncio.get_running_loop().time() + FAR)

    async def move(limit: TimeLimit) -> bool:
        limit.reschedule(OVER)
        return await is_cut_off(limit)

    with asyncio.Runner() as one, asyncio.Runner() as other:
        of_one, of_other = one.run(begin()), other.run(begin())
        assert one.run(move(of_one))
        assert not of_other.expired
        assert other.run(move(of_other))


def test_entering_blocks_of_a_limit_that_is_over_cuts_off_what_waits_once() -> None:
    async def test() -> None:
        limit = TimeLimit(OVER)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for _ in range(3):
            with limit:
                pass
        assert await is_cut_off(limit)
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0

    asyncio.run(test())


def test_the_timer_keeps_nothing_of_who_has_set_it() -> None:
    class Secret:
        pass

    known: ContextVar[Secret] = ContextVar("known")

    async def ask() -> weakref.ref[Secret]:
        known.set(secret := Secret())
        TimeLimit(asyncio.get_running_loop().time() + FAR).end()
        return weakref.ref(secret)

    async def test() -> None:
        secret = await asyncio.create_task(ask())
        await asyncio.sleep(0)
        gc.collect()
        assert secret() is None

    asyncio.run(test())
