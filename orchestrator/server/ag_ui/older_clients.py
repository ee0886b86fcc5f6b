"""Events for clients that speak no version of AG-UI: `@ag-ui/client` up to 0.0.59.

The oldest of them end a run at an event that they do not know. They know reasoning as `THINKING_…`,
and nothing of other agents, whose work is told as `CUSTOM` events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_THINKING = {
    "REASONING_START": "THINKING_START",
    "REASONING_MESSAGE_START": "THINKING_TEXT_MESSAGE_START",
    "REASONING_MESSAGE_CONTENT": "THINKING_TEXT_MESSAGE_CONTENT",
    "REASONING_MESSAGE_END": "THINKING_TEXT_MESSAGE_END",
    "REASONING_END": "THINKING_END",
}
_UNKNOWN = ("SUBAGENT_STARTED", "SUBAGENT_FINISHED", "SUBAGENT_ERROR")


def to_older(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event as older clients know it; most are the same."""
    kind = event["type"]
    if kind in _THINKING:
        kept = {"delta": event["delta"]} if "delta" in event else {}
        return {"type": _THINKING[kind], **kept}
    if kind in _UNKNOWN:
        value = {name: member for name, member in event.items() if name != "type"}
        return {"type": "CUSTOM", "name": kind, "value": value}
    return dict(event)
