"""What the log says of a database that is away: one line when it goes, and one when it is back."""

from __future__ import annotations

import logging

from orchestrator.support.logs import get_logger

_LOG = get_logger("orchestrator.durable")


class OutageLog:
    """Says of work that is tried again and again when it begins to fail, and when it is done."""

    def __init__(self, failure: str, back: str) -> None:
        self._failure, self._back = failure, back
        self._failing = False

    def note_failure(self, error: Exception) -> None:
        """Notes that a try has failed."""
        if not self._failing:
            _LOG.warning("%s: %s", self._failure, type(error).__name__)
        self._failing = True

    def note_success(self) -> None:
        """Notes that a try was done."""
        if self._failing:
            _LOG.warning("%s", self._back)
        self._failing = False


def is_of_outage(record: logging.LogRecord) -> bool:
    """Whether DBOS says, as it does several times a second, that its database is away."""
    text = record.getMessage()
    return "OperationalError)" in text or text.startswith("Notification listener error")
