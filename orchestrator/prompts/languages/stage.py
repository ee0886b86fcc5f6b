"""A template of another language as the template of a stage: its inputs are the placeholders."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import TemplateError, ValidationError
from orchestrator.message import AUTHOR, Message, Text
from orchestrator.prompts.bound_prompt import HISTORY, SCRATCHPAD, BoundPrompt, spans_of
from orchestrator.prompts.compiler import inspect_inputs
from orchestrator.prompts.languages import language_of, read_template
from orchestrator.prompts.languages.base import Document, Rendered, RenderedMessage, Thread
from orchestrator.prompts.languages.converse import SYSTEM_ROLES, ConverseBuilder, system_pieces
from orchestrator.prompts.markers import Piece
from orchestrator.prompts.placeholders import ORCHESTRATION, lookup, scan, status
from orchestrator.prompts.source import Source, warn
from orchestrator.prompts.template import (
    Leaf,
    Slot,
    Template,
    Use,
    drop_tool_blocks,
    fill_slots,
    find_anchor,
    insert_history,
)
from orchestrator.prompts.work import MOST_CHARS

if TYPE_CHECKING:
    from orchestrator.prompts.dialect import Dialect


# Rendering a document for every prompt is slow. One that shows texts as they are
# (`Document.straight`) gives the same messages each time. So it is rendered once, with a random
# mark for each value; the messages then have holes where the marks stand, and are filled as fast as
# those of Bedrock's templates.
class NotStraight(Exception):
    """A value stands outside of texts, or was changed."""


def leaf_of(pieces: Sequence[Piece], marks: Mapping[str, str]) -> Leaf | None:
    """A text with holes where the marks stand; `None` for no text."""
    for origin, text in pieces:
        unchanged = text == marks.get(origin)
        if not unchanged and (origin in marks or any(mark in text for mark in marks.values())):
            raise NotStraight
    return Leaf.of(pieces, marks) if any(text for _, text in pieces) else None


def slot_of(slot: Slot, marks: Mapping[str, str]) -> Slot:
    """A place in the conversation, with holes where the marks stand."""
    message = slot.fixed
    if message is None or not any(mark in repr(message) for mark in marks.values()):
        return slot
    if any("text" not in block for block in message["content"]):
        raise NotStraight
    texts = [block["text"] for block in message["content"]]
    blocks: list[list[Piece]] = [[] for _ in texts]
    for span in message.spans:
        blocks[span.block].append((span.origin, texts[span.block][span.start : span.end]))
    leaves = [leaf_of(pieces, marks) for pieces in blocks]
    return Slot(slot.role, tuple(one for one in leaves if one is not None))


_THREADS = (HISTORY, SCRATCHPAD)
_NONE: Mapping[str, str] = MappingProxyType({})
# Each set of empty values has its own messages; a template with more than six inputs that come and
# go is rendered each time.
_MOST_COMPILED = 64


def compile_document(
    text: str, language: str, *, stage: str, dialect: Dialect, source: str | None = None
) -> DocumentTemplate:
    """Compiles a stage's template of another language.

    Files that it names must lie beside its own, and it reads no variables of the process.
    """
    file = Path(source) if source is not None and language_of(source) else None
    folder = file.parent if file is not None and file.is_file() else None
    try:
        document = read_template(text, language, source, folder=folder)
    except ValidationError as error:
        raise TemplateError(error.message, file=source) from None
    uses = []
    for one in document.inputs:
        if one.used:
            known, literal = status(one.name, stage, dialect.family), not lookup(one.name, stage)
            uses.append(Use(one.name, known, literal, 0, one.line, one.column))
    found = [*document.diagnostics, *inspect_inputs(document.inputs, stage, uses, source)]
    found += _find_dollar_placeholders(document, stage)
    template = DocumentTemplate(document, stage, dialect, tuple(uses), tuple(found))
    rendered = template.try_render()
    doubts = [it for it in rendered.diagnostics if it not in found]
    template.diagnostics = (*found, *doubts, *_find_unused_tools(rendered, source))
    return template


def _find_unused_tools(rendered: Rendered, source: str | None) -> Iterator[Diagnostic]:
    """Tools that the template defines; an agent offers only those that it can carry out."""
    if rendered.tools:
        names = ", ".join(str(it.get("name") or it.get("id")) for it in rendered.tools)
        message = f"the template's own tools are not offered to the model: {names}"
        instead = "give the agent an action group that has them; with RETURN_CONTROL the caller "
        yield warn("unused-tools", message, f"{instead}carries them out", source)


def _find_dollar_placeholders(document: Document, stage: str) -> Iterator[Diagnostic]:
    # Authors who come from Bedrock's templates write `$question$`, which is text here.
    source = Source(document.text, document.source)
    for start, _, name in scan(document.text, stage):
        if lookup(name, stage) is not None:
            message = f"${name}$ is text in a template of the language {document.language!r}"
            instead = f"write {name} as the language writes its inputs"
            yield source.warn("misspelt-placeholder", message, start, instead)


class DocumentTemplate(Template):
    """A stage's template; see `Template`.

    The messages of `conversation_history` and `agent_scratchpad` are where the author put them,
    else where a template without them has them. Messages of the roles system and developer are the
    system text.
    """

    __slots__ = ("_added", "_document", "_given", "_holes", "_last_system_text", "_straight")

    def __init__(
        self,
        document: Document,
        stage: str,
        dialect: Dialect,
        placeholders: tuple[Use, ...],
        diagnostics: tuple[Diagnostic, ...],
        given: Mapping[str, str] = _NONE,
        added: Sequence[Piece] = (),
    ) -> None:
        self.stage = stage
        self.text = document.text
        self.source = document.source
        self.shape = "messages"
        self.language = document.language
        self.inference = document.settings.get("inference") or {}
        self.placeholders = placeholders
        self.diagnostics = diagnostics
        self._dialect = dialect
        self._document = document
        self._given = given
        self._added = added
        self._last_system_text: tuple[list[Piece], Text] | None = None
        names = {one.name for one in document.inputs if lookup(one.name, stage) is not None}
        self._holes = tuple(sorted(names - {*_THREADS} - given.keys()))
        self._straight: dict[tuple[bool, ...], Template | None] = {}

    def fill_fixed(self, values: Mapping[str, str]) -> DocumentTemplate:
        """The template with these values, once and for all; see `Template.fixed`."""
        known = {name: it for name, it in values.items() if lookup(name, self.stage)}
        return self._copy_with({**self._given, **known}, self._added)

    def append_text(self, added: Leaf) -> DocumentTemplate:
        """The template with a text, which has no holes, at the end of its system text."""
        return self._copy_with(self._given, (*self._added, *added.pieces(added.parts({}))))

    def _copy_with(self, given: Mapping[str, str], added: Sequence[Piece]) -> DocumentTemplate:
        return DocumentTemplate(
            self._document,
            self.stage,
            self._dialect,
            self.placeholders,
            self.diagnostics,
            given,
            added,
        )

    def bind(self, values: Mapping[str, str], history: Sequence[Message] = ()) -> BoundPrompt:
        """Renders the template for one turn; see `Template.bind`."""
        if self._document.straight and (made := self._get_straight(values)) is not None:
            return made.bind(values, history)
        rendered = self._render({**values, **self._given})
        pieces, slots = self._build_slots(rendered)
        if self.stage != ORCHESTRATION:
            history = drop_tool_blocks(history)
        at = find_anchor(slots, SCRATCHPAD)
        tail = [slot for slot in slots[at:] if not slot.anchor]
        return BoundPrompt(
            self._get_system_text(pieces),
            fill_slots(slots[:at], _NONE, history),
            fill_slots(tail, _NONE),
        )

    def _get_straight(self, values: Mapping[str, str]) -> Template | None:
        """The compiled messages for these empty values, if a rendering always gives them."""
        size, filled = 0, []
        for name in self._holes:
            text = values.get(name, "")
            # Some languages treat white space as empty in some places: only a rendering knows.
            if text.isspace():
                return None
            size += len(text)
            filled.append(bool(text))
        if size > MOST_CHARS:
            return None
        key = tuple(filled)
        if key not in self._straight and len(self._straight) < _MOST_COMPILED:
            self._straight[key] = self._compile_straight(key)
        return self._straight.get(key)

    def _compile_straight(self, filled: Sequence[bool]) -> Template | None:
        used = [name for name, full in zip(self._holes, filled, strict=True) if full]
        marks = {name: secrets.token_hex(16) for name in used}
        try:
            pieces, slots = self._build_slots(self._render({**marks, **self._given}))
            system = leaf_of(pieces, marks)
            slots = [slot_of(slot, marks) for slot in slots]
        except (NotStraight, TemplateError):
            # A rendering with the real values reports the error.
            return None
        return Template(
            self.stage,
            self._dialect,
            system,
            slots,
            shape=self.shape,
            text=self.text,
            source=self.source,
        )

    def try_render(self) -> Rendered:
        """Renders the template without values, to find mistakes before the first turn."""
        rendered = self._render({it.name: it.name for it in self.placeholders})
        _, slots = self._build_slots(rendered)
        if not any(slot.fixed for slot in slots):
            message = f"the {self.stage} template has no message; it needs the user's"
            raise TemplateError(message, file=self.source)
        return rendered

    def _render(self, values: Mapping[str, str]) -> Rendered:
        inputs: dict[str, Any] = {}
        for one in self._document.inputs:
            if lookup(one.name, self.stage) is not None:
                is_thread = one.name in _THREADS
                inputs[one.name] = Thread(one.name) if is_thread else values.get(one.name, "")
            elif one.default is None:
                inputs[one.name] = ""
        try:
            return self._document.render(inputs)
        except ValidationError as error:
            raise TemplateError(error.message, file=self.source) from error

    def _build_slots(self, rendered: Rendered) -> tuple[list[Piece], list[Slot]]:
        """The system text, and the places of the conversation with history and steps among them."""
        conversing = ConverseBuilder(encoded=True)
        slots: list[Slot] = []
        pieces: list[Piece] = []
        try:
            pieces, _ = system_pieces(rendered.messages)
            if self._added:
                pieces += [*([(AUTHOR, "\n\n")] if pieces else []), *self._added]
            for one in rendered.items:
                if isinstance(one, RenderedMessage) and one.role in SYSTEM_ROLES:
                    continue
                if isinstance(one, Thread):
                    slots.append(Slot("", anchor=one.name))
                elif message := conversing.build_message(one):
                    slots.append(Slot(message["role"], fixed=message))
        except TemplateError as error:
            reason = f"the {self.stage} template: {error.reason}"
            raise TemplateError(reason, file=self.source, line=error.line) from None
        return pieces, self._insert_anchors(slots)

    def _insert_anchors(self, slots: list[Slot]) -> list[Slot]:
        places = [slot.anchor for slot in slots if slot.anchor]
        if places not in ([], [HISTORY], [SCRATCHPAD], [HISTORY, SCRATCHPAD]):
            message = f"{HISTORY} and {SCRATCHPAD} may each have one place"
            raise TemplateError(f"{message}, and earlier turns come first", file=self.source)
        if SCRATCHPAD not in places:
            prefilled = len(slots) > 1 and slots[-1].role == "assistant"
            slots.insert(len(slots) - prefilled, Slot("", anchor=SCRATCHPAD))
        insert_history(slots, self.stage)
        return slots

    def _get_system_text(self, pieces: list[Piece]) -> Text:
        last = self._last_system_text
        if last is None or last[0] != pieces:  # most turns have the one of the turn before
            text = Text.of("".join([text for _, text in pieces]), partial(spans_of, pieces))
            last = self._last_system_text = (pieces, text)
        return last[1]
