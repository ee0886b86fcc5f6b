"""Rendered messages in the shapes of Bedrock's Converse."""

from __future__ import annotations

import base64
import mimetypes
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.errors import TemplateError
from orchestrator.message import Block, Message, Span, Text
from orchestrator.prompts.bound_prompt import append_message
from orchestrator.prompts.languages.base import (
    Content,
    Media,
    Rendered,
    RenderedMessage,
    TextContent,
    ToolResult,
    ToolUse,
)
from orchestrator.prompts.languages.message_dicts import parse_tool_use
from orchestrator.prompts.leaf import spans_of
from orchestrator.prompts.markers import Piece

# Roles whose messages are the system text.
SYSTEM_ROLES = ("system", "developer")

_FORMATS = {
    "image": {"png": "png", "jpeg": "jpeg", "jpg": "jpeg", "gif": "gif", "webp": "webp"},
    "file": {it: it for it in ("pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md")},
    "video": {
        **{it: it for it in ("mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv")},
        "3gp": "three_gp",
    },
    "audio": {
        it: it for it in ("mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mka", "m4a", "webm")
    },
}
_MEMBERS = {"image": "image", "file": "document", "video": "video", "audio": "audio"}
_TYPES = {
    "audio/mpeg": "mp3",
    "audio/x-wav": "wav",
    "text/plain": "txt",
    "text/markdown": "md",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}
_REFUSED = re.compile(r"[^0-9A-Za-z\-()\[\]]+")


def converse(rendered: Rendered) -> tuple[Text, list[Message], list[dict[str, Any]]]:
    """A rendering as Converse takes it; see `Rendered.converse`."""
    conversing = ConverseBuilder()
    system, others = system_pieces(rendered.messages)
    messages: list[Message] = []
    for one in others:
        message = conversing.build_message(one)
        if message is not None:
            append_message(messages, message)
    text = Text.of("".join([piece for _, piece in system]), tuple(spans_of(system)))
    return text, messages, tool_specs(rendered.tools)


def system_pieces(messages: Iterable[RenderedMessage]) -> tuple[list[Piece], list[RenderedMessage]]:
    """The system text, of all messages that are the system's, and the other messages."""
    pieces: list[Piece] = []
    others: list[RenderedMessage] = []
    for one in messages:
        if one.role not in SYSTEM_ROLES:
            others.append(one)
            continue
        told: list[Piece] = []
        for content in one.content:
            if not isinstance(content, TextContent):
                raise _make_error(one, f"a message of role {one.role!r} can only have text")
            told += content.pieces
        if any(text for _, text in told):
            if pieces:
                pieces.append(("template", "\n"))
            pieces += told
    return pieces, others


@dataclass(slots=True)
class ConverseBuilder:
    """Makes messages of Converse."""

    encoded: bool = False
    _calls: list[tuple[str, str]] = field(default_factory=list)
    _documents: int = 0

    def build_message(self, said: RenderedMessage) -> Message | None:
        """A message; `None` when it is empty. Blank texts go: Bedrock refuses them."""
        content = list(said.content)
        if said.role == "assistant":
            calls = said.attributes.get("tool_calls") or ()
            content += [
                parse_tool_use(one)
                for one in (calls if isinstance(calls, list | tuple) else [calls])
            ]
        elif said.role in ("tool", "function"):
            content = [self._build_tool_result(said)]
        elif said.role not in ("user", "thread"):
            raise _make_error(
                said, f"Converse has no role {said.role!r}: user, assistant or system"
            )
        blocks: list[Block] = []
        spans: list[Span] = []
        for one in content:
            block = self._block(one, said)
            if isinstance(one, TextContent):
                if not one.text.strip():
                    continue
                spans += spans_of(one.pieces, len(blocks))
            blocks.append(block)
        role = "assistant" if said.role == "assistant" else "user"
        return Message(role, blocks, tuple(spans)) if blocks else None

    def _build_tool_result(self, said: RenderedMessage) -> ToolResult:
        found = next((one for one in said.content if isinstance(one, ToolResult)), None)
        if found is None:
            told = tuple(one for one in said.content if isinstance(one, TextContent | Media))
            id, name = said.attributes.get("tool_call_id", ""), said.attributes.get("name", "")
            found = ToolResult(str(id), str(name), told)
        if found.id:
            return found
        id = next((id for id, name in reversed(self._calls) if name == found.name), "")
        if not id:
            raise _make_error(
                said, f"the message of role {said.role!r} answers no call: give it a tool_call_id"
            )
        return ToolResult(id, found.name, found.content)

    def _block(self, one: Content, said: RenderedMessage) -> Block:
        if isinstance(one, TextContent):
            return {"text": one.text}
        if isinstance(one, ToolUse):
            self._calls.append((one.id, one.name))
            given = one.input if isinstance(one.input, Mapping) else {"input": one.input}
            return {"toolUse": {"toolUseId": one.id, "name": one.name, "input": given}}
        if isinstance(one, ToolResult):
            told = [self._block(it, said) for it in one.content]
            return {"toolResult": {"toolUseId": one.id, "content": told or [{"text": ""}]}}
        return self._medium(one, said)

    def _medium(self, medium: Media, said: RenderedMessage) -> Block:
        form = _format(medium)
        if not form:
            raise _make_error(
                said,
                f"Converse takes no {medium.kind} of type "
                f"{medium.media_type or medium.url[:80]!r}: it takes "
                f"{', '.join(sorted(set(_FORMATS[medium.kind].values())))}",
            )
        made: Block = {"format": form, "source": self._source(medium, said)}
        if medium.kind == "file":
            self._documents += 1
            stem = medium.url.rpartition("/")[2].rpartition(".")[0]
            name = _REFUSED.sub(" ", stem).strip()[:150]
            made["name"] = f"{name} {self._documents}".strip()
        return {_MEMBERS[medium.kind]: made}

    def _source(self, medium: Media, said: RenderedMessage) -> Mapping[str, Any]:
        if medium.data:
            data = base64.b64encode(medium.data).decode("ascii") if self.encoded else medium.data
            return {"bytes": data}
        if medium.url.startswith("s3://"):
            return {"s3Location": {"uri": medium.url}}
        raise _make_error(
            said,
            f"Converse fetches no {medium.kind} from {medium.url[:80]!r}: give its bytes, a data: "
            "address, an s3:// address, or a file beside the template",
        )


def _format(medium: Media) -> str:
    media_type = medium.media_type
    if not media_type:
        media_type = mimetypes.guess_type(medium.url.partition("?")[0])[0] or ""
    if not media_type:
        media_type = _sniff_media_type(medium.data)
    name = _TYPES.get(media_type, media_type.rpartition("/")[2])
    return _FORMATS[medium.kind].get(name, "")


def _sniff_media_type(data: bytes) -> str:
    for start, media_type in (
        (b"\x89PNG", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"RIFF", "image/webp"),
        (b"%PDF", "application/pdf"),
    ):
        if data.startswith(start):
            return media_type
    return ""


def tool_specs(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tools of a template as tool specifications: functions with their parameters."""
    return [
        {"toolSpec": _to_tool_spec(tool)} for tool in tools if tool.get("name") or tool.get("id")
    ]


def _to_tool_spec(tool: Mapping[str, Any]) -> dict[str, Any]:
    inner = tool.get("function")
    function = inner if isinstance(inner, Mapping) else tool
    name = str(function.get("name") or tool.get("name") or tool.get("id"))
    made: dict[str, Any] = {"name": name}
    if described := function.get("description") or tool.get("description"):
        made["description"] = str(described)
    bound = {
        str(it.get("name") if isinstance(it, Mapping) else it) for it in tool.get("bindings") or ()
    }
    made["inputSchema"] = {"json": _to_schema(function.get("parameters"), bound)}
    return made


def _to_schema(parameters: Any, bound: set[str]) -> dict[str, Any]:
    if isinstance(parameters, Mapping) and "type" in parameters:
        return dict(parameters)  # a JSON schema
    if isinstance(parameters, Mapping):
        parameters = parameters.get("properties", parameters)
    if isinstance(parameters, Mapping):
        parameters = [
            {"name": name, **(it if isinstance(it, Mapping) else {"kind": it})}
            for name, it in parameters.items()
        ]
    rows = [it for it in parameters or () if isinstance(it, Mapping) and it.get("name")]
    rows = [it for it in rows if it["name"] not in bound]
    made: dict[str, Any] = {
        "type": "object",
        "properties": {str(it["name"]): _to_property(it) for it in rows},
    }
    if required := [str(it["name"]) for it in rows if it.get("required")]:
        made["required"] = required
    return made


def _to_property(told: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(told.get("kind", told.get("type", "string")))
    made: dict[str, Any] = {"type": {"float": "number"}.get(kind, kind)}
    if told.get("description"):
        made["description"] = str(told["description"])
    if told.get("enumValues"):
        made["enum"] = list(told["enumValues"])
    return made


def _make_error(said: RenderedMessage, message: str) -> TemplateError:
    return TemplateError(message, line=said.line or None)
