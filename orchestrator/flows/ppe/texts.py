"""An author's text: its templates, substitutions, calls and regular expressions, parsed once.

Only what the author wrote is parsed. What comes in their place is a value, and is never looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from orchestrator.errors import FlowError
from orchestrator.flows.ppe.dialects import STYLES, Dialect, as_jinja
from orchestrator.flows.ppe.jinja_texts import jinja
from orchestrator.flows.ppe.text_scanner import Bias, Inline, Substitution, TextScanner
from orchestrator.flows.steps import Place
from orchestrator.flows.tree import ScriptError
from orchestrator.prompts.jinja import CompiledTemplate
from orchestrator.prompts.mistakes import Mistake

STRATEGIES = {"Deferred": "late", "Immediate": "now", "Raw": "never"}
"""When templates are rendered that do not say so, by what front matter calls it."""

_INLINE = "inline_{}"
_TAGS = ("{{", "{%", "{#")
_CALLS = ("[[@", "[[/")


@dataclass(frozen=True, slots=True)
class Style:
    """How texts are written, by the front matter."""

    templates: str = "hf"  # the templates' language: `hf`, `fstring` or `golang`
    # When templates are rendered that do not say so: `Deferred`, `Immediate`, `Raw`
    strategy: str = "Deferred"
    dialect: Dialect = field(default_factory=Dialect)  # the generation
    lenient: bool = False  # whether a text with a mistake is raw, and the script goes on


@dataclass(frozen=True, slots=True)
class Part:
    """A text up to a substitution, or to the end."""

    source: str  # the author's text
    template: CompiledTemplate | None  # the template; `None` when the text is raw
    # The calls and expressions in it, by the names that the template has for them
    inlines: dict[str, Inline]
    substitution: Substitution | None  # what comes behind it


@dataclass(frozen=True, slots=True)
class Text:
    """An author's text."""

    place: Place  # where it begins
    when: str  # `now`, `late` (when it is sent) or `never`
    parts: Sequence[Part] = ()  # its parts
    warning: str = ""  # why it is raw, though it should not be
    biases: Sequence[Bias] = ()  # the biases of tokens in it

    @property
    def substitutions(self) -> Iterator[Substitution]:
        """Its substitutions."""
        for part in self.parts:
            if part.substitution is not None:
                yield part.substitution

    @property
    def sole_call(self) -> Inline | None:
        """The call that is all of it, if it is nothing else."""
        if len(self.parts) != 1 or len(self.parts[0].inlines) != 1:
            return None
        ((name, inline),) = self.parts[0].inlines.items()
        alone = self.parts[0].source.strip() == f"{{{{{name}}}}}" and inline.kind != "regex"
        return inline if alone else None

    @property
    def inlines(self) -> Iterator[Inline]:
        """The calls and expressions in it."""
        for part in self.parts:
            yield from part.inlines.values()


def has_tags(text: str) -> bool:
    """Whether a text may have templates or calls."""
    return any(mark in text for mark in (*_TAGS, *_CALLS))


def is_rendered(text: str) -> bool:
    """Whether a text of an instruction is more than its letters: it has a sign, or tags."""
    return text[:1] in ("!", "~") or has_tags(text)


def compile_text(
    text: str,
    place: Place,
    file: str | None,
    style: Style | None = None,
    *,
    holes: bool = True,
    signs: bool = True,
) -> Text:
    """Compiles an author's text; what is wrong in it is a `FlowError` with its place.

    Args:
        text: The text.
        place: Where it begins.
        file: The script's file.
        style: How it is written.
        holes: Whether it is a message: elsewhere substitutions and biases are letters.
        signs: Whether `!`, `#` and `~` at its beginning say when it is rendered.
    """
    style = style or Style()
    when = STRATEGIES[style.strategy]
    if signs and style.dialect.is_immediate(text):
        when, text = "now", text[1:]
    elif signs and text[:1] == "~":
        when, text = "never", text[1:]
    try:
        return _Compiler(text, place, file, style, when, holes).text()
    except FlowError as error:
        if not style.lenient:
            raise
        return Text(place, "never", (Part(text, None, {}, None),), error.reason)


class _Compiler:
    def __init__(
        self, text: str, place: Place, file: str | None, style: Style, when: str, holes: bool
    ) -> None:
        self._text = text
        self._holes = holes
        self._place = place
        self._style = style
        self._when = when
        self._finder = TextScanner(text, place, file, style.dialect)

    def text(self) -> Text:
        parts: list[Part] = []
        source: list[str] = []
        inlines: dict[str, Inline] = {}
        biases: list[Bias] = []
        start = begins = 0
        for found in self._finder.find_all(calls=self._when != "never"):
            source.append(self._plain(start, found.at))
            start, made = found.end, found.made
            if not self._holes and isinstance(made, Substitution | Bias):
                source.append(self._plain(found.at, found.end))
            elif isinstance(made, Substitution):
                parts.append(self._part("".join(source), begins, inlines, made))
                source, inlines, begins = [], {}, found.end
            elif isinstance(made, Inline):
                name = _INLINE.format(len(inlines))
                inlines[name] = made
                source.append(f"{{{{{name}}}}}")
            elif isinstance(made, Bias):
                biases.append(made)
                source.append(made.shown)  # it has no brace
            else:
                source.append(made)
        source.append(self._plain(start, len(self._text)))
        if any(source) or not parts:
            parts.append(self._part("".join(source), begins, inlines, None))
        return Text(self._place, self._when, tuple(parts), biases=tuple(biases))

    def _plain(self, start: int, end: int) -> str:
        text = self._text[start:end]
        if self._when == "never":
            return text
        try:
            return as_jinja(text, STYLES[self._style.templates])
        except ScriptError as wrong:
            raise self._finder.error(wrong.message, wrong.message_zh, start) from None

    def _part(
        self, source: str, begins: int, inlines: dict[str, Inline], end: Substitution | None
    ) -> Part:
        if self._when == "never" or not any(mark in source for mark in _TAGS):
            return Part(source, None, {}, end)
        try:
            return Part(source, jinja().compile_template(source), inlines, end)
        except Mistake as mistake:
            line = self._finder.place_of(begins).line - self._place.line + mistake.line - 1
            place = replace(self._place, line=self._place.line + line)
            place = replace(place, column=1) if line else place
            raise place.error(
                mistake.message, f"模板错误: {mistake.message}", self._finder.file
            ) from None
