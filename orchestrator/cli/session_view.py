"""A kept session on the terminal: what was said, and what became of every turn."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.cli.session_state import UnfinishedCall
from orchestrator.cli.terminal import Terminal, clean

if TYPE_CHECKING:
    from orchestrator.cli.stored_sessions import StoredTurn

_UNKNOWN = "whether it took effect is not known"
_ENDINGS = {"cancelled": "stopped by the user", "end_turn": ""}
_STATES = {
    "running": "running in another process",
    "interrupted": "its process stopped",
    "waiting": "waits for you",
}


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn with what its records tell of its state.

    Attributes:
        turn: The turn.
        state: `ended`, `waiting`, `running` or `interrupted`.
        begun: Its calls that were begun and have no outcome.
        inputs: The calls that it waits for, in Bedrock's shape.
    """

    turn: StoredTurn
    state: str
    begun: list[UnfinishedCall]
    inputs: list[dict[str, Any]]

    def as_dict(self, *, trace: bool) -> dict[str, Any]:
        """The turn as JSON members."""
        members = {
            **self.turn.as_dict(trace=trace),
            "time": iso_time(self.turn.at),
            "state": self.state,
            "begun": [{"call": call.text, "key": call.key} for call in self.begun],
            "waits_for": self.inputs,
        }
        if self.state == "running":
            members["stop_reason"] = "running"
        return members


def show_turn(terminal: Terminal, shown: TurnView, session: str, folder: str) -> None:
    """Writes a turn, and how to go on with it when it has not ended."""
    from rich.text import Text

    turn = shown.turn
    if turn.new:
        terminal.print(Text("the session began anew", "quiet"))
    terminal.print(Text.assemble(("you ", "you"), (local_time(turn.at), "quiet")))
    terminal.block(clean(turn.question), 2)
    if turn.note:
        terminal.block(Text(turn.note, "warning"), 2)
    _show_steps(terminal, shown)
    ending = _STATES.get(shown.state) or _ENDINGS.get(turn.stop_reason, turn.stop_reason)
    terminal.print(Text.assemble(("agent", "agent"), (f" {ending}" if ending else "", "quiet")))
    terminal.block(clean(turn.text), 2)
    for line in _suggest_next_steps(shown, session, folder):
        terminal.block(line, 2)
    terminal.print()


def _show_steps(terminal: Terminal, shown: TurnView) -> None:
    from orchestrator.cli.steps import Step
    from orchestrator.cli.trace_view import TraceView

    calls = [(call.text, f"began; {_UNKNOWN}; key {call.key}") for call in shown.begun]
    if shown.state == "running":
        calls = [(text, "runs") for text, _ in calls]
    if shown.turn.trace:
        view = TraceView(terminal)
        for part in shown.turn.trace:
            view.show(view.feed(part))
        view.flush()
        view.show(Step("calls", text, told) for text, told in calls)
        view.finish()
    else:
        for text, told in calls:
            terminal.block(f"{clean(text)} {told}", 2)


def _suggest_next_steps(shown: TurnView, session: str, folder: str) -> list[str]:
    from orchestrator.cli.return_control import list_waiting_calls

    again = f"orchestrator invoke {shlex.quote(folder)} --session {shlex.quote(session)}"
    if shown.state == "waiting":
        waits = [f"{clean(call.text)} ({call.wants})" for call in list_waiting_calls(shown.inputs)]
        return [*waits, f"Go on with `{again} --results FILE`; another question gives it up."]
    if shown.state == "interrupted" and shown.begun:
        return [
            "Look at the system behind it, by the key, before you ask again. "
            f"`{again}` ends the turn and does not run it again, unless it is idempotent."
        ]
    if shown.state == "interrupted":
        return [f"Go on with `{again}`; another question gives it up."]
    return []


def local_time(at: int) -> str:
    """A time in nanoseconds since 1970, for people."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at / 1e9))


def iso_time(at: int) -> str:
    """The same for programs: ISO 8601, in UTC."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at / 1e9, UTC).isoformat(timespec="milliseconds")
