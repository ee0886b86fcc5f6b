"""The driver's backend for threads: everything happens in the caller's, or in one beside it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import closing
from functools import partial
from queue import SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar, cast

from orchestrator.actions.base import Call, CallContext
from orchestrator.engine.effects import CallModel
from orchestrator.engine.run.driver import (
    Emit,
    Progress,
    Update,
    Work,
    build_late_record,
    drive,
    hand_to_caller,
    perform,
)
from orchestrator.engine.run.invocation import Run
from orchestrator.engine.run.model_calls import build_request, parse_reply, read_reply
from orchestrator.engine.run.outcomes import StreamedCall
from orchestrator.sessions import Record
from orchestrator.support.threads import in_thread

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


def run_turn(run: Run) -> None:
    """Runs an invocation to its result, which `run.result` then holds."""
    _run_to_end(drive(run, _BACKEND))


def watch_turn(run: Run) -> Generator[Update, None, None]:
    """Runs an invocation to its result, and yields its updates; closing it stops the turn."""
    return drive(run, _BACKEND, hand_to_caller).__await__()


def watch_effects(run: Run) -> Generator[Progress, None, None]:
    """Runs an invocation to its result, and yields before and after each effect of its own turn.

    Models answer whole. Closing it stops the turn.
    """
    work = drive(run, _BACKEND, hand_to_caller, whole=True).__await__()
    return cast("Generator[Progress, None, None]", work)


def _run_to_end(work: Coroutine[Any, Any, None]) -> None:
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("in threads a driver waits for nothing")


class _Threads:
    """See `Backend`. No coroutine here suspends.

    Nothing here can cut an effect short: a model is given the seconds that are left, and a stream
    whose piece comes too late is read no further. A reply that is whole is taken however late.
    """

    def complete(self, run: Run, effect: CallModel) -> Record:
        stage, began = effect.stage, run.now()
        reply = stage.model.complete(build_request(run, effect, began))
        record = read_reply(run, effect, reply, began)
        return record if "ended" in record else parse_reply(run, record, stage.new_parser())

    async def stream(self, run: Run, call: StreamedCall, emit: Emit) -> Record:
        # No asynchronous generator is between the model and the listener: with one, a token took a
        # fifth longer (measured: `python -m bench stream`).
        with closing(call.model.stream(call.request)) as items:  # type: ignore[type-var]
            is_late = False
            for item in items:
                if is_late and isinstance(item, str):
                    raise run.build_timeout_error()
                for text in call.take(item):
                    await emit(text)
                is_late = run.deadline is not None and run.now() > run.deadline
        for text in call.rest():
            await emit(text)
        return call.record()

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        return function(*arguments)

    def in_time(self, run: Run, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        return work

    async def write(self, run: Run, work: Callable[..., T], *arguments: Any) -> T:
        return work(*arguments)

    def perform(self, run: Run, call: Call, context: CallContext) -> Record:
        # Without a time limit nobody has to give the call up, so it needs no thread of its own.
        seconds = run.plan.limits.action_seconds
        if seconds is None:
            return perform(run, call, context)
        began = run.now()
        future = in_thread(partial(perform, run, call, context))
        try:
            return future.result(seconds)
        except TimeoutError:  # of the wait: what an action raises is in its record
            return build_late_record(run, call, began, future)

    async def perform_all(
        self,
        run: Run,
        calls: Sequence[Call],
        context: CallContext,
        take: Callable[[Record], Awaitable[None]],
    ) -> None:
        window = _Window(run, calls, context)
        while window.is_open:
            for record in window.wait():
                await take(record)

    async def run_side_by_side(self, works: Sequence[Work], most: int, emit: Emit | None) -> None:
        if most == 1 or len(works) == 1:
            for work in works:
                await work(emit)
            return
        beside = _SideBySide(works, most, listen=emit is not None)
        try:
            while (item := beside.next_item()) is not None:
                if emit is not None:
                    await emit(item)
        finally:
            beside.stop()
        beside.raise_failure()


_BACKEND = _Threads()


class _Window:
    """Calls that block, each in a thread; as one ends, the next begins."""

    def __init__(self, run: Run, calls: Sequence[Call], context: CallContext) -> None:
        limits = run.plan.limits
        self._run, self._context = run, context
        self._most, self._seconds = limits.parallel, limits.action_seconds
        self._left = deque(calls)
        self._running: dict[Future[Record], _Begun] = {}

    @property
    def is_open(self) -> bool:
        return bool(self._left or self._running)

    def wait(self) -> list[Record]:
        """The records of those that have ended next, or that did not answer in time."""
        from concurrent.futures import FIRST_COMPLETED, wait

        while self._left and len(self._running) < self._most:
            call = self._left.popleft()
            future = in_thread(partial(perform, self._run, call, self._context))
            self._running[future] = call, self._run.now(), time.monotonic()
        ended, _ = wait(self._running, self._time_left(), FIRST_COMPLETED)
        if not ended:
            return self._give_up_late()
        for future in ended:
            del self._running[future]
        return [future.result() for future in ended]

    def _time_left(self) -> float | None:
        if self._seconds is None:
            return None
        first = min(begun for _, _, begun in self._running.values())
        return max(first + self._seconds - time.monotonic(), 0)

    def _give_up_late(self) -> list[Record]:
        seconds, now = self._seconds or 0, time.monotonic()
        late = [future for future, it in self._running.items() if it[2] + seconds <= now]
        records = []
        # Its thread goes on, since nothing stops a thread; its place in the window is free again.
        for future in late:
            call, began, _ = self._running.pop(future)
            records.append(build_late_record(self._run, call, began, future))
        return records


_Begun = tuple[Call, int, float]
"""A call, when it began, and the same by the clock that only goes on."""


class _SideBySide:
    """Works that run side by side, each in a thread."""

    def __init__(self, works: Sequence[Work], most: int, *, listen: bool) -> None:
        self._works = deque(works)
        self._put = self._emit if listen else None
        self._items: SimpleQueue[Any] = SimpleQueue()
        self._stopped = Event()
        self._futures: list[Future[None]] = []
        self._running = 0
        for _ in range(most):
            self._begin_next()

    def next_item(self) -> Update | None:
        """What a work emits next; `None` when all have ended."""
        while self._running:
            item: Update = self._items.get()
            if item is not _ENDED:
                return item
            self._running -= 1
            if not self._stopped.is_set():
                self._begin_next()
        return None

    def stop(self) -> None:
        """Stops those that run when they emit next, and waits for them."""
        from concurrent.futures import wait

        self._stopped.set()
        wait(self._futures)

    def raise_failure(self) -> None:
        """Raises what one of them raised."""
        for future in self._futures:
            future.result()

    def _begin_next(self) -> None:
        if self._works:
            self._running += 1
            self._futures.append(in_thread(partial(self._do, self._works.popleft())))

    def _do(self, work: Work) -> None:
        try:
            _run_to_end(work(self._put))
        except GeneratorExit:  # it was stopped
            pass
        except BaseException:
            self._stopped.set()
            raise
        finally:
            self._items.put(_ENDED)

    async def _emit(self, update: Update) -> None:
        if self._stopped.is_set():
            raise GeneratorExit
        self._items.put(update)


_ENDED: Any = object()
