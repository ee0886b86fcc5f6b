"""What is doubtful in a program of the workflow language: found without running it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from orchestrator.flows.pl.lines import ARROW, WRONG_ARROW, Lines, suggest_keyword
from orchestrator.flows.pl.nodes import Block, Exit, FunctionCall, If, Loop, Prompt, Statement
from orchestrator.flows.pl.reader import wrong_arrows
from orchestrator.flows.pl.uses import (
    find_assigned_names,
    find_read_names,
    names_in_node,
    statements_in,
)
from orchestrator.flows.steps import Finding, Place
from orchestrator.support.spelling import find_close

Findings = Iterator[Finding]

_BUILT_IN = ("agent", "code", "condition_judge", "exit")
_NO_NAME = re.compile(r"\$(?P<name>(?![A-Za-z0-9_])\w+)|(?P<open>\$\{(?![^{}]*\})\S*)")


def findings(body: Block, text: str) -> Findings:
    """What may not do what was meant."""
    if not body:
        yield "warning", "empty", Place(1), "the program has no statement", "write one"
    yield from doubtful_arrows(body, text)
    yield from _Walk(text).program(body)


def doubtful_arrows(body: Block, text: str) -> Findings:
    """Arrows that name no variable: what follows them belongs to the text."""
    lines = Lines(text, None).lines
    for one in statements_in(body):
        if not isinstance(one, Prompt):
            continue
        for at in wrong_arrows(one.text):
            line = one.place.line + at
            named = WRONG_ARROW.search(lines[line - 1])
            if named is None or ARROW.search(lines[line - 1]):
                continue
            place = Place(line, named.start("name") + 1, lines[line - 1].strip())
            message = (
                f"{named['name']!r} is no variable name, so this line is text for the model, with "
                "what follows it"
            )
            yield "warning", "arrow", place, message, "names are letters a-z, digits and _"


class _Walk:
    """Goes through a program in the order of its lines."""

    def __init__(self, text: str) -> None:
        self._lines = Lines(text, None).lines
        self._all: set[str] = set()
        self._set: set[str] = set()
        self._asked: set[str] = set()

    def program(self, body: Block) -> Findings:
        self._all = {name for one in statements_in(body) for name in find_assigned_names(one)}
        yield from self._block(body)
        yield from _calls(body)

    def _block(self, block: Block) -> Findings:
        for at, statement in enumerate(block):
            yield from self._statement(statement)
            if isinstance(statement, Exit) and at + 1 < len(block):
                text = "this is never reached: @exit ends the program before it"
                yield "warning", "unreachable", block[at + 1].place, text, "remove it"

    def _statement(self, statement: Statement) -> Findings:
        for name in find_read_names(statement):
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
                yield from _marks(statement)
                self._set.update(find_assigned_names(statement))
            case _:
                self._set.update(find_assigned_names(statement))

    def _use(self, name: str, place: Place) -> Findings:
        if name in self._set or name in self._asked:
            return
        self._asked.add(name)
        at = self._place(name, place)
        if name in self._all:
            text = f"${name} is used before the program gives it a value"
            yield "warning", "used-before", at, text, "move it down, or give it as an argument"
            return
        meant = _suggest_name(name, self._set, "$")
        text = f"${name} is an argument: the program itself gives it no value"
        if meant:
            yield "warning", "argument", at, f"{text}{meant}", ""
        else:
            yield "info", "argument", at, text, ""

    def _place(self, name: str, place: Place) -> Place:
        """Where a statement uses a variable first."""
        use = re.compile(rf"\$(?:\{{\s*)?{re.escape(name)}(?![A-Za-z0-9_])")
        for line in range(place.line, len(self._lines) + 1):
            if found := use.search(self._lines[line - 1]):
                return Place(line, found.start() + 1, place.statement)
        return place


def _suggest_name(name: str, known: Iterable[str], sign: str) -> str:
    close = find_close(name, known, 0.85)
    return f"; did you mean '{sign}{close}'?" if close else ""


def _calls(body: Block) -> Findings:
    """Functions that somebody must give, and statements of the language that were misspelt."""
    own = {name for one in statements_in(body) for name in find_assigned_names(one)}
    reported: set[str] = set()
    for one in statements_in(body):
        if not isinstance(one, FunctionCall) or one.name in own | reported:
            continue
        reported.add(one.name)
        text = f"@{one.name} is a function that the program needs"
        if meant := _suggest_name(one.name, _BUILT_IN, "@"):
            yield "warning", "function", one.place, f"{text}{meant}", ""
        else:
            yield "info", "function", one.place, text, "--tool NAME=FILE:FUNCTION gives it"


def _keywords(prompt: Prompt) -> Findings:
    """A header in other letters is no header, but text for the model."""
    for line in prompt.text.split("\n"):
        if word := suggest_keyword(line):
            text = f"{line.strip()!r} is text for the model: the keyword is {word}"
            yield "warning", "keyword", prompt.place, text, f"write {word}, if that is meant"


def _marks(prompt: Prompt) -> Findings:
    """What looks like a variable, or a comment, and is text for the model."""
    for found in _NO_NAME.finditer(prompt.text):
        if found["name"]:
            text = f"'${found['name']}' is no variable: names are letters a-z, digits and _"
        else:
            text = f"{found['open']!r} is no variable: its bracket is not closed"
        yield "warning", "variable", prompt.place, text, "it is text for the model as it is"
    if prompt.text.startswith("# "):
        text = "this line is text for the model: a comment stands right before another statement"
        yield "info", "comment", prompt.place, text, ""
