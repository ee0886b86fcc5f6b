"""What users and models have written, as attributes of spans: only where that was asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from orchestrator.engine.telemetry import names
from orchestrator.support.logs import get_logger

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_log = get_logger("orchestrator.telemetry")

_IN_SPANS = ("SPAN_ONLY", "SPAN_AND_EVENT")
# Characters of an attribute: a backend drops spans that are too large.
_LONGEST = 65_536


def capture(span: Span, describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `describe` gives, if a span may have it; what cannot be described fails no turn."""
    if not _captures_content() or not span.is_recording():
        return {}
    try:
        return describe()
    except Exception as error:
        _log.warning("the content of a span could not be described: %s", type(error).__name__)
        return {}


def _captures_content() -> bool:
    # OpenTelemetry's two variables; its own instrumentations want both, too.
    wanted = os.environ.get(names.CAPTURE_CONTENT, "").strip().upper()
    if wanted not in _IN_SPANS:
        return False
    if names.EXPERIMENTAL in os.environ.get(names.STABILITY, "").replace(" ", "").split(","):
        return True
    _warn_once()
    return False


@cache
def _warn_once() -> None:
    _log.warning(
        "%s is set, but nothing is captured: it takes %s=%s besides",
        names.CAPTURE_CONTENT,
        names.STABILITY,
        names.EXPERIMENTAL,
    )


def to_text(value: Any) -> str:
    """A value as JSON, or a text as it is, cut to what an attribute may hold."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def render_messages(messages: Iterable[tuple[str, Sequence[Mapping[str, Any]]]]) -> str:
    """Messages of roles and Converse's blocks, in the shape of OpenTelemetry's conventions."""
    return to_text(
        [
            {"role": role, "parts": [_render_block(one) for one in blocks]}
            for role, blocks in messages
        ]
    )


def _render_block(block: Mapping[str, Any]) -> dict[str, Any]:
    if "text" in block:
        return {"type": "text", "content": block["text"]}
    if "toolUse" in block:
        use = block["toolUse"]
        called = {"id": use.get("toolUseId"), "name": use.get("name")}
        return {"type": "tool_call", **called, "arguments": use.get("input")}
    if "toolResult" in block:
        result = block["toolResult"]
        return {
            "type": "tool_call_response",
            "id": result.get("toolUseId"),
            "response": result.get("content"),
        }
    # Documents, images and the like, of which only the kind is told.
    return {"type": next(iter(block), "empty")}
