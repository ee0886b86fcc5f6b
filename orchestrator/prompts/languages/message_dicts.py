"""Messages and media that are given as values: dicts of chat APIs, of Converse and of Prompty."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from orchestrator.errors import ValidationError
from orchestrator.prompts.languages.base import (
    Content,
    Media,
    MediaKind,
    Rendered,
    RenderedMessage,
    TextContent,
    Thread,
    ToolResult,
    ToolUse,
    origin_of,
)
from orchestrator.support.safe_json import read_json

# What chat APIs, Converse and Prompty call a medium.
MEDIA_KINDS = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "audio": "audio",
    "input_audio": "audio",
    "video": "video",
    "file": "file",
    "document": "file",
}
_SOURCES = ("source", "url", "data", "bytes", "file_data")
_OF_A_MEDIUM = ("kind", "type", *_SOURCES, "mediaType", "media_type")


def parse_messages(value: Sequence[Any], name: str) -> Iterator[RenderedMessage | Thread]:
    """The messages of a thread: dicts with `role` and `content`, or rendered messages.

    `name` is the input: it names them in errors and as the origin of their texts.
    """
    for at, one in enumerate(value):
        if isinstance(one, RenderedMessage | Thread):
            yield one
        elif isinstance(one, Mapping):
            yield _parse_message(one, f"{name}[{at}]", origin_of(name))
        else:
            message = f"{name}[{at}] is no message"
            raise ValidationError(f"{message}: give dicts with 'role' and 'content'")


# The name of the member, as Semantic Kernel has it, that lets a value instruct the model.
ALLOW = "allow_dangerously_set_content"
INSTRUCTING = ("system", "developer")


def find_instruction(messages: Iterable[Any]) -> tuple[int, str] | None:
    """The first message whose role would instruct the model: its place, and the role.

    What instructs is the author's to say. A value may only where the author allows it (`ALLOW`).
    """
    for at, one in enumerate(messages):
        role = one.get("role") if isinstance(one, Mapping) else getattr(one, "role", None)
        if isinstance(role, str) and role.strip().lower() in INSTRUCTING:
            return at, role
    return None


def describe_instruction(name: str, at: int, role: str) -> str:
    """Why a message of a value is refused, and the way out."""
    return (
        f"{name}[{at}] has the role {role[:40]!r}, and only the template's author may instruct the "
        f"model; leave such messages out, or write {ALLOW}: true beside the input {name!r} where "
        "all who give it are trusted"
    )


def _parse_message(message: Mapping[str, Any], where: str, origin: str) -> RenderedMessage:
    role = message.get("role", "user")
    if not isinstance(role, str):
        raise ValidationError(f"the role of {where} must be a text")
    content = message.get("content", message.get("parts"))
    attributes = {k: v for k, v in message.items() if k not in ("role", "content", "parts")}
    if content is None:
        return RenderedMessage(role, (), attributes)
    if isinstance(content, str):
        return RenderedMessage(role, (TextContent(((origin, content),)),), attributes)
    if not isinstance(content, list | tuple):
        content = [content]
    return RenderedMessage(
        role, tuple(_parse_content(one, where, origin) for one in content), attributes
    )


def _parse_content(one: Any, where: str, origin: str) -> Content:
    if isinstance(one, TextContent | Media | ToolUse | ToolResult):
        return one
    if isinstance(one, str):
        return TextContent(((origin, one),))
    if not isinstance(one, Mapping):
        raise ValidationError(f"the content of {where} must be texts and dicts")
    kind = one.get("type")
    # Anthropic's Messages have `type`, Converse has a member of the name.
    if kind == "tool_use" or "toolUse" in one:
        use = _check_map(one if kind == "tool_use" else one["toolUse"], "call", where)
        id = _get_text(use, where, "toolUseId", "id")
        return ToolUse(id, _get_text(use, where, "name"), use.get("input", {}))
    if kind == "tool_result" or "toolResult" in one:
        return _parse_tool_result(
            one if kind == "tool_result" else one["toolResult"], where, origin
        )
    if "tool_call" in one:
        return parse_tool_use(one["tool_call"], where)
    return _parse_text_or_media(one, where, origin)


def _parse_tool_result(given: Any, where: str, origin: str) -> ToolResult:
    result = _check_map(given, "result", where)
    content = result.get("content") or ()
    items = content if isinstance(content, list | tuple) else [content]
    parsed = [_parse_content(it, where, origin) for it in items]
    shown = tuple(it for it in parsed if isinstance(it, TextContent | Media))
    return ToolResult(_get_text(result, where, "toolUseId", "tool_use_id"), "", shown)


def _check_map(value: Any, what: str, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValidationError(f"the {what} of {where} must be a dict")
    return value


def _get_text(members: Mapping[str, Any], where: str, *names: str) -> str:
    found = next((members[name] for name in names if name in members), "")
    if not isinstance(found, str | int):
        raise ValidationError(f"{names[0]!r} of {where} must be a text")
    return str(found)


def _parse_text_or_media(one: Mapping[str, Any], where: str, origin: str) -> Content:
    kind = one.get("kind", one.get("type"))
    kind = kind or next((it for it in ("image", "document", "video") if it in one), "text")
    if isinstance(kind, str) and kind in MEDIA_KINDS:
        inner = one.get(kind, one)
        return parse_media(inner, MEDIA_KINDS[kind], where, one)
    text = one.get("text", one.get("value"))
    if text is None and "guardContent" in one:
        guarded = _check_map(one["guardContent"], "content", where)
        text = _check_map(guarded.get("text"), "text", where)["text"]
    if text is None and (kind == "json" or "json" in one):
        text = json.dumps(one.get("json"), ensure_ascii=False, default=str)
    if not isinstance(text, str):
        members = ", ".join(map(repr, one)) if kind == "text" else repr(kind)
        raise ValidationError(f"the content of {where} has {members}, which is not understood")
    return TextContent(((origin, text),))


def parse_tool_use(call: Any, where: str = "a message") -> ToolUse:
    """A call as chat APIs have it: `id` and `function` with `name` and `arguments`."""
    call = _check_map(call, "call", where)
    function = _check_map(call.get("function") or call, "function", where)
    given = function.get("arguments", function.get("input", {}))
    if isinstance(given, str):
        try:
            given = read_json(given)
        except (ValueError, RecursionError):
            pass
    return ToolUse(_get_text(call, where, "id"), _get_text(function, where, "name"), given)


def parse_media(
    value: Any, kind: str, where: str, around: Mapping[str, Any] | None = None
) -> Media:
    """A medium, from its address, its bytes, or a dict of Prompty, a chat API or Converse.

    Other members of the dict, and of the dict `around` it, are its attributes.
    """
    media_kind = cast(MediaKind, kind)
    if isinstance(value, Media):
        return value
    if isinstance(value, str | bytes):
        return _make_media(media_kind, value, {})
    if not isinstance(value, Mapping):
        raise ValidationError(f"the {kind} of {where} must be an address, bytes or a dict")
    source, described = _get_source(value, f"{kind} of {where}")
    media_type = str(described.get("mediaType", described.get("media_type", "")) or "")
    if value.get("format") and not media_type:
        media_type = f"{ {'file': 'application'}.get(kind, kind) }/{value['format']}"
    others = {**(around or {}), **value}
    named = {kind, *_OF_A_MEDIUM, "format", "image_url"}
    attributes = {k: v for k, v in others.items() if k not in named}
    return _make_media(media_kind, source, attributes, media_type)


def _get_source(value: Mapping[str, Any], what: str) -> tuple[str | bytes, Mapping[str, Any]]:
    # The second value is the dict that has the media type: Converse and Anthropic nest the source.
    name = next((it for it in _SOURCES if it in value), "")
    source, described = value.get(name), value
    if isinstance(source, Mapping):  # Converse's, or Anthropic's
        inner: Mapping[str, Any] = source
        location = inner.get("s3Location")
        if isinstance(location, Mapping):
            return _check_address(location.get("uri"), what), value
        name = next((it for it in (*_SOURCES, "text") if it in inner), "")
        source, described = inner.get(name), {**inner, **value}
    if isinstance(source, bytes):
        return source, described
    source = _check_address(source, what)
    if name == "text":
        return source.encode(), described
    encoded = name in ("data", "bytes") or bool(value.get("format"))
    if encoded and "://" not in source and not source.startswith("data:"):
        data = _decode_base64(source)
        if data is None:
            raise ValidationError(f"the bytes of the {what} are not Base64")
        return data, described
    return source, described


def _check_address(source: Any, what: str) -> str:
    if not isinstance(source, str):
        raise ValidationError(f"the {what} has no address and no bytes")
    return source


def _make_media(
    kind: MediaKind, source: str | bytes, attributes: Mapping[str, Any], media_type: str = ""
) -> Media:
    if isinstance(source, str):
        found = parse_data_url(source)
        if found is None:
            return Media(kind, source, media_type=media_type, attributes=attributes)
        media_type, source = found
    return Media(kind, data=source, media_type=media_type, attributes=attributes)


def parse_data_url(url: str) -> tuple[str, bytes] | None:
    """The media type and the bytes of a `data:` address in Base64; `None` for any other."""
    if not url.startswith("data:"):
        return None
    head, comma, body = url[5:].partition(",")
    media_type, base, _ = head.partition(";base64")
    if not comma or not base:
        return None
    data = _decode_base64(body)
    return None if data is None else (media_type, data)


def _decode_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def as_dicts(rendered: Rendered) -> list[dict[str, Any]]:
    """The messages of a rendering; see `Rendered.as_dicts`."""
    if not rendered.parts:
        return [_to_chat_dict(one) for one in rendered.messages]
    return [
        {"role": one.role, "content": [*map(_part, one.content)], "metadata": dict(one.attributes)}
        for one in rendered.messages
    ]


def to_url(medium: Media) -> str:
    """Where a medium is: its address, or all of it as a `data:` address."""
    if not medium.data:
        return medium.url
    body = base64.b64encode(medium.data).decode("ascii")
    return f"data:{medium.media_type or 'application/octet-stream'};base64,{body}"


def _part(one: Content) -> dict[str, Any]:
    if isinstance(one, TextContent):
        return {"kind": "text", "value": one.text}
    if isinstance(one, Media):
        made: dict[str, Any] = {"kind": one.kind, "source": to_url(one)}
        if one.media_type:
            made["mediaType"] = one.media_type
        return {**one.attributes, **made}
    return _block(one)


def _to_chat_dict(message: RenderedMessage) -> dict[str, Any]:
    attributes = dict(message.attributes)
    if any(isinstance(one, ToolUse) for one in message.content):
        attributes.pop("type", None)
    ids = [one.id for one in message.content if isinstance(one, ToolResult) and one.id]
    if ids:
        # Chat APIs know the tool by the call's id, and refuse a name beside it.
        attributes.pop("name", None)
    if len(ids) == 1:
        attributes.setdefault("tool_call_id", ids[0])
    return {"role": message.role, **attributes, "content": _content(message.content)}


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
