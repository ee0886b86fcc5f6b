"""Small appends that tasks of an event loop make at about the same time, in one transaction."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import copy_context
from threading import local
from typing import Any, Generic, Literal, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Reservation = AbstractContextManager[None]
Reserve = Callable[[], Reservation | Literal[False] | None]
"""Has the store do what comes in a `with` block without waiting.

`None` when it would wait for somebody else for longer than a step of a turn takes, and `False` when
it would wait for anything else.
"""

# Seconds between tries to reserve: 0.15 in all
PAUSES: Sequence[float] = tuple(min(0.0005 * 1.5**number, 0.004) for number in range(40))

_MOST, _MOST_CHARACTERS = 32, 128 * 1024  # in one transaction, for which the event loop waits


class Append(Protocol):
    """An append as its store has it."""

    @property
    def size(self) -> int:
        """How many characters its records have."""


class SharedCall(Protocol[T_co]):
    """A call that makes one small append, which a store can make together with those of others."""

    def prepare(self) -> Append | None:
        """The append; `None`, or an error, if the call is to be made alone.

        The store is reserved. `take` or `drop` comes before anything else of the event loop.
        """

    def take(self, append: Any) -> T_co:
        """Does what is left to do when the append is made; what the call returns."""

    def drop(self) -> None:
        """Notes that the append was not made: the call is to be made alone."""

    def make(self) -> T_co:
        """Makes the call alone, whether it was prepared or not."""


AppendTogether = Callable[[Sequence[Any]], Sequence[bool]]
"""Makes appends in one transaction; whether each was made. If it raises an error, none was."""


class Outcome(Generic[T]):
    """What came of a call that is made with those of others.

    Attributes:
        waiter: Done when that is known.
        is_made: Whether the call was made; else it is to be made alone.
        is_refused: Whether the store was busy for as long as a call waits for it here.
        is_left: Whether nobody waits any more: the call is not made here, then.
    """

    def __init__(self, call: SharedCall[T], waiter: asyncio.Future[None]) -> None:
        self.waiter = waiter
        self.is_made = self.is_refused = self.is_left = False
        self._call = call
        self._context = copy_context()  # of its task: logs and spans name the turn
        self._result: Any = None
        self._error: BaseException | None = None

    def read(self) -> T:
        """What the call returned; raises what it raised."""
        error, self._error = self._error, None  # else its traceback would hold the turn
        if error is not None:
            raise error
        result: T = self._result
        return result

    def prepare(self) -> Append | None:
        """The call's append; `None` if it is to be made alone."""
        try:
            return self._context.run(self._call.prepare)
        except Exception:  # made alone, it says what is wrong
            return None

    def settle(self, append: Append, *, is_made: bool) -> None:
        """Takes what came of its append."""
        if not is_made:
            self._context.run(self._call.drop)
            return
        self.is_made = True
        try:
            self._result = self._context.run(self._call.take, append)
        except BaseException as error:  # handed to whoever waits
            self._error = error

    def wake(self) -> None:
        """Has whoever waits go on."""
        if not self.waiter.done():
            self.waiter.set_result(None)


class _Group:
    """Calls of an event loop whose appends come in one transaction; the loop alone keeps it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.outcomes: list[Outcome[Any]] = []
        self.pauses = iter(PAUSES)


class _OfThread(local):
    # What the next call of this thread's event loop joins. A loop that was closed may be deleted
    # with its tasks: they write then that they were stopped.
    open: weakref.ref[_Group] | None = None


class SharedAppends:
    """Has tasks of an event loop wait for each other, and makes their appends together.

    One transaction for all costs little more than one for each of them. A call whose append was not
    made, since its journal has changed or the store failed, is made alone, and says why.
    """

    def __init__(self, reserve: Reserve, append_together: AppendTogether) -> None:
        self._reserve = reserve
        self._append_together = append_together
        self._of_thread = _OfThread()

    @staticmethod
    def is_worth_it() -> bool:
        """Whether other tasks of the event loop are ready, which may append, too.

        Only a loop with `is_idle()` tells.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # a stream that outlived its loop is closed
            return False
        is_idle = getattr(loop, "is_idle", None)
        return is_idle is not None and not is_idle()

    def join(self, call: SharedCall[T]) -> Outcome[T]:
        """Has a call made with those of others, after what the event loop has ready now."""
        loop = asyncio.get_running_loop()
        group = self._find_open()
        if group is None or group.loop is not loop or len(group.outcomes) >= _MOST:
            group = _Group(loop)
            self._of_thread.open = weakref.ref(group)
            loop.call_soon(self._make, group)
        outcome = Outcome(call, loop.create_future())
        group.outcomes.append(outcome)
        return outcome

    def _find_open(self) -> _Group | None:
        found = self._of_thread.open
        return found() if found is not None else None

    def _make(self, group: _Group) -> None:
        is_over = True
        try:
            is_over = self._try_to_make(group)
        finally:
            if is_over:
                if self._find_open() is group:
                    self._of_thread.open = None
                for outcome in group.outcomes:
                    outcome.wake()

    def _try_to_make(self, group: _Group) -> bool:
        # Whether nobody has to wait any longer, whatever came of it.
        reserved = self._reserve()
        if reserved is None:
            if (pause := next(group.pauses, None)) is not None:
                group.loop.call_later(pause, self._make, group)  # others may join it meanwhile
                return False
            for outcome in group.outcomes:
                outcome.is_refused = True
        if reserved:
            with reserved:
                self._make_reserved(group.outcomes)
        return True

    def _make_reserved(self, outcomes: Sequence[Outcome[Any]]) -> None:
        prepared: list[tuple[Outcome[Any], Append]] = []
        made: Sequence[bool] = ()
        try:
            _prepare(outcomes, prepared)
            if prepared:
                made = self._append_together([append for _, append in prepared])
        except Exception:  # each call, made alone, says what is wrong
            pass
        finally:
            if len(made) != len(prepared):
                made = [False] * len(prepared)
            for (outcome, append), is_made in zip(prepared, made, strict=True):
                outcome.settle(append, is_made=is_made)


def _prepare(outcomes: Sequence[Outcome[Any]], prepared: list[tuple[Outcome[Any], Append]]) -> None:
    size = 0
    for outcome in outcomes:
        # The waiter of a task that was cancelled is done.
        if size < _MOST_CHARACTERS and not (outcome.is_left or outcome.waiter.done()):
            append = outcome.prepare()
            if append is not None:
                size += append.size
                prepared.append((outcome, append))
