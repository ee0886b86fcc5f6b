"""Rendered messages in the shapes of Bedrock's Converse."""

from __future__ import annotations

import base64
import mimetypes
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.errors import TemplateError
from orchestrator.message import AUTHOR, Block, Message, Span, Text
from orchestrator.prompts.bound_prompt import append_message, spans_of
from orchestrator.prompts.languages.base import (
    Content,
    Media,
    Rendered,
    RenderedMessage,
    TextContent,
    ToolResult,
    ToolUse,
    to_tool_result,
)
from orchestrator.prompts.languages.message_dicts import parse_tool_use
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
# What the bytes of a medium without a type begin with.
_STARTS = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
    (b"%PDF", "application/pdf"),
)
_REFUSED = re.compile(r"[^0-9A-Za-z\-()\[\]]+")


def converse(
    rendered: Rendered, *, encoded: bool = False
) -> tuple[Text, list[Message], list[dict[str, Any]]]:
    """A rendering as Converse takes it; see `Rendered.converse`, and `ConverseBuilder.encoded`."""
    try:
        return _convert(rendered, encoded)
    except TemplateError as error:
        raise TemplateError(error.reason, file=rendered.source, line=error.line) from None


def _convert(rendered: Rendered, encoded: bool) -> tuple[Text, list[Message], list[dict[str, Any]]]:
    conversing = ConverseBuilder(encoded=encoded)
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
        added: list[Piece] = []
        for content in one.content:
            if not isinstance(content, TextContent):
                raise _make_error(one, f"a message of role {one.role!r} can only have text")
            added += content.pieces
        if any(text for _, text in added):
            pieces += [*([(AUTHOR, "\n")] if pieces else []), *added]
    return pieces, others


@dataclass(slots=True)
class ConverseBuilder:
    """Makes messages of Converse."""

    encoded: bool = False  # Base64 instead of bytes, as on the wire and in the engine
    _calls: list[tuple[str, str]] = field(default_factory=list)
    _documents: int = 0

    def build_message(self, original: RenderedMessage) -> Message | None:
        """A message; `None` when it is empty. Blank texts go: Bedrock refuses them."""
        content = list(original.content)
        if original.role == "assistant":
            calls = original.attributes.get("tool_calls") or ()
            content += map(parse_tool_use, calls if isinstance(calls, list | tuple) else [calls])
            if call := original.attributes.get("function_call"):  # which has no id
                content.append(replace(parse_tool_use(call), id=f"call-{len(self._calls) + 1}"))
        elif original.role in ("tool", "function"):
            content = [self._build_tool_result(original)]
        elif original.role not in ("user", "thread"):
            message = f"Converse has no role {original.role!r}: user, assistant or system"
            raise _make_error(original, message)
        blocks: list[Block] = []
        spans: list[Span] = []
        for one in content:
            block = self._block(one, original)
            if isinstance(one, TextContent):
                if not one.text.strip():
                    continue
                spans += spans_of(one.pieces, len(blocks))
            blocks.append(block)
        role = "assistant" if original.role == "assistant" else "user"
        return Message(role, blocks, tuple(spans)) if blocks else None

    def _build_tool_result(self, original: RenderedMessage) -> ToolResult:
        found = next((one for one in original.content if isinstance(one, ToolResult)), None)
        if found is None:
            found = to_tool_result(original.attributes, original.content)
        if found.id:
            return found
        id = next((id for id, name in reversed(self._calls) if name == found.name), "")
        if not id:
            message = f"the message of role {original.role!r} answers no call"
            raise _make_error(original, f"{message}: give it a tool_call_id")
        return ToolResult(id, found.name, found.content)

    def _block(self, one: Content, original: RenderedMessage) -> Block:
        if isinstance(one, TextContent):
            return {"text": one.text}
        if isinstance(one, ToolUse):
            self._calls.append((one.id, one.name))
            # Converse takes only objects as inputs.
            given = one.input if isinstance(one.input, Mapping) else {"input": one.input}
            return {"toolUse": {"toolUseId": one.id, "name": one.name, "input": given}}
        if isinstance(one, ToolResult):
            content = [self._block(it, original) for it in one.content]
            return {"toolResult": {"toolUseId": one.id, "content": content or [{"text": ""}]}}
        return self._medium(one, original)

    def _medium(self, medium: Media, original: RenderedMessage) -> Block:
        form = _format(medium)
        if not form:
            known = ", ".join(sorted(set(_FORMATS[medium.kind].values())))
            what = f"{medium.kind} of type {medium.media_type or medium.url[:80]!r}"
            raise _make_error(original, f"Converse takes no {what}: it takes {known}")
        block: Block = {"format": form, "source": self._source(medium, original)}
        if medium.kind == "file":
            # AWS (DocumentBlock): a name is needed, of few characters, and unique in a request.
            self._documents += 1
            stem = medium.url.rpartition("/")[2].rpartition(".")[0]
            name = _REFUSED.sub(" ", stem).strip()[:150]
            block["name"] = f"{name} {self._documents}".strip()
        return {_MEMBERS[medium.kind]: block}

    def _source(self, medium: Media, original: RenderedMessage) -> Mapping[str, Any]:
        if medium.data:
            data = base64.b64encode(medium.data).decode("ascii") if self.encoded else medium.data
            return {"bytes": data}
        if medium.url.startswith("s3://"):
            return {"s3Location": {"uri": medium.url}}
        raise _make_error(
            original,
            f"Converse fetches no {medium.kind} from {medium.url[:80]!r}: give its bytes, a data: "
            "address, an s3:// address, or a file beside the template",
        )


def _format(medium: Media) -> str:
    media_type = medium.media_type
    if not media_type:
        media_type = mimetypes.guess_type(medium.url.partition("?")[0])[0] or ""
    if not media_type:
        media_type = next((it for start, it in _STARTS if medium.data.startswith(start)), "")
    name = _TYPES.get(media_type, media_type.rpartition("/")[2])
    return _FORMATS[medium.kind].get(name, "")


def tool_specs(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tools of a template as tool specifications: functions with their parameters."""
    return [
        {"toolSpec": _to_tool_spec(tool)} for tool in tools if tool.get("name") or tool.get("id")
    ]


def _to_tool_spec(tool: Mapping[str, Any]) -> dict[str, Any]:
    inner = tool.get("function")
    function = inner if isinstance(inner, Mapping) else tool
    name = str(function.get("name") or tool.get("name") or tool.get("id"))
    spec: dict[str, Any] = {"name": name}
    if described := function.get("description") or tool.get("description"):
        spec["description"] = str(described)
    bound = {
        str(it.get("name") if isinstance(it, Mapping) else it) for it in tool.get("bindings") or ()
    }
    spec["inputSchema"] = {"json": _to_schema(function.get("parameters"), bound)}
    return spec


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
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {str(it["name"]): _to_property(it) for it in rows},
    }
    if required := [str(it["name"]) for it in rows if it.get("required")]:
        schema["required"] = required
    return schema


def _to_property(row: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(row.get("kind", row.get("type", "string")))
    member: dict[str, Any] = {"type": {"float": "number"}.get(kind, kind)}
    if row.get("description"):
        member["description"] = str(row["description"])
    if row.get("enumValues"):
        member["enum"] = list(row["enumValues"])
    return member


def _make_error(original: RenderedMessage, message: str) -> TemplateError:
    return TemplateError(message, line=original.line or None)
