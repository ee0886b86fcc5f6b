"""What one run of a flow may use."""

from __future__ import annotations

import time
from collections import Counter
from threading import Lock

from orchestrator.errors import LimitExceeded
from orchestrator.limits import Limits

# Bytes of all values of a run together, as JSON: they are in memory until it ends.
_MOST_BYTES = 64_000_000
# Bytes of all inputs of a run together, as JSON. In memory they are parts of other values, but
# each is written out in an event, which an execution stores.
_MOST_INPUT_BYTES = 256_000_000

_TITLES = {
    "iterations": "runs of its nodes",
    "model_calls": "calls of models",
    "actions": "calls of functions, agents, searches, buckets and code",
    "tokens": "tokens of models",
    "bytes": "bytes of values",
    "input_bytes": "bytes of inputs",
}


class RunBudget:
    """Counts what a run uses, before it is used. Safe for many threads.

    `Limits.iterations` is how many nodes run, rounds of iterators and loops counted each.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._used: Counter[str] = Counter()
        self._lock = Lock()
        self._end = None if limits.seconds is None else time.monotonic() + limits.seconds

    def spend(self, name: str, count: int = 1) -> None:
        """Counts a use.

        Raises:
            LimitExceeded: It is more than the run may use.
        """
        own = {"bytes": _MOST_BYTES, "input_bytes": _MOST_INPUT_BYTES}.get(name)
        most = own or getattr(self.limits, name)
        with self._lock:
            self._used[name] += count
            used = self._used[name]
        if used > most:
            limit = "result_bytes" if own else name
            raise LimitExceeded(f"the flow used all of its {most:,} {_TITLES[name]}", limit=limit)

    def seconds_left(self) -> float | None:
        """The time that is left; `None` for no limit.

        Raises:
            LimitExceeded: None is left.
        """
        if self._end is None:
            return None
        left = self._end - time.monotonic()
        if left <= 0:
            seconds = self.limits.seconds
            raise LimitExceeded(f"the flow ran for over {seconds:g} seconds", limit="seconds")
        return left

    def action_seconds(self) -> float | None:
        """The time that one action has."""
        found = [it for it in (self.seconds_left(), self.limits.action_seconds) if it is not None]
        return min(found, default=None)
