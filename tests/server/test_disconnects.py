"""Work for a client that may go, and limits for several waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from orchestrator import Sessions
from orchestrator.server.active_requests import ActiveRequests
from orchestrator.server.disconnects import WhileConnected, run_while_connected
from orchestrator.server.operations import Fault
from orchestrator.support.time_limit import TimeLimit

Message = dict[str, Any]
OVER = -1.0  # a time that is over


class Client:
    """A client that goes when it is told to."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.is_heard = asyncio.Event()

    async def receive(self) -> Message:
        self.is_heard.set()
        await self.gone.wait()
        return {"type": "http.disconnect"}


class Work:
    """Work without an end."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = ""

    async def run(self) -> str:
        self.begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except BaseException as error:
            self.ended = type(error).__name__
            raise
        return "never"


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(bounded())


def test_a_client_that_goes_ends_what_is_done_for_it() -> None:
    async def test() -> None:
        client, work = Client(), Work()
        task = asyncio.create_task(run_while_connected(work.run(), client.receive))
        await work.begun.wait()
        client.gone.set()
        assert await task is None
        assert work.ended == "CancelledError"
        assert task.cancelling() == 0

    run(test)


def test_nobody_listens_for_the_client_of_an_answer_that_is_there_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orchestrator.server.disconnects._LISTEN_AFTER", 0)

    async def test() -> None:
        client = Client()

        async def answer() -> str:
            return "at once"

        assert await run_while_connected(answer(), client.receive) == "at once"
        for _ in range(5):
            await asyncio.sleep(0)
        assert not client.is_heard.is_set()

    run(test)


def test_a_client_that_goes_when_all_is_done_ends_nothing_more() -> None:
    async def test() -> None:
        client = Client()
        with WhileConnected(client.receive):
            await client.is_heard.wait()
            client.gone.set()  # as servers say when the whole answer is sent
        for _ in range(3):
            await asyncio.sleep(0)

    run(test)


def test_who_cancels_the_task_is_not_taken_for_a_client_that_goes() -> None:
    async def test() -> None:
        client, work = Client(), Work()
        task = asyncio.create_task(run_while_connected(work.run(), client.receive))
        await work.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert work.ended == "CancelledError"

    run(test)


def test_a_time_that_is_over_between_two_waits_cuts_off_the_next_one() -> None:
    async def test() -> None:
        limit = TimeLimit(asyncio.get_running_loop().time() + 1_000)
        with limit:
            await asyncio.sleep(0)
        limit.reschedule(OVER)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not limit.expired
        with limit:  # what does not wait goes on
            pass
        with pytest.raises(TimeoutError), limit:
            await asyncio.get_running_loop().create_future()
        assert limit.expired
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0

    run(test)


def test_a_stream_that_never_waits_ends_in_time_too() -> None:
    async def test() -> None:
        async def count_up() -> AsyncGenerator[int, None]:
            number = 0
            while True:
                yield number
                number += 1

        requests = ActiveRequests(Sessions(), 1_000.0)
        numbers = count_up()
        events = requests.limit_events(numbers)
        await anext(events)
        requests.leave()
        with pytest.raises(Fault, match="shutting down"):
            async for _ in events:
                pass
        with pytest.raises(StopAsyncIteration):
            await anext(numbers)

    run(test)


def test_a_client_is_told_of_the_end_though_the_process_stood_still_just_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        work, requests = Work(), ActiveRequests(Sessions(), 1_000.0)

        async def wait() -> AsyncGenerator[str, None]:
            yield await work.run()

        async def answer() -> None:
            with requests.track_request():
                await anext(requests.limit_events(wait()))

        task = asyncio.create_task(answer())
        await work.begun.wait()
        requests.leave()
        loop = asyncio.get_running_loop()
        later = loop.time() + 5
        monkeypatch.setattr(loop, "time", lambda: later)
        with pytest.raises(Fault, match="shutting down"):
            await task
        monkeypatch.undo()

    run(test)


@pytest.mark.parametrize(("count", "pauses"), [(1, False), (2, True)])
def test_the_end_of_an_answer_of_one_event_waits_for_nobody(
    count: int, pauses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.server.active_requests._MOMENT", 0)
    others: list[str] = []

    async def give() -> AsyncGenerator[int, None]:
        for number in range(count):
            yield number

    async def work() -> None:
        others.append("ran")

    async def test() -> None:
        other = asyncio.create_task(work())
        events = ActiveRequests(Sessions(), 1_000.0).limit_events(give())
        assert [event async for event in events] == list(range(count))
        assert bool(others) == pauses
        await other

    run(test)


def test_a_limit_that_has_ended_cuts_nothing_off() -> None:
    async def test() -> None:
        limit = TimeLimit(OVER)
        limit.end()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not limit.expired

    run(test)


def test_a_limit_leaves_other_errors_as_they_are() -> None:
    async def test() -> None:
        work = Work()

        async def limited() -> None:
            with TimeLimit(asyncio.get_running_loop().time() + 1_000):
                await work.run()

        task = asyncio.create_task(limited())
        await work.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(TimeoutError, match="another"), TimeLimit(OVER):
            raise TimeoutError("another")

    run(test)
