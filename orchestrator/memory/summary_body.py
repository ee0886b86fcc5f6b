"""A summary's topics and text as one text, as databases of several machines keep it."""

from __future__ import annotations

import json
from typing import Any

from orchestrator.memory.base import SessionSummary
from orchestrator.memory.stores import read_topics
from orchestrator.message import clean
from orchestrator.support.safe_json import json_or


def encode_body(summary: SessionSummary) -> str:
    """Topics and text as JSON in ASCII."""
    topics = [dict(topic) for topic in summary.topics]
    return json.dumps({"topics": topics, "text": clean(summary.text)})


def decode_summary(
    memory_id: str, session_id: str, started: Any, expires: Any, body: Any
) -> SessionSummary | None:
    """The summary that was kept; `None` for what this program did not write."""
    if not isinstance(started, int) or not isinstance(expires, int | None):
        return None
    match json_or(body, None) if isinstance(body, str) else None:
        case {"topics": written, "text": str(text), **rest} if not rest:
            topics = read_topics(written)
            if topics is not None:
                return SessionSummary(memory_id, session_id, started, expires, topics, text)
    return None
