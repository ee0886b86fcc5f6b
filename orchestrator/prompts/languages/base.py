"""What a template of any language comes to: messages, whose every piece knows who wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from orchestrator.diagnostics import Diagnostic
from orchestrator.message import Message, Text
from orchestrator.prompts.markers import Piece


@dataclass(frozen=True, slots=True)
class TextContent:
    """A text.

    Attributes:
        pieces: Who wrote each piece (`orchestrator.message.AUTHOR`, or an input's name), and it.
    """

    pieces: Sequence[Piece]

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join([text for _, text in self.pieces])


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound, a video or a document.

    Attributes:
        kind: Which of them; `file` for any document.
        url: Where it is, when it is elsewhere.
        data: Its bytes, when it is here.
        media_type: Its media type, such as `image/png`; empty when it is not known.
        attributes: What the author says of it besides, such as `{"quality": "high"}`.
    """

    kind: Literal["image", "audio", "video", "file"]
    url: str = ""
    data: bytes = b""
    media_type: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call that the assistant made.

    Attributes:
        id: Names the call.
        name: The tool.
        input: Its input: JSON data, or the text that stands for it where that is no JSON.
    """

    id: str
    name: str
    input: Any


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gave.

    Attributes:
        id: The call that it answers.
        name: The tool, when it is told.
        content: What it gave.
    """

    id: str
    name: str
    content: Sequence[TextContent | Media]


Content = TextContent | Media | ToolUse | ToolResult


@dataclass(frozen=True, slots=True)
class RenderedMessage:
    """A message.

    Attributes:
        role: `system`, `user`, `assistant`, `developer`, `tool`, or another that the author writes.
        content: What it says; empty for a message without content.
        attributes: What else the author says of it, such as `{"name": "Ann"}`.
        line: The line of the template that it begins in, from 1; 0 for one of an input.
    """

    role: str
    content: Sequence[Content]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0

    @property
    def text(self) -> str:
        """Its texts, joined."""
        return "".join([one.text for one in self.content if isinstance(one, TextContent)])


@dataclass(frozen=True, slots=True)
class Thread:
    """The place of messages that come from elsewhere.

    Attributes:
        name: The input that they are in: such as `conversation_history` and `agent_scratchpad` of
            a stage's template, which the engine puts there.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered template.

    Attributes:
        items: The messages, in order. `Thread`s are left only of the inputs that were given as
            `Thread`s; the messages of the others are in their place.
        tools: Tools that the template defines, as it writes them.
        diagnostics: What was doubtful while it was rendered.
        parts: Whether the template's language tells messages as parts with metadata, as the second
            version of Prompty does, and not as chat APIs do.
    """

    items: Sequence[RenderedMessage | Thread]
    tools: Sequence[Mapping[str, Any]] = ()
    diagnostics: Sequence[Diagnostic] = ()
    parts: bool = False

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

        Neighbours of one role are one message, results of tools are the user's, and empty messages
        are left out, as Converse wants it. All texts have `.spans` that tell who wrote them. Bytes
        of media are bytes, as boto3 takes them.

        Raises:
            TemplateError: A message has a role, or a medium an address, that Converse has not.
            ValidationError: The `tool_calls` of a given message are none.
        """
        from orchestrator.prompts.languages.converse import converse

        return converse(self)


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a template.

    Attributes:
        name: Its name.
        line: The line of the template that uses it first, from 1.
        column: The column there, from 1.
        used: Whether the template uses it; if not, the place is that of the first line.
        kind: What it is, where the template says so, such as `string` or `thread`.
        required: Whether it must be given.
        default: Its value when it is not given.
        declared: Whether the template says that it has it.
    """

    name: str
    line: int = 1
    column: int = 1
    used: bool = True
    kind: str = ""
    required: bool = False
    default: Any = None
    declared: bool = False


class Document(Protocol):
    """A template that was read.

    Attributes:
        language: `prompty`, `semantic-kernel`, `handlebars`, `jinja2` or `ppe`.
        text: The author's text.
        source: The file that it is from, if any.
        inputs: Its inputs, in the order of their first use.
        settings: What it says of the model and the call, in Bedrock's names where there are any:
            `model`, `inference`, `additional`, `name`, `description`, `tools`, `outputs`.
        diagnostics: What is doubtful about it.
        straight: Whether it shows texts as they are, and asks of them only whether they are empty:
            with other texts the same messages are rendered, with these texts in them.
    """

    language: str
    text: str
    source: str | None
    inputs: Sequence[Input]
    settings: Mapping[str, Any]
    diagnostics: Sequence[Diagnostic]
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


def sort_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """A template's options for the model: `inference` in Bedrock's names, the rest `additional`."""
    inference = {_INFERENCE[k]: v for k, v in options.items() if k in _INFERENCE}
    if isinstance(inference.get("stopSequences"), str):
        inference["stopSequences"] = [inference["stopSequences"]]
    additional = {k: v for k, v in options.items() if k not in _INFERENCE}
    sorted_options = {"inference": inference, "additional": additional}
    return {member: found for member, found in sorted_options.items() if found}
