"""What the iterations of a loop may spend together, while they run side by side."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock

from orchestrator.engine.effects import CallModel, Live
from orchestrator.engine.results import Result
from orchestrator.errors import LimitExceeded
from orchestrator.limits import Limits


class Budget:
    """The budgets of a turn, for all that works in one of its loops at the same time.

    What a turn spends it counts itself. Turns that run side by side do not know of each other:
    each effect is paid for here before it is carried out. One that was carried out before, by a
    process that has stopped, is never refused.

    Attributes:
        lock: Held from what one of them has spent to what it is about to spend.
    """

    __slots__ = ("_asks", "_limits", "_spent", "lock")

    def __init__(self, limits: Limits, spent: tuple[int, int, int], asks: int) -> None:
        """Begins a loop.

        Args:
            limits: The turn's.
            spent: The tokens, model calls and actions that the turn has spent.
            asks: How many model calls its script has made.
        """
        self.lock = RLock()
        self._limits = limits
        self._spent = spent
        self._asks = asks

    def add(self, usage: Sequence[int], asks: int) -> None:
        """Takes what an iteration has spent that another process has run."""
        with self.lock:
            tokens, calls, actions = self._spent
            self._spent = tokens + usage[0], calls + usage[1], actions + usage[2]
            self._asks += asks

    def spend(
        self, new: Sequence[int], following: Live | Result, asks: int
    ) -> LimitExceeded | None:
        """Takes what was spent, and what the next effect will spend.

        Args:
            new: Tokens, model calls and actions, since it was last told.
            following: The next effect.
            asks: How many model calls of the script come with it.

        Returns:
            The error of a budget that does not suffice: the effect must not be carried out.
        """
        limits = self._limits
        tokens, calls, actions = (old + more for old, more in zip(self._spent, new, strict=True))
        asks += self._asks
        found = (
            ("model_calls", "model calls", calls > limits.model_calls),
            ("actions", "action calls", actions > limits.actions),
            ("iterations", "model calls of its script", asks > limits.iterations),
            ("tokens", "tokens", isinstance(following, CallModel) and tokens >= limits.tokens),
        )
        over = next(((name, what) for name, what, is_over in found if is_over), None)
        if over is None:
            self._spent, self._asks = (tokens, calls, actions), asks
            return None
        self._spent = tokens, self._spent[1], self._spent[2]
        name, what = over
        return LimitExceeded(
            f"the turn reached its limit of {getattr(limits, name)} {what}; raise the limit "
            f"{name!r}, or find out from the trace why it needs so many",
            limit=name,
        )
