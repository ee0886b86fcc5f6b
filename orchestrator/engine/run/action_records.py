"""The journal record of an action's result, and the result again."""

from __future__ import annotations

from orchestrator.actions.base import ActionResult, Call
from orchestrator.engine.run.invocation import decode_file
from orchestrator.engine.run.outcomes import encode_file
from orchestrator.sessions import Record


def action_record(call: Call, result: ActionResult, began: int, ended: int) -> Record:
    """The journal record of an action's result."""
    record: Record = {
        "kind": "action",
        "id": call.id,
        "text": result.text,
        "began": began,
        "ended": ended,
    }
    if result.state:
        record["state"] = result.state
    if result.session_attributes is not None:
        record["attributes"] = result.session_attributes
    if result.prompt_session_attributes is not None:
        record["prompt_attributes"] = result.prompt_session_attributes
    if result.knowledge_bases:
        record["retrieval"] = dict(result.knowledge_bases)
    if result.notes:
        record["notes"] = list(result.notes)
    if result.files:
        record["files"] = [encode_file(file) for file in result.files]
    if result.details:
        record["details"] = dict(result.details)
    return record


def read_action_result(record: Record) -> ActionResult:
    """The result that an `action_record` was made of, but for its HTTP status."""
    return ActionResult(
        record["text"],
        record.get("state") or "",
        record.get("attributes"),
        record.get("prompt_attributes"),
        notes=tuple(record.get("notes", ())),
        files=tuple(map(decode_file, record.get("files", ()))),
        details=record.get("details"),
        knowledge_bases=record.get("retrieval"),
    )
