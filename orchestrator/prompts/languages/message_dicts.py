"""Rendered messages as the dicts of their language."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.prompts.languages.base import (
    Content,
    Media,
    Rendered,
    RenderedMessage,
    TextContent,
    ToolResult,
    ToolUse,
)

__all__ = ["as_dicts", "to_url"]


def as_dicts(rendered: Rendered) -> list[dict[str, Any]]:
    """The messages of a rendering; see `Rendered.as_dicts`."""
    told = _to_parts_dict if rendered.parts else _to_chat_dict
    return [told(one) for one in rendered.messages]


def to_url(medium: Media) -> str:
    """Where a medium is: its address, or all of it as a `data:` address."""
    if not medium.data:
        return medium.url
    body = base64.b64encode(medium.data).decode("ascii")
    return f"data:{medium.media_type or 'application/octet-stream'};base64,{body}"


def _to_parts_dict(said: RenderedMessage) -> dict[str, Any]:
    parts = [_part(one) for one in said.content]
    return {"role": said.role, "content": parts, "metadata": dict(said.attributes)}


def _part(one: Content) -> dict[str, Any]:
    if isinstance(one, TextContent):
        return {"kind": "text", "value": one.text}
    if isinstance(one, Media):
        made: dict[str, Any] = {"kind": one.kind, "source": to_url(one)}
        if one.media_type:
            made["mediaType"] = one.media_type
        return {**one.attributes, **made}
    return _block(one)


def _to_chat_dict(said: RenderedMessage) -> dict[str, Any]:
    attributes = dict(said.attributes)
    if any(isinstance(one, ToolUse) for one in said.content):
        attributes.pop("type", None)
    if any(isinstance(one, ToolResult) and one.id for one in said.content):
        attributes.pop("name", None)  # the call's id says it
    return {"role": said.role, **attributes, "content": _content(said.content)}


def _content(content: Sequence[Content]) -> str | list[dict[str, Any]]:
    if all(isinstance(one, TextContent) for one in content):
        return "".join([one.text for one in content if isinstance(one, TextContent)])
    return [_block(one) for one in content]


def _block(one: Content) -> dict[str, Any]:
    if isinstance(one, TextContent):
        return {"type": "text", "text": one.text}
    if isinstance(one, ToolUse):
        function: Mapping[str, Any] = {"name": one.name, "arguments": one.input}
        call = {"id": one.id, "type": "function", "function": function}
        return {"type": "tool_call", "tool_call": call}
    if isinstance(one, ToolResult):
        return {"type": "tool_result", "tool_result": _content(one.content)}
    kind = "image_url" if one.kind == "image" else one.kind
    return {"type": kind, kind: {"url": to_url(one), **one.attributes}}
