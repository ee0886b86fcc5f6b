"""Templates of any language: their inputs, and messages whose every piece knows who wrote it.

For inputs there are checks, too: some nobody gives, and some are given and not read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from orchestrator.diagnostics import Diagnostic
from orchestrator.message import AUTHOR, Message, Text
from orchestrator.prompts.markers import Piece
from orchestrator.prompts.source import Source, warn
from orchestrator.support.spelling import find_close


def origin_of(name: str) -> str:
    """What tells the texts of an input or a function: its name, which may be the author's mark."""
    return f"input {name}" if name == AUTHOR else name


@dataclass(frozen=True, slots=True)
class TextContent:
    """A text: who wrote each piece (`AUTHOR`, or an input: `origin_of`), and the piece."""

    pieces: Sequence[Piece]

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join([text for _, text in self.pieces])


MediaKind = Literal["image", "audio", "video", "file"]


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound, a video or a document (`file`): its address, or its bytes.

    The media type is empty when it is not known; `attributes` are the author's other members, such
    as `{"quality": "high"}`.
    """

    kind: MediaKind
    url: str = ""
    data: bytes = b""
    media_type: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of the assistant. Its input is JSON data, or a text that is no JSON."""

    id: str
    name: str
    input: Any


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of the call `id`; the tool's name may be empty."""

    id: str
    name: str
    content: Sequence[TextContent | Media]


Content = TextContent | Media | ToolUse | ToolResult


def to_tool_result(attributes: Mapping[str, Any], content: Sequence[Content]) -> ToolResult:
    """The result that a message of a tool is; its attributes name the call and the tool."""
    shown = tuple(one for one in content if isinstance(one, TextContent | Media))
    id, name = attributes.get("tool_call_id", ""), attributes.get("name", "")
    return ToolResult(str(id), str(name), shown)


@dataclass(frozen=True, slots=True)
class RenderedMessage:
    """A message."""

    # `system`, `user`, `assistant`, `developer`, `tool`, or another that the author writes.
    role: str
    content: Sequence[Content]  # texts, media, calls and results; may be empty
    # The author's other members, such as `{"name": "Ann"}`.
    attributes: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0  # of the template that it begins in, from 1; 0 for one of an input

    @property
    def text(self) -> str:
        """Its texts, joined."""
        return "".join([one.text for one in self.content if isinstance(one, TextContent)])


@dataclass(frozen=True, slots=True)
class Thread:
    """The place of an input's messages, such as `conversation_history`, which others put in."""

    name: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered template."""

    # The messages, in order, with the `Thread`s of inputs that were given as `Thread`s.
    items: Sequence[RenderedMessage | Thread]
    tools: Sequence[Mapping[str, Any]] = ()  # that the template defines, as it writes them
    diagnostics: Sequence[Diagnostic] = ()  # what was doubtful while it was rendered
    # Whether `as_dicts` has parts with metadata (Prompty v2), not a chat API's dicts.
    parts: bool = False
    source: str | None = None  # the template's file, for errors

    @property
    def messages(self) -> list[RenderedMessage]:
        """The messages."""
        return [one for one in self.items if isinstance(one, RenderedMessage)]

    def as_dicts(self) -> list[dict[str, Any]]:
        """The messages in the dict shape of the template's language.

        `{"role", **attributes, "content"}`, whose content is a text or a list of
        `{"type": ..., ...}`; for the second version of Prompty `{"role", "content", "metadata"}`,
        whose content is a list of `{"kind": ..., ...}`.
        """
        from orchestrator.prompts.languages.message_dicts import as_dicts

        return as_dicts(self)

    def converse(self) -> tuple[Text, list[Message], list[dict[str, Any]]]:
        """The system text, the messages and the tools, in the shapes of Bedrock's Converse.

        As Converse wants it, neighbours of one role are one message, results of tools are the
        user's, and empty messages are left out. All texts have `.spans` that say who wrote them.

        Raises:
            TemplateError: A message has a role, or a medium an address, that Converse has not.
            ValidationError: The `tool_calls` of a given message are none.
        """
        from orchestrator.prompts.languages.converse import converse

        return converse(self)


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a template: the place of its first use, and what the template declares of it."""

    name: str
    line: int = 1
    column: int = 1
    # An input that is only declared is not used; its place is then that of the first line.
    used: bool = True
    kind: str = ""  # as the template says it, such as `string` or `thread`
    required: bool = False
    default: Any = None
    declared: bool = False


def describe_place(one: Input, source: str | None) -> str:
    """The place that reads an input, to begin a message with; empty without a file."""
    if not source:
        return ""
    return f"{source}:{one.line}:{one.column}: " if one.used else f"{source}: "


def describe_missing_input(one: Input, source: str | None) -> str:
    """What is said of an input that nobody gives."""
    place = describe_place(one, source)
    return f"{place}Missing required input: {one.name!r} has no default; give {one.name}=..."


class Document(Protocol):
    """A template that was read."""

    language: str  # `prompty`, `semantic-kernel`, `handlebars`, `jinja2` or `ppe`
    text: str
    source: str | None
    inputs: Sequence[Input]  # in the order of their first use, then those that it only declares
    # What it says of the model and the call, in Bedrock's names where there are any: `model`,
    # `inference`, `additional`, `name`, `description`, `tools`, `outputs`.
    settings: Mapping[str, Any]
    diagnostics: Sequence[Diagnostic]  # what is doubtful about it
    # Whether it shows texts as they are, and asks of them only whether they are empty: with other
    # texts the same messages are rendered, with these texts in them.
    straight: bool

    def render(self, inputs: Mapping[str, Any]) -> Rendered:
        """Renders it.

        Args:
            inputs: Values by name: texts, JSON data, a list of messages for a thread, or a
                `Thread` that is to stay in its place.

        Raises:
            TemplateError: It cannot be rendered, with its place.
            ValidationError: A required input is missing.
        """
        ...


# What Prompty, Semantic Kernel and chat APIs call the members of Bedrock's inference configuration.
_INFERENCE = {
    "temperature": "temperature",
    **dict.fromkeys(("topP", "top_p"), "topP"),
    **dict.fromkeys(("topK", "top_k"), "topK"),
    **dict.fromkeys(("maxOutputTokens", "max_tokens", "max_completion_tokens"), "maximumLength"),
    **dict.fromkeys(("stopSequences", "stop_sequences", "stop"), "stopSequences"),
}


_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?")


def sort_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """A template's options for the model: `inference` in Bedrock's names, the rest `additional`."""
    inference = {_INFERENCE[k]: v for k, v in options.items() if k in _INFERENCE}
    inference |= {k: _to_number(v) for k, v in inference.items() if k != "stopSequences"}
    if isinstance(inference.get("stopSequences"), str):
        inference["stopSequences"] = [inference["stopSequences"]]
    additional = {k: v for k, v in options.items() if k not in _INFERENCE}
    sorted_options = {"inference": inference, "additional": additional}
    return {member: found for member, found in sorted_options.items() if found}


def _to_number(value: Any) -> Any:
    """The number that a text is: what variables of the process have are texts."""
    if type(value) is not str or not _NUMBER.fullmatch(value):
        return value
    return float(value) if "." in value else int(value)


# Findings of each kind: comparing names takes time, and callers may give any number of them.
_MOST = 100


def check_declared_inputs(document: Document) -> Iterator[Diagnostic]:
    """What is doubtful about the inputs that a template declares and reads.

    Only a template that declares inputs can have a wrong one; it may read others besides. Threads
    that it does not place come last, and so are used.
    """
    unread = [
        one for one in document.inputs if one.declared and not one.used and one.kind != "thread"
    ]
    names = [one.name for one in unread]
    for one in document.inputs[:_MOST]:
        if one.used and not one.declared and (close := find_close(one.name, names, 0.7)):
            message = f"the template reads {one.name!r}, which it does not declare"
            yield _warn(document, "undeclared-input", message, f"did you mean {close!r}?", one)
    for one in unread[:_MOST]:
        message = f"the template declares the input {one.name!r} and does not read it"
        yield _warn(document, "unused-input", message, "write it where it belongs")


def check_given_inputs(document: Document, given: Collection[str]) -> Iterator[Diagnostic]:
    """What is doubtful about the inputs that a rendering is given."""
    known = {one.name for one in document.inputs}
    missing = [
        one
        for one in document.inputs
        if one.used and one.name not in given and one.default is None and one.kind != "thread"
    ]
    wanted = [one.name for one in missing]
    for name in list(given)[:_MOST]:
        if name not in known:
            close = find_close(name, wanted, 0.7) or find_close(name, known, 0.7)
            names = ", ".join(one.name for one in document.inputs[:20])
            others = f"it reads {names}" if names else "it has no inputs"
            instead = f"did you mean {close!r}?" if close else others
            yield _warn(document, "unknown-input", f"the template reads no {name!r}", instead)
    for one in missing[:_MOST]:
        message = f"nothing gives {one.name!r}, which is empty here"
        yield _warn(document, "missing-input", message, f"give {one.name}=...", one)


def _warn(
    document: Document, code: str, message: str, suggestion: str, at: Input | None = None
) -> Diagnostic:
    place = (at.line, at.column) if at is not None else ()
    return warn(code, message, suggestion, document.source, *place)


_TAG = re.compile(r"\{\{(?:(?!\{\{).)*?\}\}|\{%(?:(?!\{%).)*?%\}", re.DOTALL)
_WORD = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|(?<![.\w])[A-Za-z_]\w*")


def first_uses(text: str, names: Collection[str], line: int = 1) -> dict[str, tuple[int, int]]:
    """The line and column of each name's first use, in the order of these uses."""
    source = Source(text, line=line)
    found: dict[str, tuple[int, int]] = {}
    for tag in _TAG.finditer(text):
        for word in _WORD.finditer(tag[0]):
            if word[0] in names and word[0] not in found:
                found[word[0]] = source.place(tag.start() + word.start())
    return found
