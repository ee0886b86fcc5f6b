"""One turn as it happens: the answer as it streams, and what the agent is doing meanwhile."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from orchestrator.cli.steps import (
    describe_activity,
    describe_hand_over,
    describe_running_call,
)
from orchestrator.cli.terminal import Terminal, WordWrap, clean, style_text
from orchestrator.cli.trace import TraceView

if TYPE_CHECKING:
    from rich.status import Status
    from rich.text import Text

    from orchestrator.engine.trace.reply import Event, Reply


# rich draws the status again and again, so the seconds count without a thread of this module.
class ActivityStatus:
    """The line that says what is being done: what is given, or how much of a prompt was read."""

    def __init__(self, doing: str, terminal: Terminal) -> None:
        self._doing = clean(doing)
        self._terminal = terminal
        self._since = time.monotonic()

    def __rich__(self) -> Text:
        seconds = int(time.monotonic() - self._since)
        percent = self._terminal.reading
        doing = self._doing if percent is None else f"reading the prompt {percent} %"
        text = style_text(f"{doing}…", "quiet", no_wrap=True, overflow="ellipsis")
        return text.append(f" {seconds} s") if seconds > 1 else text


class LiveTurn:
    """Shows a turn's events.

    A turn that hands calls over is several invocations: then all of them are shown.
    """

    def __init__(
        self, terminal: Terminal, *, trace: bool = False, last: bool = False, agent: str = ""
    ) -> None:
        """Begins to show a turn.

        Args:
            terminal: Where.
            trace: Whether each step is shown.
            last: Whether the answer comes after the steps: streamed, it would stand among them.
            agent: Its name, to note when it hands over to another one; empty to note nothing.
        """
        self._held: list[str] | None = [] if last else None
        self.reply: Reply | None = None
        self._terminal = terminal
        self._agent = agent
        self._view = TraceView(terminal, live=True) if trace else None
        self._status: Status | None = None
        self._running: list[str] = []
        self._midline = False
        self._wrap: WordWrap | None = None

    def run(self, events: Generator[Event, None, None]) -> Reply:
        """Shows all events; an interruption closes them, which stops the turn.

        Raises:
            OrchestratorError: The turn failed.
        """
        from orchestrator.engine.trace.reply import TextDelta, TracePart, TurnEnd

        self._terminal.reading = None  # the last turn may have been stopped while it read
        try:
            self.show_activity("reading and thinking")
            with closing(events):
                for event in events:
                    if isinstance(event, TextDelta):
                        self._show_text(event.text)
                    elif isinstance(event, TracePart):
                        self._handle_part(event.part)
                    elif isinstance(event, TurnEnd):
                        self.reply = event.reply
        finally:
            self._hide_status()
            self._end_line()
        if self.reply is None:
            raise AssertionError("a stream ends in a TurnEnd")
        return self.reply

    def finish(self) -> None:
        """Shows what is left of the trace, its sum, and the answer if that was held back."""
        if self._view is not None:
            self._view.finish()
            self._view = None
        held, self._held = self._held, None
        if held:
            self._show_text("".join(held))
            self._end_line()

    def describe_interruption(self) -> str:
        """The message after Ctrl-C: that the turn was stopped, and which actions in it."""
        if not self._running:
            return "stopped"
        return f"stopped while {' and '.join(self._running)} ran; whether it took effect is unknown"

    def _show_text(self, text: str) -> None:
        if self._held is not None:
            self._held.append(text)
            return
        self._hide_status()
        self._midline = True
        text = clean(text)
        if self._terminal.out.is_terminal:
            self._wrap = self._wrap or WordWrap(self._terminal.out.width)
            text = self._wrap.feed(text)
        self._terminal.raw(text)

    def _handle_part(self, part: dict[str, Any]) -> None:
        if any("modelInvocationInput" in member for member in part["trace"].values()):
            self._running.clear()
        if running := describe_running_call(part):
            self._running.append(running)
        steps = self._view.feed(part) if self._view is not None else []
        if self._view is not None and steps:
            self._hide_status()
            self._end_line()
            self._view.show(steps)
        elif self._agent and (handed := describe_hand_over(part, self._agent)):
            self._hide_status()
            self._end_line()
            self._terminal.block(style_text(clean(handed), "quiet"), stderr=True)
        if doing := describe_activity(part):
            self._end_line()
            self.show_activity(doing)

    def _end_line(self) -> None:
        if self._midline:
            last = self._wrap.flush() if self._wrap is not None else ""
            self._terminal.raw(f"{last}\n")
            self._midline, self._wrap = False, None

    def show_activity(self, doing: str) -> None:
        """Shows what happens now, in a line of its own, until something else does."""
        console = self._terminal.err
        if not console.is_terminal:
            return
        if self._status is None:
            self._status = console.status(ActivityStatus(doing, self._terminal), spinner="dots")
            self._status.start()
        else:
            self._status.update(ActivityStatus(doing, self._terminal))

    def _hide_status(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
