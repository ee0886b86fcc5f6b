"""Who listens to a run of a script that has no agent around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from threading import RLock

from orchestrator.flows.steps import AskUser, Event, Outcome, Pause, Place

__all__ = ["Listener"]

_WHOLE = ""
_NOWHERE = Place(0)


@dataclass(slots=True)
class Listener:
    """What a run that has no agent around it tells of itself while it goes.

    Iterations that run side by side each tell their own events in order.

    Attributes:
        tell: Takes each event once, with its number.
        pause: Where the run waits, when it does.
        outcome: How it ended, when it has.
        seen: How many events were told, by the iteration that they are of; empty for the run.
        told: How many that are together.
    """

    tell: Callable[[int, Event], None] | None = None
    pause: Pause | AskUser | None = None
    outcome: Outcome | None = None
    seen: dict[str, int] = field(default_factory=dict)
    told: int = 0
    _counts: dict[str, int] = field(default_factory=dict, repr=False)
    _lock: RLock = field(default_factory=RLock, repr=False)

    def begin(self, path: str = _WHOLE) -> None:
        """The script, or an iteration, begins, or is run again from its beginning."""
        with self._lock:
            self._counts[path] = 0

    def hear(self, event: Event, path: str = _WHOLE) -> None:
        """Takes an event; one that was told before is not told again."""
        with self._lock:
            count = self._counts[path] = self._counts.get(path, 0) + 1
            if count > self.seen.get(path, 0):
                self.seen[path] = count
                self.told += 1
                if self.tell is not None:
                    self.tell(self.told, event)

    def say(self, text: str, more: Mapping[str, object]) -> None:
        """Takes a piece of what the model of an iteration says."""
        with self._lock:
            if self.tell is not None:
                self.tell(self.told, Event("token", _NOWHERE, {"text": text, **more}))


def told_in(event: Event, more: Mapping[str, object]) -> Event:
    """An event with what tells the iteration that it is of."""
    return replace(event, members={**event.members, **more}) if more else event
