"""A budget of work on what others wrote: counted in steps, not in seconds.

Counting makes the same data pass, or not, on every machine and in every replay.
"""

from __future__ import annotations

import sys
import threading
from typing import NoReturn


class TooMuchWork(Exception):
    """A check would cost more than its budget."""


class WorkBudget:
    """What some work may cost; whoever counts says what a unit is.

    Attributes:
        left: The units that are left.
    """

    left: int

    def spend(self, units: int) -> None:
        """Takes units from what is left; raises as `refuse` does when there are too few."""
        self.left -= units
        if self.left < 0:
            self.refuse()

    def refuse(self) -> NoReturn:
        """Raises the error that says that the budget is spent.

        Raises:
            TooMuchWork: Always; budgets of their own raise another error.
        """
        raise TooMuchWork


class CheckBudget(WorkBudget, threading.local):
    """What one check at a time may cost in each thread; a unit is some ten nanoseconds."""

    left = sys.maxsize  # until a check begins
