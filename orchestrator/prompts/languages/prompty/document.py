"""A Prompty template that was read, and its rendering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from jinja2 import ChainableUndefined

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import TemplateError, ValidationError
from orchestrator.message import AUTHOR
from orchestrator.prompts.jinja import CompiledTemplate, Jinja
from orchestrator.prompts.languages.base import (
    Content,
    Input,
    Rendered,
    RenderedMessage,
    TextContent,
    Thread,
    describe_missing_input,
    describe_place,
    first_uses,
    to_tool_result,
)
from orchestrator.prompts.languages.message_dicts import ALLOW
from orchestrator.prompts.languages.mustache import Mustache
from orchestrator.prompts.languages.prompty import front_matter, lint
from orchestrator.prompts.languages.prompty.connection import ModelSource, build_model_source
from orchestrator.prompts.languages.prompty.content import (
    MediaReader,
    read_section,
    read_tool_uses,
    read_tools,
)
from orchestrator.prompts.languages.prompty.markers import (
    THREAD_LINE,
    Marks,
    Section,
    mark_role_lines,
)
from orchestrator.prompts.languages.values import (
    TOKEN,
    Placement,
    Tokens,
    Values,
    strip_pieces,
    token,
    value_text,
)
from orchestrator.prompts.markers import Piece
from orchestrator.prompts.mistakes import Mistake
from orchestrator.prompts.source import warn

_V2 = Marks(("system", "user", "assistant", "developer"), quoted=False)
_LEGACY = Marks(("system", "user", "assistant", "function", "tools", "tool", "thread"), quoted=True)


def read(
    text: str,
    source: str | None = None,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    dialect: Literal["v2", "legacy"] | None = None,
    params: Mapping[str, Any] | None = None,
    roots: Sequence[str | Path] = (),
    strict: bool | None = None,
) -> PromptyDocument:
    """Reads a Prompty template; the arguments are those of `read_template`, and its options.

    - `dialect`: `v2` or `legacy`; by default what the front matter says, else `v2`.
    - `params`: what `${params:...}` reads, in the dialect `legacy`.
    - `roots`: folders beside the template's that `${file:...}` may be in.
    - `strict`: a value that looks like a mark is an error, instead of text. By default what the
      front matter says (`template.format.strict`), else not.
    """
    front = front_matter.split_front(text, source)
    data, places = front_matter.read_members(front, source)
    template = _read_template_options(data, places)
    dialect = dialect or template["dialect"] or "v2"
    if dialect not in ("v2", "legacy"):
        raise ValidationError(f"there is no dialect {dialect!r} of Prompty: 'v2' or 'legacy'")
    legacy = dialect == "legacy"
    given = (params or {}) if legacy else None
    is_strict = template["strict"] if strict is None else strict
    references = front_matter.References(places, folder, roots, environ, given, strict is True)
    connection = _take_connection(data, references)
    data = references.resolve(data)
    references.diagnostics += lint.find_misspelt_members(front.text, source)
    hoisted = (
        front_matter.resolve_body_references(front.body, front.line, references) if legacy else {}
    )
    references.diagnostics += lint.find_ignored_members(data, places, legacy=legacy)
    return PromptyDocument(
        text,
        source,
        front.body,
        front.line,
        legacy,
        folder,
        references,
        front_matter.settings_of(data),
        declared=dict(front_matter.read_inputs(data, places, legacy=legacy)),
        strict=is_strict,
        hoisted={it: value_text(value) for it, value in hoisted.items()},
        engine=_compile_body(template["kind"], front, places, folder),
        model=data.get("model"),
        connection=connection,
    )


def _take_connection(data: dict[str, Any], references: front_matter.References) -> dict[str, Any]:
    """How the model is reached, with its references as they are written.

    It often names keys in variables of the process. They are read when the model is asked, so that
    no template holds a secret; what is wrong with them is told now.
    """
    found = front_matter.read_connection(data)
    if found:
        data["model"] = {k: it for k, it in data["model"].items() if k not in found}
    if references.environ is not None:
        for name, value in found.items():
            references.resolve(value, "model", name)
    return found


def _read_template_options(data: Mapping[str, Any], places: front_matter.Places) -> dict[str, Any]:
    """What the front matter says of the template: `kind`, `strict`, `dialect`."""
    given: Any = data.get("template")
    given = {} if given is None else given
    # Prompty's specification, and its own loader: a text is the format.
    given = {"format": given} if isinstance(given, str) else given
    if not isinstance(given, Mapping):
        message = f"Invalid template format: {given!r:.80}; write template: {{format: jinja2}}"
        raise places.error(message, "template")
    parser = given.get("parser")
    options = parser.get("options") if isinstance(parser, Mapping) else None
    own = options.get("dialect") if isinstance(options, Mapping) else None
    kind = (parser.get("kind") if isinstance(parser, Mapping) else parser) or "prompty"
    if kind not in ("prompty", "*"):
        message = f"there is no parser {kind!r:.80}; there is 'prompty'"
        raise places.error(message, "template", "parser")
    form = given.get("format") or given.get("type") or {}
    form = {"kind": form} if isinstance(form, str) else form
    if not isinstance(form, Mapping):
        message = f"Invalid template format: {form!r:.80}; write template: {{format: jinja2}}"
        raise places.error(message, "template", "format")
    return {
        "kind": form.get("kind") or "jinja2",
        "strict": form.get("strict") is True,
        "dialect": own,
    }


@cache
def _jinja() -> Jinja:
    return Jinja(value_text, keep_trailing_newline=True, undefined=ChainableUndefined)


# Nunjucks, of Prompty's library for JavaScript, is Jinja2's language there.
_JINJA_FORMATS = ("jinja2", "nunjucks", "*")


def _compile_body(
    kind: str, front: front_matter.Front, places: front_matter.Places, folder: Path | None
) -> CompiledTemplate | Mustache:
    body = mark_role_lines(front.body)
    try:
        if kind in _JINJA_FORMATS:
            environment = _jinja().with_files(folder, mark_role_lines)
            return environment.compile_template(body)
        if kind == "mustache":
            return Mustache(body, value_text)
    except Mistake as mistake:
        raise _make_error(mistake, places.source, front.line) from None
    message = f"there is no template format {kind!r:.80}: write jinja2, nunjucks or mustache"
    raise places.error(message, "template", "format")


def _make_error(mistake: Mistake, source: str | None, line: int) -> TemplateError:
    """The error for a mistake in a body that begins in this line."""
    if mistake.file is not None:
        return TemplateError(mistake.message, file=mistake.file, line=mistake.line, column=1)
    return TemplateError(mistake.message, file=source, line=line + mistake.line - 1, column=1)


@dataclass(eq=False, repr=False)
class PromptyDocument:
    """A template; see `orchestrator.prompts.languages.base.Document`."""

    language: ClassVar[str] = "prompty"

    text: str
    source: str | None
    body: str
    line: int  # of the file, in which the body begins
    legacy: bool
    folder: Path | None
    references: front_matter.References
    settings: Mapping[str, Any]
    declared: Mapping[str, Mapping[str, Any]]
    # A value that looks like a mark is always text. Strict templates refuse it, since the model may
    # still be taken in by it.
    strict: bool
    # Texts of references in the body (legacy). They are put in after the rendering, so that what a
    # file or a variable says is no template.
    hoisted: Mapping[str, str]
    engine: CompiledTemplate | Mustache
    model: Any = None  # the member `model`, without its connection
    connection: Mapping[str, Any] = field(default_factory=dict)  # see `read_model`

    def __post_init__(self) -> None:
        self.marks = _LEGACY if self.legacy else _V2
        self._lines = self.marks.find_places(self.body, self.line)
        self.media = MediaReader(self.folder, self.source)
        guarded = self.strict or any(spec.get("strict") for spec in self.declared.values())
        self.straight = self.engine.straight and not guarded
        self.inputs: Sequence[Input] = tuple(self._build_inputs())
        self._kinds = {one.name: one.kind for one in self.inputs}
        others = sorted({*_V2.roles, *_LEGACY.roles} - {*self.marks.roles})
        near = lint.find_misspelt_marks(self.body, self.line, self.marks, others, self.source)
        old = () if self.legacy else lint.find_old_marks(self.body, self.line, self.source)
        self.diagnostics: Sequence[Diagnostic] = (*self.references.diagnostics, *near, *old)

    def _build_inputs(self) -> Iterator[Input]:
        uses = first_uses(self.body, self.engine.names, self.line)
        names = [*uses, *sorted(self.engine.names - uses.keys())]
        names += [name for name in self.declared if name not in names]
        for name in names:
            spec = self.declared.get(name, {})
            yield Input(
                name,
                *uses.get(name, (self.line, 1)),
                used=name in self.engine.names,
                kind=str(spec.get("kind", spec.get("type", "")) or ""),
                required=spec.get("required") is True,
                default=spec.get("default"),
                declared=name in self.declared and not spec.get("undeclared"),
            )

    def render(self, inputs: Mapping[str, Any]) -> Rendered:
        """Renders it; see `Document.render`.

        An input that is missing and has no default is the empty text. A thread that the template
        does not place comes last.
        """
        values = self._build_values(inputs)
        try:
            pieces = self.engine.pieces(values.given)
            if self.hoisted:
                pieces = list(front_matter.replace_references(pieces, self.hoisted))
            tokens = Tokens[Placement](values.insert_placements(pieces))
        except Mistake as mistake:
            raise _make_error(mistake, self.source, self.line) from mistake
        doubts = [*self._find_samples(inputs), *self._check_threads(inputs)]
        doubts += self._check_forged_marks(tokens, pieces, values)
        doubts += lint.find_flat_messages(inputs, pieces, self.source)
        rendering = _Rendering(self, tokens, values)
        for section in self.marks.sections(tokens, self.line, self._lines):
            rendering.add(section)
        rendering.end()
        return Rendered(
            rendering.items,
            [*self.settings.get("tools", ()), *rendering.tools],
            [*doubts, *rendering.diagnostics],
            parts=not self.legacy,
            source=self.source,
        )

    def _build_values(self, inputs: Mapping[str, Any]) -> Values:
        values = Values()
        known = dict(inputs)
        for one in self.inputs:
            if one.name in known:
                continue
            if one.default is not None:
                known[one.name] = front_matter.check_set(one.default)
            elif one.required:
                raise ValidationError(describe_missing_input(one, self.source))
            elif one.kind == "thread":
                known[one.name] = ()
        for name, value in known.items():
            values.add(name, value, self._kinds.get(name, ""))
        return values

    def read_model(self) -> ModelSource:
        """How the file says that its model is reached; reads the variables that it names.

        Raises:
            TemplateError: One is not set, or a file that it names is not there.
        """
        references = self.references.fresh()
        found: dict[str, Any] = {}
        for name, value in self.connection.items():
            one = front_matter.check_set(references.resolve(value, "model", name))
            found |= one if isinstance(one, Mapping) else {}
        model = self.model if isinstance(self.model, Mapping) else {"id": self.model}
        return build_model_source(front_matter.check_set(model), found)

    def _find_samples(self, inputs: Mapping[str, Any]) -> Iterator[Diagnostic]:
        used = [
            name
            for name, spec in self.declared.items()
            if spec.get("sampled") and name not in inputs and name in self.engine.names
        ]
        if used:
            names = ", ".join(used)
            message = f"nothing gives {names}: the file's sample stands there"
            yield warn("sample-value", message, f"give {used[0]}=...", self.source, severity="info")

    def _check_threads(self, inputs: Mapping[str, Any]) -> Iterator[Diagnostic]:
        for name in (one for one in inputs if self._kinds.get(one) == "thread"):
            spec = self.declared[name]
            allowed = spec.get(ALLOW) is True and not (self.strict or spec.get("strict"))
            yield from lint.check_thread_roles(
                name, inputs[name], allowed=allowed, source=self.source
            )

    def _check_forged_marks(
        self, tokens: Tokens[Placement], pieces: Sequence[Piece], values: Values
    ) -> Iterator[Diagnostic]:
        """Values that look like marks: an error where the template is strict, else a warning."""
        marks = self.marks
        strict = {name for name, spec in self.declared.items() if spec.get("strict")}
        for origin, text in pieces if self.strict or strict else ():
            guarded = origin in strict or (self.strict and origin != AUTHOR)
            if guarded and marks.has_mark_start(text) and text not in values.puts:
                message = f"the input {origin!r} has a line that looks like a role's mark"
                raise self._refuse_mark(origin, message)
        for line in marks.find_forged(tokens):
            names = ", ".join(sorted({one for one, _ in tokens.pieces(line)} - {AUTHOR}))
            message = f"the value of {names} makes a line look like a role's mark"
            if self.strict:
                raise self._refuse_mark(names.partition(",")[0], message)
            message += "; it is text, since the template's author did not write it"
            instead = "for earlier messages, use an input of kind thread"
            yield warn("inert-mark", message, instead, self.source)

    def _refuse_mark(self, name: str, message: str) -> ValidationError:
        place = next((describe_place(it, self.source) for it in self.inputs if it.name == name), "")
        return ValidationError(f"{place}{message}, and the template is strict")


@dataclass(slots=True)
class _Rendering:
    """The messages of one rendering, in the order of its sections."""

    document: PromptyDocument
    tokens: Tokens[Placement]
    values: Values
    items: list[RenderedMessage | Thread] = field(default_factory=list)
    tools: list[Mapping[str, Any]] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    _placed: set[str] = field(default_factory=set)

    def add(self, section: Section) -> None:
        if not self.document.legacy:
            self._split(section)
        elif section.role == "tools":
            self._add_tools(section)
        elif section.role == "assistant" and section.attributes.get("type") == "tool_call":
            source, data = self.document.source, self._read_data(section)
            texts = read_section(section, self.tokens, source)
            self._add_message(section, read_tool_uses(section, data, texts, source))
        elif section.role == "thread" and not section.content.strip():
            self._place_all()
        else:
            self._split_at_threads(section)

    def _split_at_threads(self, section: Section) -> None:
        """A section as messages, with the threads where a line says `![thread]`."""
        first, *others = THREAD_LINE.split(section.content)
        self._split(replace(section, content=first), parted=bool(others))
        for text in others:
            self._place_all()
            # What follows a conversation is what the user says next, whoever spoke before it.
            asked = replace(section, role="user", attributes={}, content=text)
            self._split(asked, parted=True)

    def end(self) -> None:
        """Adds the threads that have no place in the template."""
        if self._placed:
            for put in self._find_unplaced():
                message = f"the thread {put.name!r} has no place in the template; it is last"
                self._warn("unplaced-thread", message, f"write {{{{{put.name}}}}} where it belongs")
        self._place_all()

    def _warn(self, code: str, message: str, suggestion: str) -> None:
        self.diagnostics.append(warn(code, message, suggestion, self.document.source))

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
            raise section.error(message, self.document.source)
        self.tools += read_tools(section, self._read_data(section), self.document.source)

    def _read_data(self, section: Section) -> Any:
        references = self.document.references.fresh()
        data = read_section(section, self.tokens, self.document.source, references)
        front_matter.check_set(data)
        self.diagnostics += references.diagnostics
        return data

    def _split(self, section: Section, *, parted: bool = False) -> None:
        """A section as messages; threads and media split it, or have done so (`parted`)."""
        rest: list[str] = []
        first = len(self.items)
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
                message = f"the section thread: of line {section.line} has a text, which is sent"
                instead = "place earlier messages there, with an input of kind thread"
                self._warn("thread-text", f"{message} as the user's", instead)
        content: list[Content] = [TextContent(tuple(self.tokens.pieces(text)))]
        if self.document.legacy:
            content = list(self.document.media.content(text, self.tokens))
        if len(content) == 1 and isinstance(content[0], TextContent):
            pieces = strip_pieces(content[0].pieces, None if parted else "\n")
            content = [TextContent(tuple(pieces))]
        self._add_message(section, tuple(content))

    def _add_message(self, section: Section, content: tuple[Content, ...]) -> None:
        attributes = dict(section.attributes)
        if self.document.legacy:
            attributes = {k: v for k, v in attributes.items() if k not in ("role", "content")}
        if section.role in ("tool", "function"):
            content = (to_tool_result(attributes, content),)
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
