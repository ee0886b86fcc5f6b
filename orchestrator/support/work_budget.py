"""A budget of work for a check of data that others wrote: counted in steps, not in seconds.

Counting makes the same data pass, or not, on every machine and in every replay.
"""

from __future__ import annotations

import threading
from math import inf


class TooMuchWork(Exception):
    """A check would cost more than its budget."""


class WorkBudget(threading.local):
    """What one check at a time may cost in each thread; a unit is some ten nanoseconds."""

    left: float = inf  # until a check begins

    def spend(self, units: int) -> None:
        """Takes units from what is left.

        Raises:
            TooMuchWork: There are too few.
        """
        self.left -= units
        if self.left < 0:
            raise TooMuchWork
