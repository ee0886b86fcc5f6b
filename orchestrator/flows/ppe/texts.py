"""An author's text: its templates, substitutions, calls and regular expressions, parsed once.

Only what the author wrote is parsed. What comes in their place is a value, and is never looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from orchestrator.errors import FlowError
from orchestrator.flows.expressions import Argument, Wrong, parse_arguments
from orchestrator.flows.ppe.choices import Choice, read_substitution
from orchestrator.flows.scanning import closing
from orchestrator.flows.steps import Place
from orchestrator.prompts.jinja import Compiled, Jinja, Mistake

__all__ = ["Inline", "Part", "Substitution", "Text", "compile_text", "value_text"]

_NAME = r"[^\W\d]\w*"
_ESCAPED = {"\\[\\[": "[[", "\\]\\]": "]]"}
_REGEX = re.compile(rf"/(?P<re>.+)/(?P<flags>[a-z]*):(?P<var>{_NAME})(?::(?P<group>\w+))?", re.S)
_BARE = re.compile(
    rf"(?<!\S)/(?=\S)(?P<re>[^\n]*?)/(?P<flags>[gimsuy]*):(?P<var>{_NAME})(?::(?P<group>\w+))?(?!\S)"
)
_SUBSTITUTION = re.compile(rf"(?P<var>{_NAME})(?:[ ]*:(?P<more>.*))?", re.S)
_CALL = re.compile(rf"@(?P<dollar>\$?)(?P<name>{_NAME}(?:[-.]\w+)*)[ ]*(?P<open>\()?", re.S)
_TRIPLE = re.compile(r"\{\{\{(.*?)\}\}\}", re.S)
_INLINE = "inline_{}"


@dataclass(frozen=True, slots=True)
class Inline:
    """A call, or a regular expression, in a text.

    Attributes:
        kind: `script`, `instruction` or `regex`.
        place: Where it is.
        name: What is called, or the variable that is searched.
        arguments: The call's arguments.
        pattern: The regular expression.
        flags: Its flags.
        group: Its group; empty for the first, or for the whole match.
        written: What takes its place when its variable is not defined: an expression without
            brackets may have been no expression.
    """

    kind: str
    place: Place
    name: str
    arguments: Sequence[Argument] = ()
    pattern: str = ""
    flags: str = ""
    group: str = ""
    written: str = ""


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
class Part:
    """A text up to a substitution, or to the end.

    Attributes:
        source: The author's text, when it is raw.
        template: The template; `None` when it is raw.
        inlines: The calls and expressions in it, by the names that the template has for them.
        substitution: What comes behind it.
    """

    source: str
    template: Compiled | None
    inlines: dict[str, Inline]
    substitution: Substitution | None


@dataclass(frozen=True, slots=True)
class Text:
    """An author's text.

    Attributes:
        place: Where it begins.
        when: `now`, `late` (when it is sent) or `never`.
        parts: Its parts.
    """

    place: Place
    when: str
    parts: Sequence[Part] = field(default_factory=tuple)

    @property
    def names(self) -> Sequence[str]:
        """The variables of its substitutions."""
        return [part.substitution.name for part in self.parts if part.substitution]

    @property
    def inlines(self) -> Iterator[Inline]:
        """The calls and expressions in it."""
        for part in self.parts:
            yield from part.inlines.values()


def value_text(value: Any) -> str:
    """What `{{ value }}` prints (PPE: the hf dialect's texts)."""
    if isinstance(value, str):
        return str(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    if isinstance(value, list | tuple):
        return ",".join(map(value_text, value))
    if isinstance(value, dict):
        import json

        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)


@cache
def _jinja() -> Jinja:
    return Jinja(value_text, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)


def compile_text(
    text: str, place: Place, file: str | None, style: str = "hf", strategy: str = "Deferred"
) -> Text:
    """Compiles an author's text.

    Args:
        text: The text.
        place: Where it begins.
        file: The script's file.
        style: The templates' language: `hf`, `fstring` or `golang`.
        strategy: When templates are rendered that do not say so: `Deferred`, `Immediate`, `Raw`.

    Raises:
        FlowError: A template, an argument or a choice in it is wrong, with its place.
    """
    when = {"Raw": "never", "Immediate": "now"}.get(strategy, "late")
    if text[:1] in ("#", "!") and text[1:2] not in (":", "+", "["):
        when, text = "now", text[1:]
    elif text[:1] == "~":
        when, text = "never", text[1:]
    return _Compiler(text, place, file, style).text(when)


class _Compiler:
    def __init__(self, text: str, place: Place, file: str | None, style: str) -> None:
        self._text = text
        self._place = place
        self._file = file
        self._style = style

    def text(self, when: str) -> Text:
        parts: list[Part] = []
        source, inlines, start = "", dict[str, Inline](), 0
        for at, found in self._found(when):
            source += self._plain(start, at, when)
            start = found.end
            made = found.made
            if isinstance(made, Substitution):
                parts.append(self._part(source, inlines, made, when))
                source, inlines = "", {}
            elif isinstance(made, Inline):
                name = _INLINE.format(len(inlines))
                inlines[name] = made
                source += f"{{{{{name}}}}}"
            else:
                source += self._literal(made, when)
        source += self._plain(start, len(self._text), when)
        if source or not parts:
            parts.append(self._part(source, inlines, None, when))
        return Text(self._place, when, tuple(parts))

    def _literal(self, text: str, when: str) -> str:
        return text

    def _plain(self, start: int, end: int, when: str) -> str:
        text = self._text[start:end]
        if when == "never":
            return text
        if self._style in ("fstring", "python", "f-string", "langchain"):
            return _from_fstring(text)
        if self._style in ("golang", "localai", "ollama"):
            return re.sub(r"\{\{\s*\.", "{{ ", text)
        return _TRIPLE.sub(r"{{\1}}", text)

    def _part(
        self, source: str, inlines: dict[str, Inline], end: Substitution | None, when: str
    ) -> Part:
        if when == "never" and not inlines:
            return Part(source, None, {}, end)
        try:
            return Part(source, _jinja().compiled(source), inlines, end)
        except Mistake as mistake:
            before = self._text.find(source[:20]) if source else 0
            line = self._text.count("\n", 0, max(before, 0)) + mistake.line - 1
            raise self._error(mistake.message, line) from None

    def _error(self, message: str, line: int = 0) -> FlowError:
        place = self._place
        return FlowError(
            message,
            file=self._file,
            line=place.line + line,
            column=1 if line else place.column,
            statement=place.statement,
        )

    # What is found in the text

    def _found(self, when: str) -> Iterator[tuple[int, _Found]]:
        text, at = self._text, 0
        while at < len(text):
            for escaped, plain in _ESCAPED.items():
                if text.startswith(escaped, at):
                    yield at, _Found(plain, at + len(escaped))
                    at += len(escaped)
                    break
            else:
                found = self._at(at, when)
                if found is None:
                    at += 1
                    continue
                yield at, found
                at = found.end

    def _at(self, at: int, when: str) -> _Found | None:
        text = self._text
        if text.startswith("[[", at):
            return self._bracketed(at)
        if text[at] == "/" and when != "never":
            found = _BARE.match(text, at)
            if found is not None:
                return _Found(self._regex(found, at, found[0]), found.end())
        return None

    def _bracketed(self, at: int) -> _Found | None:
        text = self._text
        if text.startswith("@", at + 2):
            return self._call(at)
        if text.startswith("/", at + 2):
            return self._searched(at)
        end = text.find("]]", at + 2)
        found = _SUBSTITUTION.fullmatch(text[at + 2 : end]) if end > 0 else None
        if found is None:
            return None
        place = self._place_of(at)
        try:
            choice, parameters = read_substitution(found["more"] or "")
        except (Wrong, ValueError) as wrong:
            raise self._error(f"[[{found['var']}:...]]: {wrong}", self._line(at)) from None
        return _Found(Substitution(place, found["var"], choice, parameters), end + 2)

    def _call(self, at: int) -> _Found | None:
        text = self._text
        found = _CALL.match(text, at + 2)
        if found is None:
            return None
        inner, end = "", found.end()
        if found["open"]:
            closed = closing(text, end - 1)
            if closed < 0:
                raise self._error(f"the bracket of @{found['name']}( is not closed", self._line(at))
            inner, end = text[end:closed], closed + 1
        end += len(text[end:]) - len(text[end:].lstrip(" "))
        if not text.startswith("]]", end):
            return None
        arguments = self._arguments(inner, found["name"], at)
        kind = "instruction" if found["dollar"] else "script"
        return _Found(Inline(kind, self._place_of(at), found["name"], arguments), end + 2)

    def _arguments(self, inner: str, name: str, at: int) -> list[Argument]:
        """A call's arguments; what is no expression is a text, such as a file's name."""
        rendered = re.fullmatch(rf"\s*\{{\{{\s*({_NAME})\s*\}}\}}\s*", inner)
        try:
            return parse_arguments(rendered[1] if rendered else inner)
        except Wrong as wrong:
            if re.fullmatch(r"[^\s\"'(){}\[\],=]+", inner.strip()):
                from orchestrator.flows.expressions import Node

                return [Argument("", Node("text", inner.strip()))]
            raise self._error(f"the arguments of {name!r}: {wrong}", self._line(at)) from None

    def _searched(self, at: int) -> _Found | None:
        text = self._text
        end = text.find("]]", at + 2)
        while end > 0:
            found = _REGEX.fullmatch(text[at + 2 : end])
            if found is not None:
                return _Found(self._regex(found, at, ""), end + 2)
            end = text.find("]]", end + 1)
        return None

    def _regex(self, found: re.Match[str], at: int, written: str) -> Inline:
        from orchestrator.flows.ppe.regexes import check_regex

        inline = Inline(
            "regex",
            self._place_of(at),
            found["var"],
            pattern=found["re"],
            flags=found["flags"],
            group=found["group"] or "",
            written=written,
        )
        try:
            check_regex(inline)
        except Wrong as wrong:
            raise self._error(wrong.message, self._line(at)) from None
        return inline

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at)

    def _place_of(self, at: int) -> Place:
        line = self._line(at)
        place = self._place
        return Place(place.line + line, 1 if line else place.column, place.statement)


@dataclass(frozen=True, slots=True)
class _Found:
    made: Inline | Substitution | str
    end: int


def _from_fstring(text: str) -> str:
    """A text in Python's format style, in Jinja2's."""
    made, at = "", 0
    for found in re.finditer(rf"\{{\{{|\}}\}}|\{{\s*({_NAME}(?:[.\[][^{{}}]*)?)\s*\}}", text):
        made += text[at : found.start()]
        if found[1] is None:
            made += "{{ '" + found[0][0] + "' }}"
        else:
            made += "{{ " + found[1] + " }}"
        at = found.end()
    return made + text[at:]
