"""Which tasks of the server's event loop have their turn first."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import Counter as Counted
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event
from typing import Any, TypeVar

import pytest

from orchestrator.server.fair_loop import (
    FairEventLoop,
    go_first,
    go_last,
    hold_back_last,
)

T = TypeVar("T")

TASKS, STEPS = 50, 20
WAIT = 60  # a bound for tests that hang, never a pause


@pytest.fixture
def loop() -> Iterator[FairEventLoop]:
    """A loop whose own errors fail the test."""
    errors: list[Any] = []
    loop = FairEventLoop()
    loop.set_exception_handler(lambda _, context: errors.append(context))
    yield loop
    loop.close()
    assert not errors


class Counter:
    """Counts the steps of tasks that never end."""

    count = 0

    async def run(self, *, last: bool = True) -> None:
        """Steps on and on."""
        if last:
            await go_last()
        while True:
            self.count += 1
            await asyncio.sleep(0)


async def step() -> None:
    """Has some turns."""
    for _ in range(STEPS):
        await asyncio.sleep(0)


async def beside(works: list[Coroutine[Any, Any, Any]], own: Coroutine[Any, Any, T]) -> T:
    """What `own` gives, while other tasks run."""
    tasks = [asyncio.ensure_future(work) for work in works]
    await step()
    try:
        return await own
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_others_do_not_wait_for_all_tasks_that_go_last(loop: FairEventLoop) -> None:
    counter = Counter()

    async def measure() -> int:
        before = counter.count
        await step()
        return counter.count - before

    works = [counter.run() for _ in range(TASKS)]
    taken = loop.run_until_complete(beside(works, measure()))
    # One a turn; without `go_last` it is each of them.
    assert STEPS - 2 <= taken <= STEPS + 2


def test_tasks_that_go_last_go_on_beside_busy_ones(loop: FairEventLoop) -> None:
    busy = [Counter().run(last=False) for _ in range(TASKS)]

    async def work() -> str:
        await go_last()
        await step()
        return "done"

    assert loop.run_until_complete(beside(busy, work())) == "done"


def test_what_a_task_starts_goes_last_until_it_goes_first(loop: FairEventLoop) -> None:
    counter = Counter()

    async def measure(first: bool) -> int:
        if first:
            go_first()
            await asyncio.sleep(0)
        before = counter.count
        await step()
        return counter.count - before

    async def start() -> list[int]:
        await go_last()
        return [await asyncio.create_task(measure(first)) for first in (False, True)]

    works = [counter.run() for _ in range(TASKS)]
    after, before = loop.run_until_complete(beside(works, start()))
    assert after >= TASKS * (STEPS - 1)
    assert before <= STEPS + 2


@pytest.fixture
def clock(loop: FairEventLoop, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The loop's time, in seconds, which stands still."""
    now = [0.0]
    monkeypatch.setattr(loop, "time", lambda: now[0])
    yield now


def test_what_is_held_back_has_moments_and_is_not_held_for_long(
    loop: FairEventLoop, clock: list[float]
) -> None:
    counter = Counter()

    async def count_steps(seconds: float) -> int:
        clock[0] += seconds
        before = counter.count
        await step()
        return counter.count - before

    async def measure() -> list[int]:
        with hold_back_last():
            await step()  # one was due
            return [await count_steps(one) for one in (0, 0.011, 0.006, 0, 0.04)]

    works = [counter.run() for _ in range(TASKS)]
    first, moment, its_last, second, free = loop.run_until_complete(beside(works, measure()))
    assert (first, its_last, second) == (0, 1, 0)
    assert min(moment, free) >= STEPS - 2


def test_requests_that_follow_each_other_leave_others_a_share(
    loop: FairEventLoop, clock: list[float]
) -> None:
    counter = Counter()
    milliseconds = 300

    async def measure() -> int:
        before = counter.count
        with ExitStack() as holding:
            for number in range(milliseconds):
                if number % 20 == 0:
                    holding.enter_context(hold_back_last())
                clock[0] += 0.001
                await step()
        return counter.count - before

    works = [counter.run() for _ in range(TASKS)]
    count = loop.run_until_complete(beside(works, measure()))
    assert 0.2 < count / (milliseconds * STEPS) < 0.5


def test_what_was_held_back_goes_on_after_all_that_held_it(
    loop: FairEventLoop, clock: list[float]
) -> None:
    counter = Counter()

    async def measure() -> list[int]:
        counts = []
        with hold_back_last():
            with hold_back_last():
                await step()
            for _ in range(2):
                counts.append(counter.count)
                await step()
        await step()
        return [*counts, counter.count]

    works = [counter.run() for _ in range(TASKS)]
    first, second, after = loop.run_until_complete(beside(works, measure()))
    assert first == second
    assert after >= second + STEPS - 2


def test_what_was_cancelled_is_not_called(loop: FairEventLoop) -> None:
    called = []

    async def work() -> None:
        await go_last()
        loop.call_soon(called.append, 1).cancel()
        loop.call_soon(called.append, 2)
        await step()

    loop.run_until_complete(work())
    assert called == [2]


def test_an_error_of_a_callback_is_reported_and_the_rest_goes_on(loop: FairEventLoop) -> None:
    told = []
    loop.set_exception_handler(lambda _, context: told.append(str(context["exception"])))

    async def work() -> str:
        await go_last()
        loop.call_soon(int, "x")
        await step()
        return "done"

    assert loop.run_until_complete(work()) == "done"
    assert told == ["invalid literal for int() with base 10: 'x'"]


def test_in_another_loop_nothing_changes() -> None:
    async def work() -> str:
        await go_last()
        with hold_back_last():
            await step()
        return "done"

    assert asyncio.run(work()) == "done"


def test_loops_of_other_threads_go_on_meanwhile(loop: FairEventLoop) -> None:
    inside, over = Event(), Event()

    async def hold() -> bool:
        await go_last()
        inside.set()
        return over.wait(WAIT)

    def run_other() -> bool:
        with asyncio.Runner(loop_factory=FairEventLoop) as runner:
            return runner.run(hold())

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(run_other)
        assert inside.wait(WAIT)
        try:
            work = asyncio.wait([loop.create_task(go_last())], timeout=WAIT)
            done, _ = loop.run_until_complete(work)
            assert done
        finally:
            over.set()
        assert other.result(WAIT)


def test_connections_that_wait_are_taken_by_a_few_a_round(loop: FairEventLoop) -> None:
    """So that another process, which shares the socket, takes the next one."""
    counter = Counter()
    taken: list[int] = []
    ended: list[asyncio.Future[None]] = []

    class Taken(asyncio.Protocol):
        def __init__(self) -> None:
            taken.append(counter.count)
            self.end = loop.create_future()
            ended.append(self.end)

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.close()

        def connection_lost(self, error: Exception | None) -> None:
            self.end.set_result(None)

    async def serve(listening: socket.socket) -> None:
        task = asyncio.ensure_future(counter.run(last=False))
        async with await loop.create_server(Taken, sock=listening):
            while len(taken) < 20:
                await asyncio.sleep(0)
            await asyncio.gather(*ended)
        task.cancel()

    with ExitStack() as opened:
        listening = socket.create_server(("127.0.0.1", 0), backlog=20)
        for _ in range(20):
            opened.enter_context(socket.create_connection(listening.getsockname()))
        loop.run_until_complete(serve(listening))
    assert max(Counted(taken).values()) <= 5


class FullListener:
    """A listening socket of a process that has no descriptor left."""

    def __init__(self, own: socket.socket) -> None:
        self.own = own
        self.tries = 0

    def fileno(self) -> int:
        return self.own.fileno()

    def accept(self) -> Any:
        self.tries += 1
        raise OSError(errno.EMFILE, "Too many open files")


def test_without_a_descriptor_one_try_is_one_try_later(monkeypatch: pytest.MonkeyPatch) -> None:
    later: list[tuple[Any, tuple[Any, ...]]] = []
    loop = FairEventLoop()
    errors: list[Any] = []
    loop.set_exception_handler(lambda _, context: errors.append(context["message"]))
    monkeypatch.setattr(
        loop, "call_later", lambda seconds, call, *given: later.append((call, given))
    )
    with ExitStack() as stack:
        stack.callback(loop.close)
        listening = FullListener(stack.enter_context(socket.create_server(("127.0.0.1", 0))))
        for tries in (1, 2, 3):
            given = (
                later.pop()[1] if later else (asyncio.Protocol, listening, None, None, 100, 1, 1)
            )
            loop._accept_connection(*given)
            assert (listening.tries, len(errors), len(later)) == (tries, tries, 1)
