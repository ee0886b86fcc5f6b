"""Where everything in a document is: file, line and column of every member and value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import DefinitionError

Severity = Literal["error", "warning", "info"]

# The way to a value: member names and list indexes, from the top.
Keys = tuple[str | int, ...]

# Mistakes in one message; a reader who gets more reads none.
MOST_FINDINGS = 20


@dataclass(slots=True)
class Place:
    """Where one value is in the text."""

    line: int  # line of the value, from 1
    column: int  # column of the value, from 1
    key: tuple[int, int] | None = None  # line and column of its member name, when it has one
    text: str = ""  # how a number, truth value or null was written; empty for everything else
    # The values inside, by member name or index
    children: dict[str | int, Place] = field(default_factory=dict)

    def child(self, name: str | int) -> Place | None:
        """The value under `name`, spelled in either way (`agentName`, `agent_name`)."""
        child = self.children.get(name)
        if child is None and isinstance(name, str):
            folded = name.replace("_", "").lower()
            for other, place in self.children.items():
                if isinstance(other, str) and other.replace("_", "").lower() == folded:
                    return place
        return child

    def follow(self, keys: Keys) -> tuple[Place, bool]:
        """The place at `keys`, or else the nearest one around it; and whether all keys led on."""
        place = self
        for key in keys:
            inner = place.child(key)
            if inner is None:
                return place, False
            place = inner
        return place, True


@dataclass(frozen=True, slots=True)
class Source:
    """Where a definition was read from.

    All sources are equal: where a definition comes from is not part of what it is, so that two
    definitions with the same members are equal.
    """

    # The file; empty when the definition was made in Python
    file: str = field(default="", compare=False)
    # The agent's folder, to which the files that the definition names are relative
    folder: Path | None = field(default=None, compare=False)
    root: Place | None = field(default=None, compare=False, repr=False)  # the places
    # What was read differently from how it was written
    notes: tuple[Diagnostic, ...] = field(default=(), compare=False)

    def find(self, keys: Keys) -> tuple[Place | None, bool]:
        """The place at `keys`, or else the nearest one around it; and whether it was found."""
        return self.root.follow(keys) if self.root else (None, False)

    def place_of(self, *keys: str | int) -> tuple[int, int] | None:
        """Line and column of the value at `keys`, or of the nearest value around it.

        Names may be spelled in either way: `place_of("actionGroups", 0, "apiSchema")`.
        """
        place, _ = self.find(keys)
        return (place.line, place.column) if place else None

    def error(self, message: str, *keys: str | int) -> DefinitionError:
        """A `DefinitionError` about the value at `keys`, with its place as far as it is known."""
        line, column = self.place_of(*keys) or (None, None)
        return DefinitionError(message, file=self.file or None, line=line, column=column)

    def diagnostic(
        self, severity: Severity, code: str, message: str, *keys: str | int, suggestion: str = ""
    ) -> Diagnostic:
        """A finding about the value at `keys`, with its place as far as it is known."""
        line, column = self.place_of(*keys) or (None, None)
        return Diagnostic(
            severity=severity,
            code=code,
            message=message,
            suggestion=suggestion,
            file=self.file or None,
            line=line,
            column=column,
        )


def combine_findings(
    findings: Iterable[Diagnostic], kind: type[DefinitionError] = DefinitionError
) -> DefinitionError:
    """One error for all `findings`, in the order of their places; it holds every one of them."""
    ordered = sorted(findings, key=lambda it: (it.file or "", it.line or 0, it.column or 0))
    first, *others = ordered
    shown = others[: MOST_FINDINGS - 1]
    lines = [_sentence(first), *(f"{_place(it)}{_sentence(it)}" for it in shown)]
    if more := len(others) - len(shown):
        lines.append(f"and {more} more")
    return kind(
        "\n".join(lines),
        file=first.file,
        line=first.line,
        column=first.column,
        diagnostics=ordered,
    )


def _place(finding: Diagnostic) -> str:
    return f"{finding.place}: " if finding.file or finding.line else ""


def _sentence(finding: Diagnostic) -> str:
    return f"{finding.message}; {finding.suggestion}" if finding.suggestion else finding.message
