"""What the backends that speak JSON over HTTP share: encoding, tool arguments, names, errors."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

from orchestrator.errors import DependencyFailed, ValidationError
from orchestrator.message import Message, make_json_encoder
from orchestrator.support.safe_json import json_or, read_json


def _base64(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"a {type(value).__name__} cannot be part of a message")


# Compact JSON; bytes become base64, as in AWS's JSON protocols.
encode: Callable[[Any], str] = make_json_encoder(_base64, (",", ":"))


def encode_cached(message: Message, encoder: Callable[[Message], str]) -> str:
    """`message` as `encoder` writes it, made once; a plain dict is encoded each time."""
    if isinstance(message, Message):
        return message.encode_with(encoder)
    return encoder(message)


def build_interrupted_error(
    model_id: str, error: Exception | None = None, address: str = ""
) -> DependencyFailed:
    """The stream ended before the reply did; `address` is its server's, where one was chosen."""
    what = f" ({type(error).__name__})" if error else ""
    where = f" at {address}" if address else ""
    return DependencyFailed(
        f"the stream of the model {model_id!r}{where} broke off before the reply's end{what}",
        resource=model_id,
    )


_REFUSED = re.compile(r"[^a-zA-Z0-9_-]")


def tool_name(name: str) -> str:
    """`name` with what providers refuse in tool names replaced by `_`."""
    # Models invent names; one that a provider refuses would make every later request of the
    # conversation fail (Bedrock and OpenAI: `[a-zA-Z0-9_-]{1,64}`).
    return _REFUSED.sub("_", name)[:64] or "_"


def check_tool_name(name: str, protocol: str) -> None:
    """Raises `ValidationError` for the name of an offered tool that providers would refuse."""
    if name != tool_name(name):
        raise ValidationError(
            f"the tool name {name!r} cannot be sent: {protocol} up to 64 letters, digits, '_' and "
            "'-'; shorten or rename the action group or the operation"
        )


def decode(text: bytes | bytearray) -> Any:
    """The JSON value in `text`; a `ValueError` when it is none, or is nested too deeply."""
    try:
        return read_json(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def decode_object(text: bytes) -> dict[str, Any]:
    """The JSON object in `text`; a `ValueError` when it is none."""
    value = decode(text)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def tool_input(raw: str) -> Any:
    """The arguments of a streamed tool call: an object, or `raw` itself when it is not one."""
    if not raw.strip():
        return {}
    value = json_or(raw, None)
    return value if isinstance(value, dict) else raw
