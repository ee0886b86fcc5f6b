"""The records of a turn's intents, actions, branches and end, and the values that they hold."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.actions.base import ActionResult, Call
from orchestrator.engine.effects import Branch
from orchestrator.engine.results import Answer, ControlReturn, Failure, Refusal
from orchestrator.sessions import Record

STOPPED = "cancelled"
"""The stop reason of a branch that was stopped, by its turn's end or because of another one."""


def build_intent(calls: Sequence[Call]) -> Record:
    """The `intent` record of calls that are about to be carried out."""
    begun = [{"id": call.id, "key": call.key, "name": call.operation.xml_name} for call in calls]
    return {"kind": "intent", "calls": begun}


def build_branch_intent(branch: Branch, key: str) -> Record:
    """The `intent` record of a remote collaborator that is about to be asked."""
    return {"kind": "intent", "calls": [{"id": branch.id, "key": key, "name": branch.team}]}


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


def build_unknown_record(call: Call, at: int) -> Record:
    """The record of a call that was begun, and of which nobody knows whether it took effect."""
    return {
        "kind": "action",
        "id": call.id,
        "text": f"nobody knows whether {call.operation.xml_name!r} (idempotency key {call.key!r}) "
        "took effect: the process stopped while it ran. It was not run again; look at the system "
        "that it acts on",
        "state": "FAILURE",
        "error": "ActionOutcomeUnknown",
        "stopped": True,  # by its caller, by the end of its process, or by another question
        "began": at,
        "ended": at,
    }


def build_stopped_record(branch: Branch, at: int) -> Record:
    """The record of a branch that was stopped, or was not begun."""
    return {
        "kind": "branch",
        "id": branch.id,
        "result": "failure",
        "text": "",
        "stop_reason": STOPPED,
        "error": "OrchestratorError",
        "message": "the turn was stopped",
        "usage": (0, 0, 0),
        "began": at,
        "ended": at,
    }


def build_branch_record(
    branch: Branch,
    result: Answer | Refusal | Failure,
    *,
    path: str,
    name: str,
    before: int,
    usage: tuple[int, int, int],
    began: int,
    ended: int,
) -> Record:
    """The record of a branch's end, in the turn at `path`.

    `name` is the collaborator's in the team; `before` is how many messages its history had.
    """
    return {
        **build_end_record(result, ended),
        "kind": "branch",
        "branch": path,
        "id": branch.id,
        "name": name,
        "asked": branch.message,
        "before": before,
        "usage": usage,
        "began": began,
        "ended": ended,
    }


def build_suspend_record(control: ControlReturn, at: int) -> Record:
    """The record of a turn that waits for its caller's results, or for somebody's decision."""
    record: Record = {
        "kind": "suspend",
        "invocation_id": control.invocation_id,
        "inputs": control.invocation_inputs,
        "at": at,
    }
    if control.branch:
        record["waits"] = control.branch
    if control.undecided:
        record["undecided"] = list(control.undecided)
    return record


def build_end_record(result: Answer | Refusal | Failure, now: int) -> Record:
    """The record of a turn's end."""
    if isinstance(result, Failure):
        cut = {"cut": True} if result.begun and result.code == "seconds" else {}
        return {
            **cut,
            "kind": "end",
            "result": "failure",
            "at": now,
            "text": "",
            "stop_reason": result.code or "failure",
            "error": type(result.error).__name__,
            "message": result.error.message,
        }
    record: Record = {
        "kind": "end",
        "result": "answer" if isinstance(result, Answer) else "refusal",
        "at": now,
        "text": result.text,
        "stop_reason": result.stop_reason,
    }
    if isinstance(result, Answer):
        if result.citations:
            record["citations"] = result.citations
        if result.pending is not None:
            record["pending"] = result.pending
    return record


def encode_file(file: Mapping[str, Any]) -> dict[str, Any]:
    """A file as a record has it: its bytes in Base64."""
    return {**file, "bytes": base64.b64encode(file["bytes"]).decode()}


def decode_file(file: Mapping[str, Any]) -> dict[str, Any]:
    """A file of a record, with its bytes."""
    return {**file, "bytes": base64.b64decode(file["bytes"])}
