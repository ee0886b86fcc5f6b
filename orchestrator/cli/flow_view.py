"""A script as it runs: each statement as it begins, what models say, what variables become."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.cli.agents import load_model
from orchestrator.cli.keyboard import Keyboard
from orchestrator.cli.live import ActivityStatus
from orchestrator.cli.terminal import Terminal, WordWrap, assemble, clean, shorten, style_text
from orchestrator.support.private_files import open_private
from orchestrator.support.safe_json import read_json

if TYPE_CHECKING:
    from rich.status import Status

    from orchestrator.agent.flow import Flow
    from orchestrator.agent.flow_run import FlowEvent, FlowResult

_INDENT = "      "
_ASKED = "[c]ontinue, [s]tep, [v]ariables or [q]uit? "
_MODES: dict[str, Literal["continue", "step"]] = {
    **dict.fromkeys(("", "c", "continue"), "continue"),
    **dict.fromkeys(("s", "step", "n"), "step"),
}


class FlowView:
    """Shows the events of a run on stderr; what models say streams where that is a terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._streams = terminal.err.is_terminal
        self._wrap: WordWrap | None = None
        self._streamed = self._role = ""
        self._status: Status | None = None

    def show_reading(self, done: int, total: int) -> None:
        """Shows how much of a prompt an embedded model has read, on a terminal."""
        self._terminal.note_reading(done, total)
        if self._terminal.reading is None:
            self.hide_reading()
        elif self._streams and self._status is None and self._wrap is None:
            activity = ActivityStatus("reading", self._terminal)
            self._status = self._terminal.err.status(activity, spinner="dots")
            self._status.start()

    def hide_reading(self) -> None:
        """Takes that line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def show(self, event: FlowEvent) -> None:
        """Shows an event."""
        shows = getattr(self, f"_{event.type}", None)
        if event.type != "token":
            self.end_line()
        if shows is not None:
            shows(event)

    def end_line(self) -> None:
        """Ends the line that a model's words are in."""
        if self._wrap is not None:
            self._write(self._wrap.flush())
            self._terminal.note()
            self._wrap = None

    def _statement_start(self, event: FlowEvent) -> None:
        self._streamed = self._role = ""
        line = f"{event.line:>4}  {_format_iteration(event)}"
        width = max(self._terminal.err.width - len(line), 20)
        statement = shorten(event.statement, min(width, 200))
        self._terminal.note(assemble((line, "quiet"), (statement, "name")))

    def _token(self, event: FlowEvent) -> None:
        if "iteration" in event.members:  # several at once: each is shown when it has ended
            return
        text = str(event.members.get("text", ""))
        self._streamed += text
        if not self._streams:
            return
        role = str(event.members.get("role", ""))
        if role != self._role:
            self.end_line()
            text = f"{role}: {text.lstrip()}" if role else text
        self._role = role
        if self._wrap is None:
            self._wrap = WordWrap(max(self._terminal.err.width - len(_INDENT), 20))
            self._write(_INDENT)
        self._write(self._wrap.feed(clean(text)).replace("\n", f"\n{_INDENT}"))

    def _variable_set(self, event: FlowEvent) -> None:
        name, value = event.members["name"], event.members["value"]
        shown = value[-1] if isinstance(value, list) and value else value
        if self._streams and self._streamed and self._streamed.strip() == str(shown).strip():
            return  # it was just read
        self._line(event, (f"{name} = ", "quiet"), (_format_value(value), ""))

    def _tool_call(self, event: FlowEvent) -> None:
        arguments = [_format_value(one) for one in event.members.get("args", ())]
        arguments += [
            f"{name}={_format_value(one)}" for name, one in event.members.get("kwargs", {}).items()
        ]
        self._line(
            event, (f"{event.members['name']}", "call"), (f"({', '.join(arguments)})", "call")
        )

    def _role_switch(self, event: FlowEvent) -> None:
        if not self._streams or "iteration" in event.members:
            role = str(event.members["text"])
            self._line(event, (f"{event.members['role']}: ", "agent"), (role, ""))

    def _warning(self, event: FlowEvent) -> None:
        self._line(event, ("warning: ", "warning"), (str(event.members["text"]), ""))

    def _exit(self, event: FlowEvent) -> None:
        self._line(event, ("exit", "quiet"))

    def _line(self, event: FlowEvent, *parts: tuple[str, str]) -> None:
        text = style_text(_INDENT).append(_format_iteration(event), "quiet")
        for part, style in parts:
            text.append(clean(part), style)
        width = self._terminal.err.width
        if self._streams and len(text.plain) > width:
            text.truncate(width, overflow="ellipsis")
        self._terminal.err.print(text, soft_wrap=True)

    def _write(self, text: str) -> None:
        self._terminal.err.print(style_text(text, "quiet"), end="", soft_wrap=True)


def _format_iteration(event: FlowEvent) -> str:
    iteration = event.members.get("iteration")
    return f"[{'.'.join(map(str, iteration))}] " if iteration else ""


def _format_value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shorten(text, 160)


class FlowRunner:
    """Runs a script for a command, from its beginning or a state, to its end or to where it waits.

    On a terminal, who runs it says what to do where it waits. Else, and when he quits, the state is
    written to a file.
    """

    def __init__(
        self,
        terminal: Terminal,
        flow: Flow,
        options: Mapping[str, Any],
        state_file: Path,
        *,
        named: bool,
    ) -> None:
        # A file that the user named is overwritten; the default one never with another run's state.
        from orchestrator.models import LocalModel, resolve_model

        self._view = FlowView(terminal)
        model = resolve_model(options["model"])
        if isinstance(model, LocalModel):
            load_model(model, terminal)
            if not terminal.json:
                model.reading = self._view.show_reading
        self._terminal = terminal
        self._flow = flow
        self._options = {**options, "model": model}
        self._state_file = state_file
        self._named = named

    def start(self, arguments: Mapping[str, Any] | str, **options: Any) -> FlowResult:
        """Runs the script."""
        return self._run_to_end(self._flow.stream(arguments, **options, **self._options))

    def resume(self, state: Mapping[str, Any], **answer: Any) -> FlowResult:
        """Goes on with a run."""
        return self._run_to_end(self._flow.resume_stream(state, **answer, **self._options))

    def _run_to_end(self, events: Generator[FlowEvent, None, None]) -> FlowResult:
        while True:
            result = self._show_events(events)
            if result.paused is None:
                return result
            answer = self._ask_user(result) if self._terminal.interactive else None
            if answer is None:
                self._save_state(result)
                return result
            events = self._flow.resume_stream(result.paused, **answer, **self._options)

    def _show_events(self, events: Generator[FlowEvent, None, None]) -> FlowResult:
        result: FlowResult | None = None
        try:
            with closing(events):
                for event in events:
                    result = event.result
                    if not self._terminal.json:
                        self._view.show(event)
        finally:
            self._view.hide_reading()
            self._view.end_line()
        if result is None:
            raise AssertionError("a run ends in an event with its result")
        return result

    def _ask_user(self, result: FlowResult) -> dict[str, Any] | None:
        with Keyboard(None, colour=self._terminal.err.color_system) as keyboard:
            try:
                if result.waits_for != "user":
                    return self._ask_mode(result, keyboard)
                self._terminal.note("(an empty line leaves; exit ends the talk)")
                text = keyboard.answer("› ").strip()
                return {"text": text} if text else None
            except KeyboardInterrupt:
                self._terminal.note()
                return None

    def _ask_mode(self, result: FlowResult, keyboard: Any) -> dict[str, Any] | None:
        place = f"waits before line {result.line}: " if result.statement else "waits"
        self._terminal.note(assemble((place, "heading"), shorten(result.statement, 120)))
        while True:
            asked = keyboard.answer(_ASKED).strip().lower()
            if asked in _MODES:
                return {"mode": _MODES[asked]}
            if asked in ("q", "quit"):
                return None
            if asked in ("v", "variables"):
                for name, value in result.variables.items():
                    self._terminal.note(assemble(f"{_INDENT}{name} = ", _format_value(value)))

    def _save_state(self, result: FlowResult) -> None:
        if self._terminal.json:
            return
        if not self._named:
            self._state_file = _find_free_file(self._state_file, result.paused or {})
        # A state has all that models and functions said.
        with open_private(self._state_file, "w", encoding="utf-8") as file:
            file.write(json.dumps(result.paused))
        if result.waits_for == "user":
            self._terminal.note(f"waits for the user: {shorten(result.question, 400)}")
        else:
            self._terminal.note(f"waits at line {result.line}: {shorten(result.statement, 200)}")
        text = " --text TEXT" if result.waits_for == "user" else ""
        self._terminal.note(f"go on with --resume {self._state_file}{text}")


def _find_free_file(file: Path, state: Mapping[str, Any]) -> Path:
    # Another run's state is never overwritten: the next free name is used.
    name, numbers, free = file.name.removesuffix(".state.json"), count(2), file
    while free.exists() and not _has_state_of(free, state):
        free = file.with_name(f"{name}.{next(numbers)}.state.json")
    return free


def _has_state_of(file: Path, state: Mapping[str, Any]) -> bool:
    try:
        found = read_json(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("session") == state.get("session")
