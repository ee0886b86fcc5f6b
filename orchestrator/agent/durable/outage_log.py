"""What the log says of a database that is away: one line when it goes, and one when it is back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from weakref import WeakSet

from orchestrator.support.logs import get_logger

_LOG = get_logger("orchestrator.durable")
_failing: WeakSet[OutageLog] = WeakSet()


class OutageLog:
    """Says of work that is tried again and again when it begins to fail, and when it is done."""

    def __init__(self, failure: str, back: str) -> None:
        self._failure, self._back = failure, back

    def watch(self, work: Callable[[], object]) -> bool:
        """Tries work, whose failure it notes: the database may be back soon. Whether it is done."""
        try:
            work()
        except Exception as error:
            self.note_failure(error)
            return False
        self.note_success()
        return True

    def note_failure(self, error: Exception) -> None:
        """Notes that a try has failed."""
        if self not in _failing:
            _LOG.warning("%s: %s", self._failure, type(error).__name__)
        _failing.add(self)

    def note_success(self) -> None:
        """Notes that a try was done."""
        if self in _failing:
            _LOG.warning("%s", self._back)
        _failing.discard(self)


def is_of_outage(record: logging.LogRecord) -> bool:
    """Whether DBOS says once more, of several times a second, that its database is away."""
    if not _failing:  # what is wrong then, nothing else says
        return False
    text = record.getMessage()
    return "OperationalError)" in text or text.startswith("Notification listener error")
