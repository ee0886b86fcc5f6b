"""What a parser made of a reply, where its `model` record leaves that out.

Of nearly every reply it follows from the reply's blocks. A process that keeps its sessions in
memory makes it when somebody asks: six containers a step less to make, and to keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.parsers.orchestration import build_usual_response
from orchestrator.sessions.journal import Record


def response_of(record: Record) -> dict[str, Any]:
    """The `response` member of a `model` record; made of its `content` if it has none."""
    response: dict[str, Any] | None = record.get("response")
    return build_usual_response(record["content"]) if response is None else response


def add_responses(records: Sequence[Record]) -> None:
    """Gives `model` records the member that they lack, as journals have it."""
    for record in records:
        if record["kind"] == "model" and "response" not in record:
            record["response"] = response_of(record)
