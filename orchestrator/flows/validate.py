"""Checks arguments before a run: one that no script reads is a slip, and would be paid for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from orchestrator.actions.names import did_you_mean
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import ValidationError
from orchestrator.flows.steps import Place, Program


def check_arguments(program: Program, names: Iterable[str]) -> None:
    """Checks that a program reads, sets or declares all its arguments.

    Raises:
        ValidationError: One means nothing to it.
    """
    wanted, known = _find_arguments(program)
    if known is None:
        return
    for name in names:
        if name not in known:
            there = ", ".join(wanted) or "none"
            raise ValidationError(
                f"there is no argument {name!r}{did_you_mean(name, wanted)}; there is {there}"
            )


def _find_arguments(program: Any) -> tuple[Collection[str], Collection[str] | None]:
    """The arguments that it wants, and all names that mean something to it; `None` for any."""
    if program.language == "ppe":
        taken: tuple[list[str], frozenset[str] | None] = program.arguments()
        return taken
    from orchestrator.flows.pl.nodes import If
    from orchestrator.flows.pl.uses import (
        find_assigned_names,
        find_read_names,
        names_in_node,
        statements_in,
    )

    read: dict[str, None] = {}
    arguments: set[str] = set()
    for one in statements_in(program.body):
        read |= dict.fromkeys(find_read_names(one))
        arguments.update(find_assigned_names(one))
        for branch in one.branches if isinstance(one, If) else ():
            read |= dict.fromkeys(names_in_node(branch.condition))
    return [name for name in read if name not in arguments], {*read, *arguments}


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
