"""What is doubtful in a script that can be read: found without running it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from orchestrator.diagnostics import Diagnostic
from orchestrator.flows.pl.keywords import keyword_meant
from orchestrator.flows.pl.nodes import Block, Exit, If, Loop, Prompt, Statement
from orchestrator.flows.pl.uses import assigned, names_in_node, read_by, statements_in
from orchestrator.flows.steps import Place, Program

__all__ = ["lint_program"]

Found = Iterator[tuple[Literal["error", "warning", "info"], str, Place, str, str]]


def lint_program(program: Program) -> list[Diagnostic]:
    """What may not do what was meant, in a program of either language.

    What a Programmable Prompt Engine script finds in itself is `orchestrator.flows.ppe.linting`'s.
    """
    own = getattr(program, "findings", None)
    body: Block | None = getattr(program, "body", None)
    walked = own() if own is not None else _Walk().program(body or ())
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


class _Walk:
    """Goes through a program in the order of its lines."""

    def __init__(self) -> None:
        self._all: set[str] = set()
        self._set: set[str] = set()
        self._asked: set[str] = set()

    def program(self, body: Block) -> Found:
        self._all = {name for one in statements_in(body) for name in assigned(one)}
        yield from self._block(body)

    def _block(self, block: Block) -> Found:
        for at, statement in enumerate(block):
            yield from self._statement(statement)
            if isinstance(statement, Exit) and at + 1 < len(block):
                text = "this is never reached: @exit ends the program before it"
                yield "warning", "unreachable", block[at + 1].place, text, "remove it"

    def _statement(self, statement: Statement) -> Found:
        for name in read_by(statement):
            yield from self._use(name, statement.place)
        match statement:
            case Loop():
                if statement.name in self._set:
                    text = f"FOR overwrites the variable ${statement.name}"
                    yield "warning", "overwritten", statement.place, text, "choose another name"
                self._set.add(statement.name)
                yield from self._block(statement.body)
            case If():
                for branch in statement.branches:
                    for name in names_in_node(branch.condition):
                        yield from self._use(name, branch.place)
                    yield from self._block(branch.body)
            case Prompt():
                yield from _keywords(statement)
                self._set.update(assigned(statement))
            case _:
                self._set.update(assigned(statement))

    def _use(self, name: str, place: Place) -> Found:
        if name in self._set or name in self._asked:
            return
        self._asked.add(name)
        if name in self._all:
            text = f"${name} is used before the program gives it a value"
            yield "warning", "used-before", place, text, "move it down, or give it as an argument"
        else:
            text = f"${name} is an argument: the program itself gives it no value"
            yield "info", "argument", place, text, ""


def _keywords(prompt: Prompt) -> Found:
    """A header in other letters is no header, but text for the model."""
    for line in prompt.text.split("\n"):
        if word := keyword_meant(line):
            text = f"{line.strip()!r} is text for the model: the keyword is {word}"
            yield "warning", "keyword", prompt.place, text, f"write {word}, if that is meant"
