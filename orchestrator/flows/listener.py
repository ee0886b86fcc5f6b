"""Who listens to a run of a script that has no agent around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from orchestrator.flows.steps import AskUser, Event, Outcome, Pause, Place, StreamParser

_WHOLE = ""
_NOWHERE = Place(0)


@dataclass(slots=True)
class Listener:
    """Sends the events of a run that has no agent around it.

    Iterations that run side by side each tell their own events in order.
    """

    tell: Callable[[int, Event], None] | None = None  # takes each event once, with its number
    pause: Pause | AskUser | None = None  # where the run waits, when it does
    outcome: Outcome | None = None  # how it ended, when it has
    # How many events were sent, by the iteration that they are of; empty for the run
    seen: dict[str, int] = field(default_factory=dict)
    sent: int = 0  # how many that are together
    # The warnings among those that were sent
    warnings: list[Event] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict, repr=False)
    _pieces: dict[str, StreamParser] = field(default_factory=dict, repr=False)
    _lock: RLock = field(default_factory=RLock, repr=False)

    def begin(self, path: str = _WHOLE) -> None:
        """The script, or an iteration, begins, or is run again from its beginning."""
        with self._lock:
            self._counts[path] = 0

    def handle_event(self, event: Event, path: str = _WHOLE) -> None:
        """Sends an event once: a replay yields the same events again."""
        with self._lock:
            count = self._counts[path] = self._counts.get(path, 0) + 1
            if count > self.seen.get(path, 0):
                self.seen[path] = count
                self.sent += 1
                if event.type == "warning":
                    self.warnings.append(event)
                if self.tell is not None:
                    self.tell(self.sent, event)

    def handle_text(self, text: str, path: str, more: Mapping[str, Any]) -> None:
        """Takes a piece of a reply in an iteration."""
        self._send_tokens(self.parse_text(text, path), more)

    def parse_text(self, text: str, path: str = _WHOLE) -> Sequence[Mapping[str, Any]]:
        """The members of the `token` events of a piece of a reply."""
        pieces = self._pieces.get(path)
        return [{"text": text}] if pieces is None else pieces.feed(text)

    @contextmanager
    def attach_parser(
        self, pieces: StreamParser, path: str, more: Mapping[str, Any]
    ) -> Iterator[None]:
        """Sets the parser of the reply that streams now."""
        self._pieces[path] = pieces
        try:
            yield
        finally:
            if self._pieces.get(path) is pieces:  # one that is run again has its own
                del self._pieces[path]
        self._send_tokens(pieces.finish(), more)

    def _send_tokens(self, pieces: Sequence[Mapping[str, Any]], more: Mapping[str, Any]) -> None:
        tell = self.tell
        if tell is None:
            return
        with self._lock:
            for members in pieces:
                tell(self.sent, Event("token", _NOWHERE, {**members, **more}))
