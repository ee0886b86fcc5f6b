"""Loops side by side in an event loop: at most so many, failures, budgets, stores, stopping."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from flow_support import Echo, handed_over, program

from orchestrator import FlowError, LimitExceeded
from orchestrator.errors import ThrottlingError
from orchestrator.limits import Limits
from orchestrator.models.base import ModelReply, ModelRequest

FLOW = program("FOR $x in $xs PARALLEL:", "    Say $x -> a", "    Then $a >> b", "END")


class Waiting(Echo):
    """Answers when so many are asked at the same time; later ones at once."""

    def __init__(self, count: int, answer: Any = "<{}>".format) -> None:
        super().__init__(answer)
        self.now = self.together = 0
        self._count = count
        self._met = asyncio.Event()

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        self.now += 1
        self.together = max(self.together, self.now)
        try:
            if self.now >= self._count:
                self._met.set()
            await asyncio.wait_for(self._met.wait(), 60)
            await asyncio.sleep(0)
            return self.complete(request)
        finally:
            self.now -= 1

    async def astream(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        reply = await self.acomplete(request)
        yield reply.text
        yield reply


def test_so_many_at_the_same_time_and_no_more() -> None:
    async def run() -> tuple[Any, Waiting]:
        model = Waiting(3)
        return await FLOW.arun({"xs": list(range(8))}, model=model, parallel=3), model

    result, model = asyncio.run(run())
    assert model.together == 3
    assert result.variables["b"] == [f"<Then <Say {number}>>" for number in range(8)]


def test_the_first_failure_stops_the_others() -> None:
    def answer(text: str) -> str | Exception:
        return ThrottlingError("slow") if text == "Say 1" else text

    async def run() -> Waiting:
        model = Waiting(3, answer)
        with pytest.raises(FlowError, match="slow") as raised:
            await FLOW.arun({"xs": list(range(20))}, model=model, parallel=3)
        assert raised.value.line == 2
        return model

    assert len(asyncio.run(run()).asked) <= 6


def test_budgets_hold_together() -> None:
    async def run() -> Waiting:
        model = Waiting(3)
        limits = Limits(model_calls=7)
        with pytest.raises(LimitExceeded):
            await FLOW.arun({"xs": list(range(9))}, model=model, limits=limits, parallel=3)
        return model

    assert len(asyncio.run(run()).asked) == 7


@pytest.mark.parametrize("streams", [False, True])
def test_a_store_on_disk_has_all_items(tmp_path: Path, streams: bool) -> None:
    async def run() -> Any:
        given: dict[str, Any] = {"model": Waiting(2), "sessions": tmp_path / "runs.sqlite"}
        if not streams:
            return await FLOW.arun({"xs": [1, 2, 3, 4]}, run_id="r-1", parallel=2, **given)
        events = [it async for it in FLOW.astream({"xs": [1, 2, 3, 4]}, parallel=2, **given)]
        tokens = [it for it in events if it.type == "token"]
        assert {tuple(it.members["iteration"]) for it in tokens} == {(1,), (2,), (3,), (4,)}
        return events[-1].result

    result = asyncio.run(run())
    assert result.variables["b"] == [f"<Then <Say {number}>>" for number in (1, 2, 3, 4)]


def test_items_that_wait_for_the_caller_go_on(tmp_path: Path) -> None:
    flow = program("FOR $x in [1, 2] PARALLEL:", "    @pay($x) >> paid", "END")
    given: dict[str, Any] = {"model": Echo(), "action_groups": [handed_over()]}

    async def run() -> Any:
        result = await flow.arun(**given)
        for number in (1, 2):
            result = await flow.aresume(result.paused, results=f"paid {number}", **given)
        return result

    assert asyncio.run(run()).variables["paid"] == ["paid 1", "paid 2"]


def test_a_run_that_is_cancelled_stops_all_items_and_can_be_gone_on_with(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"

    async def cancelled() -> Waiting:
        model = Waiting(99)
        work = FLOW.arun({"xs": [1, 2, 3]}, model=model, sessions=store, run_id="r-1", parallel=3)
        task = asyncio.create_task(work)
        while model.now < 3:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return model

    model = asyncio.run(cancelled())
    assert (model.now, model.asked) == (0, [])
    again = FLOW.run({"xs": [1, 2, 3]}, model=Echo(), sessions=store, run_id="r-1", parallel=3)
    assert len(again.variables["b"]) == 3
