"""What looks like a hole, a call or a template in a script, and is sent as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orchestrator.flows.ppe.built_in import BUILT_IN
from orchestrator.flows.ppe.data import Author, author_texts
from orchestrator.flows.ppe.instruction_reader import LISTENING
from orchestrator.flows.ppe.library import Library
from orchestrator.flows.ppe.nodes import Edit, For, Instruction, Say, Script, Statement
from orchestrator.flows.ppe.settings import KEYS
from orchestrator.flows.ppe.text_scanner import TextScanner
from orchestrator.flows.ppe.texts import has_tags
from orchestrator.flows.ppe.uses import statements_in
from orchestrator.flows.steps import Finding, Place
from orchestrator.flows.tree import NAME, Node

Findings = Iterator[Finding]

_CODE = "literal"
_OLD_CALL = re.compile(rf"(?<![\w@$\[])@(?P<name>\$?{NAME}(?:[-.]\w+)*)\(")
_NO_CALL = re.compile(r"\[\[@[^\[\]\n]{0,40}")
_BRACKETS = re.compile(r"\[\[(?P<inner>[^\[\]\n]{1,60})\]\]")
_SPACED = re.compile(rf"{NAME}(?:[ ]*:.*)?")
_DOTTED = re.compile(rf"{NAME}(?:\.{NAME})+")


def find_literals(script: Script, library: Library) -> Findings:
    """What stays as it is written, though it looks like more."""
    finder = _Finder(script, library)
    for statement in statements_in(script.body):
        yield from finder.find_in_statement(statement)
    for key, value in script.front.items():
        if key not in KEYS:
            yield from finder.find_in_front(value)


class _Finder:
    """Looks at one script."""

    def __init__(self, script: Script, library: Library) -> None:
        self._script = script
        self._library = library
        self._names = {*script.settings.imports, *(f"${name}" for name in BUILT_IN)}

    def find_in_statement(self, statement: Statement) -> Findings:
        if isinstance(statement, Say | Edit):
            for part in statement.text.parts:
                yield from self._find_calls(part.source, statement.text.place)
                yield from _find_brackets(part.source, statement.text.place)
                if statement.text.when != "never":
                    yield from _find_no_calls(part.source, statement.text.place)
        elif isinstance(statement, Instruction):
            if statement.name == "set" and statement.value is None and not statement.arguments:
                message = "$set has no value: nothing is set"
                yield "warning", _CODE, statement.place, message, "indent the names below it"
            if statement.name not in (*LISTENING, "get"):
                yield from self._find_in_value(statement.value)
        elif isinstance(statement, For) and not isinstance(statement.items, Node):
            yield from self._find_in_value(statement.items)

    def find_in_front(self, value: object) -> Findings:
        """A value of the front matter has templates, but no calls and no holes."""
        for text in author_texts(value):
            if "[[@" in text or "[[/" in text:
                message = f"{_shorten(text)!r} of the front matter is text: nothing is called there"
                yield "warning", _CODE, text.place, message, "set it with $set in the body"

    def _find_in_value(self, value: object) -> Findings:
        """A value of an instruction has templates and calls, but no holes, and names have none."""
        if isinstance(value, dict):
            for name in filter(has_tags, value):
                place = next((it.place for it in author_texts(value)), Place(1))
                message = f"the name {_shorten(name)!r} stays as it is: values alone are rendered"
                yield "warning", _CODE, place, message, ""
        for text in author_texts(value):
            if not text.startswith("?="):
                yield from self._find_holes(text)
                yield from self._find_calls(text, text.place)

    def _find_holes(self, text: Author) -> Findings:
        style = self._script.style
        scanner = TextScanner(text, text.place, self._script.file, style.dialect)
        for found in scanner.find_all(calls=False):
            name = getattr(found.made, "name", "")
            if name:
                message = f"[[{name}]] stays as it is written: an instruction has no holes"
                way = "write a message with it, and read its name here"
                yield "warning", _CODE, scanner.place_of(found.at), message, way

    def _find_calls(self, text: str, place: Place) -> Findings:
        """`@name(...)`, as calls were written before 0.6."""
        for found in _OLD_CALL.finditer(text):
            name = found["name"]
            if name in self._names or self._library.has(name):
                where = _shift(place, text, found.start())
                message = f"'@{name}(...)' is text: a call has brackets around it"
                yield "warning", _CODE, where, message, f"write [[@{name}(...)]]"


def _find_no_calls(text: str, place: Place) -> Findings:
    """What begins as a call does, in a text whose calls are taken out."""
    for found in _NO_CALL.finditer(text):
        message = f"{found[0]!r} begins no call, and is text"
        way = "write [[@name(arguments)]], without spaces before the name, and without a path"
        yield "warning", _CODE, _shift(place, text, found.start()), message, way


def _find_brackets(text: str, place: Place) -> Findings:
    """What stands in brackets as a hole does, and is none."""
    for found in _BRACKETS.finditer(text):
        inner, where = found["inner"], _shift(place, text, found.start())
        name = inner.strip()
        if inner != name and _SPACED.fullmatch(name):
            message = f"{found[0]!r} is text: a hole has no spaces around its name"
            yield "warning", _CODE, where, message, f"write [[{name}]]"
        elif _DOTTED.fullmatch(name):
            message = f"{found[0]!r} is text: a hole is one name, without dots"
            yield "info", _CODE, where, message, ""


def _shift(place: Place, text: str, at: int) -> Place:
    lines = text.count("\n", 0, at)
    return Place(place.line + lines, 1 if lines else place.column, place.statement)


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
