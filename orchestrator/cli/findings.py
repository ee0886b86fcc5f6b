"""Findings and errors for people: the place, what is the matter, the line, the way out.

```
agent.yaml:2:1: error: there is no member 'instructions' [unknown-member]
  2 | instructions: You help people.
    | ^
    = did you mean 'instruction'?
```
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.terminal import Terminal, assemble, clean, style_text
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import (
    AccessDenied,
    ActionOutcomeUnknown,
    DefinitionError,
    DependencyFailed,
    LimitExceeded,
    OrchestratorError,
)
from orchestrator.support.findings import as_findings

if TYPE_CHECKING:
    from rich.text import Text


_LONGEST = 400


def report_broken_agent(terminal: Terminal, name: str, reason: str) -> None:
    """Says of one of several agents that it is wrong, and why."""
    terminal.path(assemble("  ", (clean(name), "name"), (" is wrong:", "error")))
    for line in reason.splitlines():
        terminal.path(style_text(f"    {clean(line)}"))


def format_path(path: str | Path) -> str:
    """A path as it is best read: from the working directory, or else from `~`, if it lies there."""
    for folder, name in ((Path.cwd, ""), (Path.home, "~/")):
        try:
            return name + str(Path(path).resolve().relative_to(folder().resolve()))
        except (OSError, RuntimeError, ValueError):
            continue
    return str(path)


def show_finding(terminal: Terminal, finding: Diagnostic, *, stderr: bool = False) -> None:
    """Writes a finding with its source line."""
    head = style_text()
    parts = [finding.file and format_path(finding.file), finding.line, finding.column]
    if place := ":".join(str(part) for part in parts if part):
        head.append(f"{place}: ", "name")
    head.append(finding.severity, finding.severity)
    head.append(f": {clean(finding.message)}")
    head.append(f" [{finding.code}]", "quiet")
    terminal.block(head, stderr=stderr)
    console = terminal.err if stderr else terminal.out
    gutter = len(str(finding.line or 0)) + 2
    for line in _source_lines(finding, gutter, console.width):
        console.print(line, soft_wrap=True)
    if finding.suggestion:
        hint = assemble(("= ", "quiet"), (clean(finding.suggestion), "good"))
        terminal.block(hint, gutter + 1, stderr=stderr)


def _source_lines(finding: Diagnostic, gutter: int, width: int) -> Iterable[Text]:
    if finding.file is None or finding.line is None:
        return
    try:
        with Path(finding.file).open(encoding="utf-8", errors="replace") as stream:
            line = next((it for n, it in enumerate(stream, 1) if n == finding.line), "")
    except OSError:
        return
    column = finding.column or 1
    shown, at = _crop_line(clean(line.rstrip("\n").expandtabs(1)), column - 1, width - gutter - 4)
    yield assemble((f"{finding.line:>{gutter}} | ", "quiet"), shown)
    if finding.column:
        yield assemble((f"{'':>{gutter}} | ", "quiet"), " " * at, ("^", finding.severity))


def _crop_line(line: str, at: int, width: int) -> tuple[str, int]:
    # A window of a long line with the place in it: templates are often one line of 5,000 letters.
    width = min(max(width, 20), 120)
    if len(line) <= width:
        return line, min(at, len(line))
    start = max(0, min(at - width // 2, len(line) - width))
    window = line[start : start + width]
    return ("…" + window[1:] if start else window), at - start


def show_error(terminal: Terminal, error: BaseException) -> None:
    """Writes an error to stderr: with --debug after its traceback, and with the way out."""
    if terminal.debug:
        terminal.note(clean("".join(traceback.format_exception(error))).rstrip())
    if isinstance(error, DefinitionError):
        for finding in as_findings(error):
            show_finding(terminal, finding, stderr=True)
        return
    message = clean(format_message(error))
    terminal.block(assemble(("error: ", "error"), message), stderr=True)
    explained, terminal.explained = terminal.debug or terminal.explained, False
    if way_out := suggest_fix(error, debug=explained):
        terminal.block(assemble(("= ", "quiet"), (way_out, "good")), 2, stderr=True)


def show_load_error(terminal: Terminal, finding: Diagnostic) -> None:
    """Writes what a file of the user's raised while it was loaded; its error is yet to come."""
    terminal.explained = True
    show_finding(terminal, finding, stderr=True)


def format_message(error: BaseException) -> str:
    """What an error says."""
    if isinstance(error, OrchestratorError):
        return error.message
    if isinstance(error, OSError):
        return f"cannot do that: {error}"
    return f"{type(error).__name__}: {error} (--debug shows where)"


def report_error(terminal: Terminal, error: BaseException, **members: Any) -> None:
    """Writes an error to stderr, and with --json as a document with further members."""
    if terminal.json:
        terminal.document({**error_document(error), **members})
    if terminal.log_error is not None:
        terminal.log_error(error)
    else:
        show_error(terminal, error)


def error_document(error: BaseException) -> dict[str, Any]:
    """An error as JSON members; with `reply`, what a failed turn had done."""
    # Only these errors point into the user's files.
    place = error if isinstance(error, DefinitionError) else None
    members: dict[str, Any] = {
        "type": type(error).__name__,
        "message": error.message if isinstance(error, OrchestratorError) else str(error),
        **{name: getattr(place, name, None) for name in ("file", "line", "column")},
    }
    for name in ("bedrock_name", "resource", "limit", "code"):
        if value := getattr(error, name, ""):
            members[name] = value
    if way_out := suggest_fix(error):
        members["hint"] = way_out
    reply = getattr(error, "reply", None)
    return {"error": members} if reply is None else {"error": members, "reply": reply.as_dict()}


def suggest_fix(error: BaseException, *, debug: bool = False) -> str:
    """What to do about an error from the command line; empty when its message says it all."""
    if isinstance(error, LimitExceeded):
        return _suggest_limit(error.limit)
    if isinstance(error, ActionOutcomeUnknown):
        if error.undecided is not None:
            return "`orchestrator sessions decide SESSION FOLDER` lists what is to be decided"
        return "`orchestrator sessions show SESSION FOLDER --trace` tells the call and its key"
    if isinstance(error, AccessDenied):
        return error.hint
    if isinstance(error, DependencyFailed) and not debug:
        own = error.__cause__
        if own is not None and not isinstance(own, OrchestratorError):
            return "run with --debug to see it"
    return ""


def _suggest_limit(name: str) -> str:
    first, *rest = name.split("_")
    member = first + "".join(word.capitalize() for word in rest)
    more = f"`limits: {{{member}: ...}}` in agent.yaml raises it"
    return more if name == "input_chars" else f"{more}; --trace shows what it went into"
