"""What one reply of a server may take: bytes, and time.

A server that is broken, or hostile, may answer without an end, or one byte at a time: no time-out
for a single read holds then. So whoever reads a reply asks its bounds wherever bytes come in.
"""

from __future__ import annotations

import time

from orchestrator.errors import DependencyFailed, OrchestratorError


class ReplyBounds:
    """The bytes that one reply may still take. It has any time: a subclass may bound that, too.

    Attributes:
        most: How many bytes it may have.
        ends: When its time is over, as `time.monotonic` counts; `None` for never.
    """

    ends: float | None = None

    def __init__(self, most: int, what: str = "a reply") -> None:
        """Begins to count; errors call the reply `what`."""
        self.most = self._left = most
        self._what = what

    def compute_time_left(self) -> float | None:
        """Seconds that it may still take; `None` for any."""
        return None if self.ends is None else max(self.ends - time.monotonic(), 0.0)

    def check_time(self) -> None:
        """Raises when the time is over."""

    def take(self, size: int) -> None:
        """Takes some bytes, or raises when they are too many."""
        self._left -= size
        if self._left < 0:
            raise self.build_size_error()

    def build_size_error(self) -> OrchestratorError:
        """The error when there are more bytes."""
        return DependencyFailed(f"{self._what} has more than {self.most:,} bytes")
