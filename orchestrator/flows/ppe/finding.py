"""Finds what an author's text has besides templates: substitutions, calls, regular expressions.

It goes through the text once, from left to right: what could have no end is looked for once.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.errors import FlowError
from orchestrator.flows.expressions import NAME, Argument, Node, Wrong, parse_arguments
from orchestrator.flows.ppe.choices import Choice, read_substitution
from orchestrator.flows.ppe.dialects import Dialect
from orchestrator.flows.scanning import LineStarts, closing
from orchestrator.flows.steps import Place

__all__ = ["Finder", "Found", "Inline", "Substitution"]


@dataclass(frozen=True, slots=True)
class Inline:
    """A call, or a regular expression, in a text.

    Attributes:
        kind: `script`, `instruction` or `regex`.
        place: Where it is.
        name: What is called, or the variable that is searched.
        written: How it is written.
        arguments: The call's arguments.
        pattern: The regular expression.
        flags: Its flags.
        group: Its group; empty for the first, or for the whole match.
        bare: Whether it has no brackets: then it may have been no expression.
    """

    kind: str
    place: Place
    name: str
    written: str
    arguments: Sequence[Argument] = ()
    pattern: str = ""
    flags: str = ""
    group: str = ""
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Substitution:
    """`[[VAR:...]]`: what the model says here.

    Attributes:
        place: Where it is.
        name: The variable.
        choice: What may be said, if not anything.
        parameters: Model parameters.
    """

    place: Place
    name: str
    choice: Choice | None
    parameters: Sequence[Argument]


@dataclass(frozen=True, slots=True)
class Found:
    """What was found.

    Attributes:
        at: Where it begins.
        end: Where it ends.
        made: What it is; a text for what stands for itself.
    """

    at: int
    end: int
    made: Inline | Substitution | str


_INTERESTING = re.compile(r"\\\[\\\[|\\\]\\\]|\[\[|\(\(|(?<!\S)/(?=\S)")
_BEGINS = re.compile(rf"{NAME}(?:\]\]|[ ]*:)")
_SUBSTITUTION = re.compile(rf"(?P<var>{NAME})(?:[ ]*:(?P<more>.*))?", re.S)
_CALL = re.compile(rf"@(?P<dollar>\$?)(?P<name>{NAME}(?:[-.]\w+)*)[ ]*(?P<open>\()?")
_AFTER_REGEX = rf"/(?P<flags>[a-z]*):(?P<var>{NAME})(?::(?P<group>\w+))?"
_BRACKETED_END = re.compile(rf"{_AFTER_REGEX}\]\]")
_BARE_END = re.compile(rf"{_AFTER_REGEX}(?!\S)")
_BIAS = re.compile(r"\(\((?P<text>!?[^()\n:]{1,200}):[ ]*(?:-?[\d.]+%?|true|false)[ ]*\)\)")
_RENDERED = re.compile(r"\{\{([^{}]*)\}\}")
_WORD = re.compile(r"[^\s\"'(){}\[\],=]+")


class Finder:
    """Goes through one text."""

    def __init__(self, text: str, place: Place, file: str | None, dialect: Dialect) -> None:
        self._text = text
        self._place = place
        self.file = file
        self._dialect = dialect
        self._lines = LineStarts(text)
        self._bracketed_ends: list[re.Match[str]] | None = None
        self._bare_ends: list[re.Match[str]] | None = None
        self._has_ends = True

    def found(self, *, calls: bool) -> Iterator[Found]:
        """What there is, in order.

        Args:
            calls: Whether calls and regular expressions count.

        Raises:
            FlowError: An argument, a choice or an expression is wrong.
        """
        at = 0
        while (sign := _INTERESTING.search(self._text, at)) is not None:
            one = self._at(sign, calls)
            if one is None:
                at = sign.start() + 1
            else:
                yield one
                at = one.end

    def place_of(self, at: int) -> Place:
        """A place in the script."""
        line, place = self._lines.line_of(at), self._place
        return Place(place.line + line, 1 if line else place.column, place.statement)

    def error(self, message: str, at: int = 0) -> FlowError:
        """An error at a place in the text."""
        place = self.place_of(at)
        return FlowError(
            message,
            file=self.file,
            line=place.line,
            column=place.column,
            statement=place.statement,
        )

    def _at(self, sign: re.Match[str], calls: bool) -> Found | None:
        at, written = sign.start(), sign[0]
        if written.startswith("\\"):
            return Found(at, sign.end(), "[[" if written == "\\[\\[" else "]]")
        if written == "((":
            self._refuse_bias(at)
            return None
        if written == "/":
            return self._bare(at) if calls and self._dialect.bare_regexes else None
        if self._text.startswith("@", at + 2):
            return self._call(at) if calls else None
        if self._text.startswith("/", at + 2):
            return self._bracketed(at) if calls else None
        return self._substitution(at)

    def _refuse_bias(self, at: int) -> None:
        found = _BIAS.match(self._text, at)
        if found is not None:
            raise self.error(
                f"{found[0]!r} asks for a bias of tokens, which hosted models do not have; leave "
                "it out, or give choices: [[VAR:|a|b]]",
                at,
            )

    def _substitution(self, at: int) -> Found | None:
        text = self._text
        if not self._has_ends or _BEGINS.match(text, at + 2) is None:
            return None
        end = text.find("]]", at + 2)
        self._has_ends = end >= 0
        found = _SUBSTITUTION.fullmatch(text, at + 2, end) if end >= 0 else None
        if found is None:
            return None
        try:
            choice, parameters = read_substitution(found["more"] or "")
        except Wrong as wrong:
            raise self.error(f"[[{found['var']}:...]]: {wrong.message}", at) from None
        made = Substitution(self.place_of(at), found["var"], choice, parameters)
        return Found(at, end + 2, made)

    def _call(self, at: int) -> Found | None:
        text = self._text
        found = _CALL.match(text, at + 2)
        if found is None:
            return None
        inner, end = "", found.end()
        if found["open"]:
            closed = closing(text, end - 1)
            if closed < 0:
                raise self.error(f"the bracket of @{found['name']}( is not closed", at)
            inner, end = text[end:closed], closed + 1
        while text.startswith(" ", end):
            end += 1
        if not text.startswith("]]", end):
            if found["open"]:
                raise self.error(f"the call of @{found['name']}(...) has no ]] behind it", at)
            return None
        end += 2
        made = Inline(
            "instruction" if found["dollar"] else "script",
            self.place_of(at),
            found["name"],
            text[at:end],
            self._arguments(inner, found["name"], at),
        )
        return Found(at, end, made)

    def _arguments(self, inner: str, name: str, at: int) -> list[Argument]:
        """A call's arguments; what is no expression is a text, such as a file's name."""
        try:
            return parse_arguments(_RENDERED.sub(r"(\1)", inner))
        except Wrong as wrong:
            if _WORD.fullmatch(inner.strip()):
                return [Argument("", Node("text", inner.strip()))]
            raise self.error(f"the arguments of {name!r}: {wrong.message}", at) from None

    def _bracketed(self, at: int) -> Found | None:
        if self._bracketed_ends is None:
            self._bracketed_ends = list(_BRACKETED_END.finditer(self._text))
        return self._searched(at, at + 3, self._bracketed_ends, bare=False)

    def _bare(self, at: int) -> Found | None:
        if self._bare_ends is None:
            self._bare_ends = list(_BARE_END.finditer(self._text))
        return self._searched(at, at + 1, self._bare_ends, bare=True)

    def _searched(
        self, at: int, begins: int, ends: Sequence[re.Match[str]], *, bare: bool
    ) -> Found | None:
        """A regular expression: up to the first end behind it, in its line."""
        next_end = bisect_left(ends, begins + 1, key=lambda it: it.start())
        if next_end == len(ends):
            return None
        end = ends[next_end]
        if self._lines.line_of(end.start()) != self._lines.line_of(at):
            return None
        from orchestrator.flows.ppe.regexes import check_regex

        made = Inline(
            "regex",
            self.place_of(at),
            end["var"],
            self._text[at : end.end()],
            pattern=self._text[begins : end.start()],
            flags=end["flags"],
            group=end["group"] or "",
            bare=bare,
        )
        try:
            check_regex(made)
        except Wrong as wrong:
            raise self.error(wrong.message, at) from None
        return Found(at, end.end(), made)
