"""The lines of a Prompty body that begin messages: `user[name="Ann"]:`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from orchestrator.errors import TemplateError
from orchestrator.prompts.jinja_pieces import VALUE
from orchestrator.prompts.languages.values import Tokens
from orchestrator.prompts.source import OPEN, SHUT

# `{{message.role}}:`, a line of its own, which templates of the first version have in loops over a
# history. Only the author can write the sign before it; the value may then be one of two roles.
_ROLE_LINE = re.compile(
    r"^([^\S\n]*+)(?=\{\{-?[^\S\n]*+(?:[\w.]*\.)?role[^\S\n]*+-?\}\}[^\S\n]*+:[^\S\n]*+$"
    r"|\{\{-?[^\S\n]*+\w+\[['\"]role['\"]\][^\S\n]*+-?\}\}[^\S\n]*+:[^\S\n]*+$)",
    re.MULTILINE,
)
_ROLE_SIGN = f"{OPEN}role{SHUT}"
_GIVEN_ROLE = re.compile(rf"\s*+{_ROLE_SIGN}({OPEN}\d+{SHUT})\s*+:\s*+")
# A value may choose between these: it may not become an instruction.
_GIVEN_ROLES = ("user", "assistant")

# The place of threads in files of the first version.
THREAD_LINE = re.compile(r"^[^\S\n]*+!\[thread\][^\S\n]*+$", re.MULTILINE)

_ATTRIBUTE = re.compile(r"(\w++)\s*+=\s*+(?:\"([^\"]*)\"|([^\",\]]*+))\s*+,?\s*+")
# Attributes that are names even if they look like numbers.
_TEXTS = ("tool_call_id", "nonce")


@dataclass(frozen=True, slots=True)
class Section:
    """A message as the body writes it: its content has tokens for values."""

    role: str
    attributes: Mapping[str, Any]
    content: str
    line: int

    def error(self, message: str, source: str | None) -> TemplateError:
        """An error in it."""
        return TemplateError(message, file=source, line=self.line, column=1)


def mark_role_lines(body: str) -> str:
    """A body with a sign before each line that is `{{message.role}}:`; its lines stay the same."""
    return _ROLE_LINE.sub(rf"\1{_ROLE_SIGN}", body) if "role" in body else body


class Marks:
    """The marks of one dialect."""

    def __init__(self, roles: Sequence[str], *, quoted: bool) -> None:
        """With `quoted`, what is in quotes is a text whatever it looks like."""
        self.roles = tuple(roles)
        names = "|".join(roles)
        space = r"[^\S\n]*+"
        mark = rf"{space}(?:#{space})?({names})(?:\[([^\n]*)\])?{space}:{space}"
        self._line = re.compile(mark, re.IGNORECASE)
        self._anywhere = re.compile(f"^{mark}$", re.IGNORECASE | re.MULTILINE)
        begun = rf"^{space}(?:#{space})?(?:{names}){space}(?:\[[^\n]*\])?{space}:"
        self._begun = re.compile(begun, re.IGNORECASE | re.MULTILINE)
        self._quoted = quoted

    def sections(
        self, tokens: Tokens[Any], first: int, lines: Mapping[str, Sequence[int]]
    ) -> Iterator[Section]:
        """The messages of a rendering; `lines` are those of the template, from `find_places`.

        `first` is the body's first line.
        """
        role, attributes, line, marked = "system", dict[str, Any](), first, False
        waiting: list[str] = []
        last = 0
        texts = tokens.text.split("\n")
        for at, text in enumerate(texts):
            found = self._match_mark(text, tokens)
            if found and self._quoted and _is_data(role, attributes):
                if _is_key(found[0], texts, at):
                    found = None
            if found is None:
                waiting.append(text.replace(_ROLE_SIGN, ""))
                continue
            if marked or "".join(waiting).strip():
                yield Section(role, attributes, "\n".join(waiting), line)
            (role, attributes), waiting, marked = found, [], True
            there = lines.get(_shape(text), ())
            if there:  # the next such line; in a loop, the first one again
                place = bisect_right(there, last)
                last = there[place] if place < len(there) else there[0]
            line = last or first  # of a mark in a file that is included
        if marked or "".join(waiting).strip():
            yield Section(role, attributes, "\n".join(waiting), line)

    def find_places(self, body: str, line: int) -> dict[str, list[int]]:
        """The lines of a template that are marks, or may become some: by their shape."""
        found: dict[str, list[int]] = {}
        for at, text in enumerate(mark_role_lines(body).split("\n")):
            if ":" in text:
                found.setdefault(_shape(text), []).append(line + at)
        return found

    def find_forged(self, tokens: Tokens[Any]) -> Iterator[str]:
        """The lines that look like marks and are none, since a value has a part in them."""
        for text in tokens.text.split("\n"):
            if OPEN in text and self._match_mark(text, tokens) is None:
                plain = tokens.plain(text.replace(_ROLE_SIGN, ""))
                if ":" in plain and self._anywhere.search(plain):
                    yield text

    def has_mark_start(self, value: str) -> bool:
        """Whether a line of a value begins as a mark does, whatever comes after it."""
        return ":" in value and self._begun.search(value) is not None

    def parse_role_line(self, line: str) -> tuple[str, bool] | None:
        """The role that a line of the author's begins, and whether what follows is YAML."""
        found = self._match_mark(line, Tokens([]))
        return (found[0], self._quoted and _is_data(*found)) if found is not None else None

    def _match_mark(self, line: str, tokens: Tokens[Any]) -> tuple[str, dict[str, Any]] | None:
        if ":" not in line:
            return None
        if given := _GIVEN_ROLE.fullmatch(line):
            role = tokens.plain(given[1]).strip().lower()
            return (role, {}) if role in _GIVEN_ROLES else None
        found = self._line.fullmatch(line)
        if found is None:
            return None
        if found[2] is None:
            return found[1].casefold(), {}
        attributes = self._attributes(found[2], tokens)
        return (found[1].casefold(), attributes) if attributes is not None else None

    def _attributes(self, text: str, tokens: Tokens[Any]) -> dict[str, Any] | None:
        attributes: dict[str, Any] = {}
        at = 0
        while at < len(text):
            found = _ATTRIBUTE.match(text, at)
            if found is None:
                return None
            attributes[found[1]] = self._value(found, tokens)
            at = found.end()
        attributes.pop("nonce", None)  # Prompty's own packages write it; it has no use here
        return attributes if at else None

    def _value(self, found: re.Match[str], tokens: Tokens[Any]) -> Any:
        text = found[3].strip() if found[2] is None else found[2]
        plain = tokens.plain(text)
        if OPEN in text and tokens.origin(text) != VALUE:
            # A value that is a text stays one, even if it looks like a number.
            return plain
        if found[1] in _TEXTS or (self._quoted and found[2] is not None):
            return plain
        return _parse_scalar(plain)


def _is_data(role: str, attributes: Mapping[str, Any]) -> bool:
    # Prompt Section: tools and calls are YAML, all other sections are text.
    return role == "tools" or (role == "assistant" and attributes.get("type") == "tool_call")


def _is_key(role: str, lines: Sequence[str], at: int) -> bool:
    # In YAML `function:` is a member of a call, and an indented line is never a mark.
    if lines[at][:1] in (" ", "\t"):
        return True
    after = next((it for it in islice(lines, at + 1, None) if it.strip()), "")
    return role == "function" and after[:1] in (" ", "\t")


def _shape(line: str) -> str:
    # A mark's line in the template has tags where the rendered one has values, so only what stands
    # before the attributes can be compared.
    if _ROLE_SIGN in line:
        return _ROLE_SIGN
    return line.partition("[")[0].strip().lower().rstrip(": ")


def _parse_scalar(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
