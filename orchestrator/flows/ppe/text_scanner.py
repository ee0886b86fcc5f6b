"""Finds what an author's text has besides templates: substitutions, calls, regular expressions.

It goes through the text once, from left to right: what could have no end is looked for once.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.errors import FlowError
from orchestrator.flows.expressions import (
    LineStarts,
    find_closing_bracket,
    parse_arguments,
    unwrap_templates,
)
from orchestrator.flows.ppe.choices import Choice, read_substitution
from orchestrator.flows.ppe.dialects import Dialect
from orchestrator.flows.ppe.regexes import check_regex
from orchestrator.flows.steps import Place
from orchestrator.flows.tree import NAME, Argument, Node, ScriptError


@dataclass(frozen=True, slots=True)
class Inline:
    """A call, or a regular expression, in a text."""

    kind: str  # `script`, `instruction` or `regex`
    place: Place  # where it is
    name: str  # what is called, or the variable that is searched
    written: str  # how it is written
    arguments: Sequence[Argument] = ()  # the call's arguments
    pattern: str = ""  # the regular expression
    flags: str = ""  # its flags
    group: str = ""  # its group; empty for the first, or for the whole match
    bare: bool = False  # whether it has no brackets: then it may have been no expression


@dataclass(frozen=True, slots=True)
class Substitution:
    """`[[VAR:...]]`: the model's text is put here."""

    place: Place  # where it is
    name: str  # the variable
    choice: Choice | None  # the only replies that are right; `None` for any
    parameters: Sequence[Argument]  # model parameters

    @property
    def list_name(self) -> str:
        """The variable with the list of what was chosen, where several may be; else empty."""
        several = self.choice is not None and self.choice.most > 1
        return f"{self.name}_list" if several else ""

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that it sets."""
        return (self.name, self.list_name) if self.list_name else (self.name,)


@dataclass(frozen=True, slots=True)
class Bias:
    """`((text:20%))`: a text that the model shall say more often, less often, or never."""

    place: Place  # where it is
    text: str  # the text
    value: float | None  # what is added to the logits of its tokens; `None` for never
    shown: str  # what of it stands in the message


@dataclass(frozen=True, slots=True)
class TextMatch:
    """What was found."""

    at: int  # where it begins
    end: int  # where it ends
    made: Inline | Substitution | Bias | str  # what it is; a text for what stands for itself


_INTERESTING = re.compile(r"\\\[\\\[|\\\]\\\]|\\\(\\\(|\\\)\\\)|\[\[|\(\(|(?<!\S)/(?=\S)")
_BEGINS = re.compile(rf"{NAME}(?:\]\]|[ ]*:)")
_SUBSTITUTION = re.compile(rf"(?P<var>{NAME})(?:[ ]*:(?P<more>.*))?", re.S)
_CALL = re.compile(rf"@(?P<dollar>\$?)(?P<name>{NAME}(?:[-.]\w+)*)[ ]*(?P<open>\()?")
_AFTER_REGEX = rf"/(?P<flags>[a-z]*):(?P<var>{NAME})(?::(?P<group>\w+))?"
_BRACKETED_END = re.compile(rf"{_AFTER_REGEX}\]\]")
_BARE_END = re.compile(rf"{_AFTER_REGEX}(?!\S)")
_BIAS = re.compile(
    r"\(\((?P<away>!?)(?P<text>[^()\n:{}]{1,200}):[ ]*"
    r"(?:(?P<number>[-+]?\d+(?:\.\d+)?)(?P<percent>%?)|(?P<never>false|never))[ ]*\)\)"
)
_MOST_BIAS = 1000.0
_WORD = re.compile(r"[^\s\"'(){}\[\],=]+")


class TextScanner:
    """Goes through one text."""

    def __init__(self, text: str, place: Place, file: str | None, dialect: Dialect) -> None:
        self._text = text
        self._place = place
        self.file = file
        self._dialect = dialect
        self._lines = LineStarts(text)
        self._regex_ends: dict[bool, list[re.Match[str]]] = {}  # by whether they are bare
        self._has_ends = True

    def find_all(self, *, calls: bool) -> Iterator[TextMatch]:
        """What there is, in order."""
        at = 0
        while (sign := _INTERESTING.search(self._text, at)) is not None:
            one = self._read_at(sign, calls)
            if one is None:
                at = sign.start() + 1
            else:
                yield one
                at = one.end

    def place_of(self, at: int) -> Place:
        """A place in the script."""
        line, place = self._lines.line_of(at), self._place
        return Place(place.line + line, 1 if line else place.column, place.statement)

    def error(self, message: str, message_zh: str, at: int = 0) -> FlowError:
        """An error at a place in the text, in English and in Chinese."""
        return self.place_of(at).error(message, message_zh, self.file)

    def _read_at(self, sign: re.Match[str], calls: bool) -> TextMatch | None:
        at, written = sign.start(), sign[0]
        if written.startswith("\\"):
            return TextMatch(at, sign.end(), written.replace("\\", ""))
        if written == "((":
            return self._bias(at) if calls else None
        if written == "/":
            is_regex = calls and self._dialect.bare_regexes
            return self._read_regex(at, at + 1, bare=True) if is_regex else None
        if self._text.startswith("@", at + 2):
            return self._call(at) if calls else None
        if self._text.startswith("/", at + 2):
            return self._read_regex(at, at + 3, bare=False) if calls else None
        return self._substitution(at)

    def _bias(self, at: int) -> TextMatch | None:
        found = _BIAS.match(self._text, at)
        if found is None or not found["text"].strip():
            return None
        text = found["text"].strip()
        shown = "" if found["away"] else text
        made = Bias(self.place_of(at), text, self._bias_value(found, at), shown)
        return TextMatch(at, found.end(), made)

    def _bias_value(self, found: re.Match[str], at: int) -> float | None:
        """What is added to the logits: a percentage multiplies the odds, less than 0 is never."""
        if found["never"]:
            return None
        value = float(found["number"])
        if abs(value) > _MOST_BIAS:
            raise self.error(
                f"the bias {found['number']} is larger than {_MOST_BIAS:.0f}",
                f"偏置 {found['number']} 超过 {_MOST_BIAS:.0f}",
                at,
            )
        if not found["percent"]:
            return value
        factor = 1 + value / 100
        return math.log(factor) if factor > 0 else None

    def _substitution(self, at: int) -> TextMatch | None:
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
        except ScriptError as wrong:
            what = f"[[{found['var']}:...]]"
            raise self.error(
                f"{what}: {wrong.message}", f"{what}: {wrong.message_zh}", at
            ) from None
        made = Substitution(self.place_of(at), found["var"], choice, parameters)
        return TextMatch(at, end + 2, made)

    def _call(self, at: int) -> TextMatch | None:
        text = self._text
        found = _CALL.match(text, at + 2)
        if found is None:
            return None
        inner, end = "", found.end()
        if found["open"]:
            closed = find_closing_bracket(text, end - 1)
            if closed < 0:
                name = found["name"]
                raise self.error(
                    f"the bracket of @{name}( is not closed", f"@{name}( 的括号没有闭合", at
                )
            inner, end = text[end:closed], closed + 1
        while text.startswith(" ", end):
            end += 1
        if not text.startswith("]]", end):
            if found["open"]:
                name = found["name"]
                raise self.error(
                    f"the call of @{name}(...) has no ]] behind it",
                    f"@{name}(...) 的调用后缺少 ]]",
                    at,
                )
            return None
        end += 2
        made = Inline(
            "instruction" if found["dollar"] else "script",
            self.place_of(at),
            found["name"],
            text[at:end],
            self._arguments(inner, found["name"], at),
        )
        return TextMatch(at, end, made)

    def _arguments(self, inner: str, name: str, at: int) -> list[Argument]:
        """A call's arguments; what is no expression is a text, such as a file's name."""
        try:
            return parse_arguments(unwrap_templates(inner), mixed=True)
        except ScriptError as wrong:
            if _WORD.fullmatch(inner.strip()):
                return [Argument("", Node("text", inner.strip()))]
            raise self.error(
                f"the arguments of {name!r}: {wrong.message}",
                f"{name} 的参数有误: {wrong.message_zh}",
                at,
            ) from None

    def _read_regex(self, at: int, begins: int, *, bare: bool) -> TextMatch | None:
        """A regular expression: up to the first end behind it, in its line."""
        if bare not in self._regex_ends:
            end_pattern = _BARE_END if bare else _BRACKETED_END
            self._regex_ends[bare] = list(end_pattern.finditer(self._text))
        ends = self._regex_ends[bare]
        next_end = bisect_left(ends, begins + 1, key=lambda it: it.start())
        if next_end == len(ends):
            return None
        end = ends[next_end]
        if self._lines.line_of(end.start()) != self._lines.line_of(at):
            return None
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
        except ScriptError as wrong:
            raise self.error(wrong.message, wrong.message_zh, at) from None
        return TextMatch(at, end.end(), made)
