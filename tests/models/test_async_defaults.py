"""`acomplete` and `astream` of backends that write only the synchronous methods."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from threading import Event, get_ident

import pytest
from forking import run_in_child
from model_requests import ask

from orchestrator.errors import DependencyFailed
from orchestrator.models import Model, ModelReply, ModelRequest


class Counting(Model):
    model_id = "counting"

    def __init__(self) -> None:
        self.thread = 0
        self.closed = Event()
        self.go_on = Event()

    def complete(self, request: ModelRequest) -> ModelReply:
        self.thread = get_ident()
        return ModelReply([{"text": "whole"}])

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        try:
            for number in range(3):
                yield str(number)
                if number == 1:
                    assert self.go_on.wait(60)
            yield ModelReply([{"text": "012"}])
        finally:
            self.closed.set()


class Failing(Counting):
    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        yield "0"
        raise DependencyFailed("broke off")


def test_complete_runs_in_another_thread():
    model = Counting()
    assert asyncio.run(model.acomplete(ask())).text == "whole"
    assert model.thread not in (0, get_ident())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    model = Counting()
    model.go_on.set()

    async def read():
        assert (await model.acomplete(ask())).text == "whole"
        assert [item async for item in model.astream(ask())][:3] == ["0", "1", "2"]

    asyncio.run(read())
    assert run_in_child(lambda: asyncio.run(read())) == 0


def test_pieces_arrive_while_the_stream_goes_on():
    model = Counting()

    async def read():
        items = []
        async for item in model.astream(ask()):
            items.append(item)
            if item == "1":
                model.go_on.set()
        return items

    assert asyncio.run(read()) == ["0", "1", "2", ModelReply([{"text": "012"}])]


def test_an_error_arrives_after_the_pieces_before_it():
    async def read(items):
        async for item in Failing().astream(ask()):
            items.append(item)

    items: list[object] = []
    with pytest.raises(DependencyFailed, match="broke off"):
        asyncio.run(read(items))
    assert items == ["0"]


def test_closing_while_a_thread_waits_for_the_next_piece_stops_it_there():
    model = Counting()

    async def read():
        stream = model.astream(ask())
        assert await anext(stream) == "0"
        assert await anext(stream) == "1"
        await stream.aclose()

    asyncio.run(read())
    assert not model.closed.is_set()
    model.go_on.set()
    assert model.closed.wait(60)


def test_cancelling_the_task_that_reads_stops_the_stream():
    model = Counting()

    async def read(begun):
        async for _ in model.astream(ask()):
            begun.set()

    async def cancelled():
        begun = asyncio.Event()
        task = asyncio.create_task(read(begun))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    model.go_on.set()
    assert model.closed.wait(60)


def test_a_reply_without_a_stream_of_its_own_is_streamed_whole():
    class Whole(Model):
        model_id = "whole"

        def complete(self, request: ModelRequest) -> ModelReply:
            return ModelReply([{"text": "all"}])

    assert list(Whole().stream(ask())) == ["all", ModelReply([{"text": "all"}])]
