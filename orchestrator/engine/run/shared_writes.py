"""What a run appends to its journal, so that it can be written together with what others append."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.engine.run.invocation import Run
from orchestrator.sessions import Record

if TYPE_CHECKING:
    from orchestrator.sessions.rows import Append

Prepare = Callable[..., tuple[Record, ...]]
"""Of a run, and the arguments of the work: what the work writes last."""


def _prepare_nothing(run: Run) -> tuple[Record, ...]:
    return ()


def _end_nothing(run: Run, *arguments: Any) -> None:
    pass


# Of the works that are one append and no more: what comes before it, and what after. A run has one
# of them at a time; outcomes of actions that run side by side are written by others.
_PARTS: dict[Callable[..., Any], tuple[Prepare, Callable[..., None]]] = {
    Run.intend: (Run.prepare_intent, _end_nothing),
    Run.record_action: (Run.prepare_action, _end_nothing),
    Run.flush: (_prepare_nothing, _end_nothing),
    Run.finish: (Run.prepare_end, Run.note_end),
}


def share_work(run: Run, work: Callable[..., Any], arguments: Sequence[Any]) -> _SharedWork | None:
    """A work of a run as a `SharedCall`; `None` if it cannot be one."""
    # A collaborator's run writes one branch at a time, with a lock.
    parts = _PARTS.get(getattr(work, "__func__", work)) if type(run) is Run else None
    return _SharedWork(run, *parts, arguments) if parts is not None else None


class _SharedWork:
    """See `SharedCall`."""

    __slots__ = ("_arguments", "_end", "_last", "_prepare", "_records", "_run")

    def __init__(
        self, run: Run, prepare: Prepare, end: Callable[..., None], arguments: Sequence[Any]
    ) -> None:
        self._run = run
        self._prepare = prepare
        self._end = end
        self._arguments = arguments
        self._last: tuple[Record, ...] | None = None
        self._records: list[Record] = []

    def prepare(self) -> Append | None:
        self._records = self._run.collect(*self._prepare_once())
        return self._run.prepare_append(self._records) if self._records else None

    def take(self, append: Append) -> None:
        run = self._run
        run.sessions.take_append(run.session, self._records, append)
        run.note_written()
        self._end(run, *self._arguments)

    def drop(self) -> None:
        """Nothing: the records are still to be written."""

    def make(self) -> None:
        self._run.flush(*self._prepare_once())
        self._end(self._run, *self._arguments)

    def _prepare_once(self) -> tuple[Record, ...]:
        if self._last is None:
            self._last = self._prepare(self._run, *self._arguments)
        return self._last
