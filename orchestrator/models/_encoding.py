"""What the backends that speak JSON over HTTP share: encoding, tool arguments, names."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any

from orchestrator.message import Message
from orchestrator.support.safe_json import json_or


def _base64(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"a {type(value).__name__} cannot be part of a message")


def blob(value: str | bytes) -> bytes:
    """Bytes that may have come as base64 text."""
    return base64.b64decode(value) if isinstance(value, str) else value


# Compact JSON; bytes become base64, as in AWS's JSON protocols.
encode: Callable[[Any], str] = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), default=_base64
).encode


def encode_cached(message: Message, encoder: Callable[[Message], str]) -> str:
    """`message` as `encoder` writes it, made once; a plain dict is encoded each time."""
    if isinstance(message, Message):
        return message.encode_with(encoder)
    return encoder(message)


_REFUSED = re.compile(r"[^a-zA-Z0-9_-]")


def tool_name(name: str) -> str:
    """`name` with what providers refuse in tool names replaced by `_`."""
    # Models invent names; one that a provider refuses would make every later request of the
    # conversation fail (Bedrock and OpenAI: `[a-zA-Z0-9_-]{1,64}`).
    return _REFUSED.sub("_", name)[:64] or "_"


def tool_input(raw: str) -> Any:
    """The arguments of a streamed tool call: an object, or `raw` itself when it is not one."""
    if not raw.strip():
        return {}
    value = json_or(raw, None)
    return value if isinstance(value, dict) else raw
