"""What is doubtful in a script that can be read: found without running it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from orchestrator.diagnostics import Diagnostic
from orchestrator.flows.steps import Place, Program

__all__ = ["lint_program"]

Found = Iterator[tuple[Literal["error", "warning", "info"], str, Place, str, str]]


def lint_program(program: Program) -> list[Diagnostic]:
    """What may not do what was meant, in a program of either language.

    What each finds in itself is `orchestrator.flows.ppe.linting`'s and
    `orchestrator.flows.pl.linting`'s.
    """
    own = getattr(program, "findings", None)
    walked: Found = own() if own is not None else iter(())
    file = str(Path(program.file)) if program.file else None
    found = []
    for severity, code, place, text, way in walked:
        found.append(
            Diagnostic(
                severity=severity,
                code=code,
                message=text,
                suggestion=way,
                file=file,
                line=place.line,
                column=place.column,
            )
        )
    return sorted(found, key=lambda one: (one.line or 0, one.column or 0))
