"""Messages and media that are given as values: dicts of chat APIs, of Converse and of Prompty."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from orchestrator.errors import ValidationError
from orchestrator.prompts.languages.base import (
    Content,
    Media,
    Said,
    Thread,
    ToolResult,
    ToolUse,
    Words,
)

__all__ = ["call_of", "data_url", "media_of", "messages_of"]

_KINDS = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "audio": "audio",
    "input_audio": "audio",
    "video": "video",
    "file": "file",
    "document": "file",
}
_OF_A_MEDIUM = ("kind", "type", "source", "url", "data", "bytes", "mediaType", "media_type")


def messages_of(value: Sequence[Any], name: str) -> Iterator[Said | Thread]:
    """The messages of a thread.

    Args:
        value: Dicts with `role` and `content`, or messages that were rendered before.
        name: The input, which is the origin of what they say.

    Raises:
        ValidationError: One is no message.
    """
    for at, one in enumerate(value):
        if isinstance(one, Said | Thread):
            yield one
        elif isinstance(one, Mapping):
            yield _message(one, f"{name}[{at}]", name)
        else:
            raise ValidationError(
                f"{name}[{at}] is no message: give dicts with 'role' and 'content'"
            )


def _message(given: Mapping[str, Any], where: str, name: str) -> Said:
    role = given.get("role", "user")
    if not isinstance(role, str):
        raise ValidationError(f"the role of {where} must be a text")
    content = given.get("content", given.get("parts"))
    attributes = {k: v for k, v in given.items() if k not in ("role", "content", "parts")}
    if content is None:
        return Said(role, (), attributes)
    if isinstance(content, str):
        return Said(role, (Words(((name, content),)),), attributes)
    if not isinstance(content, list | tuple):
        content = [content]
    return Said(role, tuple(_content(one, where, name) for one in content), attributes)


def _content(one: Any, where: str, name: str) -> Content:
    if isinstance(one, Words | Media | ToolUse | ToolResult):
        return one
    if isinstance(one, str):
        return Words(((name, one),))
    if not isinstance(one, Mapping):
        raise ValidationError(f"the content of {where} must be texts and dicts")
    if use := one.get("toolUse"):
        return ToolUse(use["toolUseId"], use["name"], use.get("input", {}))
    if result := one.get("toolResult"):
        told = [_content(it, where, name) for it in result.get("content", ())]
        kept = [it for it in told if isinstance(it, Words | Media)]
        return ToolResult(result["toolUseId"], "", tuple(kept))
    if call := one.get("tool_call"):
        return call_of(call)
    return _text_or_medium(one, where, name)


def _text_or_medium(one: Mapping[str, Any], where: str, name: str) -> Content:
    kind = one.get("kind", one.get("type"))
    kind = kind or next((it for it in ("image", "document", "video") if it in one), "text")
    if kind in _KINDS:
        inner = one.get(kind, one)
        return media_of(inner, _KINDS[kind], where, one)
    text = one.get("text", one.get("value"))
    if text is None and kind == "json":
        text = json.dumps(one.get("json"), ensure_ascii=False)
    if not isinstance(text, str):
        raise ValidationError(f"the content of {where} has a {kind!r}, which is not understood")
    return Words(((name, text),))


def call_of(call: Mapping[str, Any]) -> ToolUse:
    """A call as chat APIs have it: `id` and `function` with `name` and `arguments`."""
    function = call.get("function") or call
    given = function.get("arguments", function.get("input", {}))
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            pass
    return ToolUse(str(call.get("id", "")), str(function.get("name", "")), given)


def media_of(value: Any, kind: str, where: str, around: Mapping[str, Any] | None = None) -> Media:
    """A medium.

    Args:
        value: Its address, its bytes, or a dict: of Prompty (`source`, `mediaType`), of a chat API
            (`url`), or of Converse (`format`, `source`).
        kind: What it is.
        where: What it is the value of, for messages.
        around: The dict that `value` is a member of, whose other members are its attributes.

    Raises:
        ValidationError: It is none of these.
    """
    made = cast(Literal["image", "audio", "video", "file"], kind)
    if isinstance(value, Media):
        return value
    if isinstance(value, bytes):
        return Media(made, data=value)
    if isinstance(value, str):
        return _at(made, value, {})
    if not isinstance(value, Mapping):
        raise ValidationError(f"the {kind} of {where} must be an address, bytes or a dict")
    source = value.get("source", value.get("url", value.get("data", value.get("bytes"))))
    form = value.get("format")
    if isinstance(source, Mapping):  # Converse
        source = source.get("bytes", (source.get("s3Location") or {}).get("uri"))
    if isinstance(source, str) and form and "://" not in source:
        source = _decoded(source, where)
    media_type = str(value.get("mediaType", value.get("media_type", "")) or "")
    if form and not media_type:
        media_type = f"{ {'file': 'application'}.get(kind, kind) }/{form}"
    others = {**(around or {}), **value}
    named = {kind, *_OF_A_MEDIUM, "format", "image_url"}
    attributes = {k: v for k, v in others.items() if k not in named}
    if isinstance(source, bytes):
        return Media(made, data=source, media_type=media_type, attributes=attributes)
    if not isinstance(source, str):
        raise ValidationError(f"the {kind} of {where} has no address and no bytes")
    return _at(made, source, attributes, media_type)


def _at(
    kind: Literal["image", "audio", "video", "file"],
    url: str,
    attributes: Mapping[str, Any],
    media_type: str = "",
) -> Media:
    found = data_url(url)
    if found is None:
        return Media(kind, url, media_type=media_type, attributes=attributes)
    return Media(kind, data=found[1], media_type=found[0], attributes=attributes)


def data_url(url: str) -> tuple[str, bytes] | None:
    """The media type and the bytes of a `data:` address in Base64; `None` for any other."""
    if not url.startswith("data:"):
        return None
    head, comma, body = url[5:].partition(",")
    media_type, base, _ = head.partition(";base64")
    if not comma or not base:
        return None
    try:
        return media_type, base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return None


def _decoded(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValidationError(f"the bytes of {where} are not Base64") from None
