"""What a parser makes of a reply, where its `model` record leaves that out.

Most replies are usual ones (`is_usual`), whose blocks say all. A process that keeps its sessions in
memory has them parsed when somebody asks: that is six containers a step less to make, and to keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.parsers.orchestration import Orchestration
from orchestrator.sessions.journal import Record


def response_of(record: Record) -> dict[str, Any]:
    """The `response` member of a `model` record; made of its `content` if it has none."""
    if "response" not in record:
        # Every parser that expects native calls makes the same of a usual reply.
        return Orchestration("tool_use").finish(record["content"]).response
    response: dict[str, Any] = record["response"]
    return response


def add_responses(records: Sequence[Any]) -> None:
    """Gives `model` records the member that they lack, as journals have it.

    What is no such record stays as it is: whoever reads it says what is wrong with it.
    """
    for record in records:
        if isinstance(record, dict) and "response" not in record and record.get("kind") == "model":
            if isinstance(record.get("content"), list):
                record["response"] = response_of(record)
