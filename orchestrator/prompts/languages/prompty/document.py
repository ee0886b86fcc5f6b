"""A Prompty template that was read, and its rendering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import TemplateError, ValidationError
from orchestrator.message import AUTHOR
from orchestrator.prompts.jinja import CompiledTemplate, Mistake
from orchestrator.prompts.languages.base import (
    Content,
    Input,
    Media,
    Rendered,
    RenderedMessage,
    TextContent,
    Thread,
    ToolResult,
)
from orchestrator.prompts.languages.inputs import first_uses
from orchestrator.prompts.languages.mustache import Mustache
from orchestrator.prompts.languages.prompty.content import (
    MediaReader,
    read_data,
    read_texts,
    read_tool_uses,
    read_tools,
)
from orchestrator.prompts.languages.prompty.front_matter import References, replace_references
from orchestrator.prompts.languages.prompty.lint import check_thread_roles, find_misspelt_marks
from orchestrator.prompts.languages.prompty.markers import Marks, Section
from orchestrator.prompts.languages.tokens import TOKEN, Tokens, strip_pieces, token
from orchestrator.prompts.languages.values import Placement, Values
from orchestrator.prompts.markers import Piece
from orchestrator.prompts.source import warn

_V2 = Marks(("system", "user", "assistant", "developer"), quoted=False)
_LEGACY = Marks(("system", "user", "assistant", "function", "tools", "tool", "thread"), quoted=True)


@dataclass(frozen=True, slots=True)
class Setup:
    """A file as it was read, before its body is compiled."""

    text: str
    source: str | None
    body: str
    line: int  # of the file, in which the body begins
    legacy: bool
    folder: Path | None
    references: References
    settings: Mapping[str, Any]
    declared: Mapping[str, Mapping[str, Any]]
    # A value that looks like a mark is always text. Strict templates refuse it, since the model may
    # still be taken in by it.
    strict: bool
    # Texts of references in the body (legacy). They are put in after the rendering, so that what a
    # file or a variable says is no template.
    hoisted: Mapping[str, str]
    old_schema: bool

    @property
    def marks(self) -> Marks:
        """The lines that begin messages in its dialect."""
        return _LEGACY if self.legacy else _V2

    def error(self, message: str, line: int) -> TemplateError:
        """A mistake in a line of the body, from 1."""
        return TemplateError(message, file=self.source, line=self.line + line - 1, column=1)


class PromptyDocument:
    """A template; see `orchestrator.prompts.languages.base.Document`."""

    language = "prompty"

    def __init__(self, setup: Setup, engine: CompiledTemplate | Mustache) -> None:
        self._setup = setup
        self._engine = engine
        self._lines = setup.marks.find_places(setup.body, setup.line)
        self._media = MediaReader(setup.folder, setup.source)
        self.dialect = "legacy" if setup.legacy else "v2"
        guarded = setup.strict or any(spec.get("strict") for spec in setup.declared.values())
        self.straight = engine.straight and not guarded
        self.text = setup.text
        self.source = setup.source
        self.settings = setup.settings
        self.inputs: Sequence[Input] = tuple(self._build_inputs())
        self._kinds = {one.name: one.kind for one in self.inputs}
        self.diagnostics: Sequence[Diagnostic] = tuple(self._find_doubts())

    def _build_inputs(self) -> list[Input]:
        setup = self._setup
        uses = first_uses(setup.body, self._engine.names, setup.line)
        names = [*uses, *sorted(self._engine.names - uses.keys())]
        names += [name for name in setup.declared if name not in names]
        return [self._build_input(name, uses.get(name, (setup.line, 1))) for name in names]

    def _build_input(self, name: str, place: tuple[int, int]) -> Input:
        spec = self._setup.declared.get(name, {})
        return Input(
            name,
            *place,
            used=name in self._engine.names,
            kind=str(spec.get("kind", spec.get("type", "")) or ""),
            required=spec.get("required") is True,
            default=spec.get("default"),
            declared=name in self._setup.declared,
        )

    def _find_doubts(self) -> list[Diagnostic]:
        setup = self._setup
        found = list(setup.references.diagnostics)
        others = set((_V2 if setup.legacy else _LEGACY).roles) - set(setup.marks.roles)
        found += find_misspelt_marks(
            setup.body, setup.line, setup.marks, sorted(others), setup.source
        )
        if setup.old_schema:
            message = "'inputSchema' has no effect in the dialect v2"
            instead = "write inputs:, or choose the dialect legacy"
            found.append(warn("ignored-member", message, instead, setup.source))
        return found

    def render(self, inputs: Mapping[str, Any]) -> Rendered:
        """Renders it; see `Document.render`.

        An input that is missing and has no default is the empty text. A thread that the template
        does not place comes last.
        """
        values = self._build_values(inputs)
        try:
            pieces = self._engine.pieces(values.given)
            if self._setup.hoisted:
                pieces = list(replace_references(pieces, self._setup.hoisted))
            tokens = Tokens[Placement](values.insert_placements(pieces))
        except Mistake as mistake:
            raise self._setup.error(mistake.message, mistake.line) from mistake
        doubts = [*self._check_threads(inputs), *self._check_forged_marks(tokens, pieces, values)]
        rendering = _Rendering(self._setup, tokens, values, self._media)
        for section in self._setup.marks.sections(tokens, self._lines):
            rendering.add(section)
        rendering.end()
        tools: Any = self.settings.get("tools")
        fixed = [dict(it) for it in tools if isinstance(it, Mapping)] if type(tools) is list else []
        return Rendered(
            rendering.items,
            [*fixed, *rendering.tools],
            [*doubts, *rendering.diagnostics],
            parts=not self._setup.legacy,
        )

    def _build_values(self, inputs: Mapping[str, Any]) -> Values:
        values = Values()
        known = dict(inputs)
        for one in self.inputs:
            if one.name in known:
                continue
            if one.default is not None:
                known[one.name] = one.default
            elif one.required:
                raise ValidationError(f"Missing required input: {one.name!r} has no default")
            elif one.kind == "thread":
                known[one.name] = ()
        for name, value in known.items():
            values.add(name, value, self._kinds.get(name, ""))
        return values

    def _check_threads(self, inputs: Mapping[str, Any]) -> Iterator[Diagnostic]:
        for name in (one for one in inputs if self._kinds.get(one) == "thread"):
            strict = self._setup.strict or self._setup.declared[name].get("strict") is True
            yield from check_thread_roles(
                name, inputs[name], strict=strict, source=self._setup.source
            )

    def _check_forged_marks(
        self, tokens: Tokens[Placement], pieces: Sequence[Piece], values: Values
    ) -> list[Diagnostic]:
        """Values that look like marks: an error where the template is strict, else a warning."""
        setup, marks = self._setup, self._setup.marks
        strict = {name for name, spec in setup.declared.items() if spec.get("strict")}
        for origin, text in pieces if setup.strict or strict else ():
            guarded = origin in strict or (setup.strict and origin != AUTHOR)
            if guarded and marks.has_mark_start(text) and text not in values.puts:
                raise ValidationError(
                    f"the input {origin!r} has a line that looks like a role's mark, and the "
                    "template is strict"
                )
        found = []
        for line in marks.find_forged(tokens):
            names = ", ".join(sorted({one for one, _ in tokens.pieces(line)} - {AUTHOR}))
            if setup.strict:
                raise ValidationError(
                    f"the value of {names} makes a line look like a role's mark, and the template "
                    "is strict"
                )
            found.append(
                warn(
                    "inert-mark",
                    f"the value of {names} makes a line look like a role's mark; it is text, since "
                    "the template's author did not write it",
                    "for earlier messages, use an input of kind thread",
                    setup.source,
                )
            )
        return found


@dataclass(slots=True)
class _Rendering:
    # The messages of one rendering, in the order of its sections.
    setup: Setup
    tokens: Tokens[Placement]
    values: Values
    media: MediaReader
    items: list[RenderedMessage | Thread] = field(default_factory=list)
    tools: list[Mapping[str, Any]] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    _placed: set[str] = field(default_factory=set)

    def add(self, section: Section) -> None:
        if not self.setup.legacy:
            self._split(section)
        elif section.role == "tools":
            self._add_tools(section)
        elif section.role == "assistant" and section.attributes.get("type") == "tool_call":
            source = self.setup.source
            texts = read_texts(section, self.tokens, source)
            content = read_tool_uses(section, self._read_section_data(section), texts, source)
            self._add_message(section, content)
        elif section.role == "thread" and not section.content.strip():
            self._place_all()
        else:
            self._split(section)

    def end(self) -> None:
        """Adds the threads that have no place in the template."""
        if self._placed:
            for put in self._find_unplaced():
                self._warn(
                    "unplaced-thread",
                    f"the thread {put.name!r} has no place in the template; it is last",
                    f"write {{{{{put.name}}}}} where it belongs",
                )
        self._place_all()

    def _warn(self, code: str, message: str, suggestion: str) -> None:
        self.diagnostics.append(warn(code, message, suggestion, self.setup.source))

    def _find_unplaced(self) -> list[Placement]:
        # A `Thread` is put in its place by whoever gave it, such as a stage of an agent.
        return [
            put
            for put in self.values.puts.values()
            if put.items
            and put.name not in self._placed
            and not any(isinstance(one, Thread) for one in put.items)
        ]

    def _place_all(self) -> None:
        for put in self._find_unplaced():
            self._placed.add(put.name)
            self.items += put.items

    def _add_tools(self, section: Section) -> None:
        if self.items:
            message = "the section tools: must come before all messages"
            raise TemplateError(message, file=self.setup.source, line=section.line, column=1)
        data = self._read_section_data(section)
        self.tools += read_tools(section, data, self.setup.source)

    def _read_section_data(self, section: Section) -> Any:
        references = self.setup.references.fresh()
        data = read_data(section, self.tokens, references, self.setup.source)
        self.diagnostics += references.diagnostics
        return data

    def _split(self, section: Section) -> None:
        """A section as messages; threads and media split it."""
        rest: list[str] = []
        first = len(self.items)
        parted = False
        for at, part in enumerate(TOKEN.split(section.content)):
            put = next(self.tokens.parts(token(part))) if at % 2 else None
            if not isinstance(put, Placement):
                rest.append(token(part) if at % 2 else part)
                continue
            parted = True
            self._add_text(section, "".join(rest), parted=True)
            rest = []
            if put.medium is not None:
                self._attach(section, put, first)
            else:
                self._placed.add(put.name)
                self.items += put.items
        self._add_text(section, "".join(rest), parted=parted)

    def _add_text(self, section: Section, text: str, *, parted: bool) -> None:
        """The text of a section, or the part of it beside a thread or a medium."""
        if parted or section.role == "thread":
            pieces = strip_pieces(self.tokens.pieces(text))
            if not any(piece.strip() for _, piece in pieces):
                return
            if section.role == "thread":
                self._warn(
                    "thread-text",
                    f"the section thread: of line {section.line} has a text, which is sent as the "
                    "user's",
                    "place earlier messages there, with an input of kind thread",
                )
        if self.setup.legacy:
            content: tuple[Content, ...] = tuple(self._read_legacy_content(text, parted=parted))
        else:
            pieces = strip_pieces(self.tokens.pieces(text), None if parted else "\n")
            content = (TextContent(tuple(pieces)),)
        self._add_message(section, content)

    def _read_legacy_content(self, text: str, *, parted: bool) -> list[TextContent | Media]:
        content = list(self.media.content(text, self.tokens))
        if len(content) == 1 and isinstance(content[0], TextContent):
            chars = None if parted else "\n"
            content = [TextContent(tuple(strip_pieces(content[0].pieces, chars)))]
        return content

    def _add_message(self, section: Section, content: tuple[Content, ...]) -> None:
        attributes = dict(section.attributes)
        if self.setup.legacy:
            attributes = {k: v for k, v in attributes.items() if k not in ("role", "content")}
        if section.role in ("tool", "function"):
            shown = tuple(one for one in content if isinstance(one, TextContent | Media))
            id, name = attributes.get("tool_call_id", ""), attributes.get("name", "")
            content = (ToolResult(str(id), str(name), shown),)
        self.items.append(RenderedMessage(section.role, content, attributes, section.line))

    def _attach(self, section: Section, put: Placement, first: int) -> None:
        """Adds a medium to the user's message that it follows, or as another message."""
        if put.medium is None:
            return
        last = self.items[-1] if len(self.items) > first else None
        if isinstance(last, RenderedMessage) and last.role == "user":
            content = (*last.content, put.medium)
            self.items[-1] = RenderedMessage(last.role, content, last.attributes, last.line)
        else:
            attributes = section.attributes if section.role == "user" else {}
            self.items.append(RenderedMessage("user", (put.medium,), attributes, section.line))
