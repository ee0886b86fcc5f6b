"""What the tests of actions share."""

from __future__ import annotations

from typing import Any

from orchestrator.actions import ActionGroup, ActionResult, Call, CallContext, Catalog

SECRET = "canary-7f3a"


def context(**changes: Any) -> CallContext:
    made = {
        "agent": {"name": "claims", "id": "AGENT12345", "alias": "TSTALIASID", "version": "DRAFT"},
        "session_id": "s-1",
        "input_text": "Which claims are open?",
        "session_attributes": {"employeeId": "E-1"},
        "prompt_session_attributes": {"language": "en"},
        "max_bytes": 10_000,
    }
    return CallContext(**{**made, **changes})


def catalog(*actions: Any, **group: Any) -> Catalog:
    return Catalog([ActionGroup("tools", list(actions), **group)])


def run(
    group: ActionGroup | Catalog, name: str, _context: CallContext | None = None, **arguments: Any
) -> ActionResult:
    """Finds, validates and carries out a call, as a turn does."""
    found = group if isinstance(group, Catalog) else Catalog([group])
    operation = found.find("", name)
    assert operation is not None
    values, problems = found.validate(operation, arguments)
    assert problems == []
    return found.executor(operation).call(
        Call("c-1", operation, values, "key-1"), _context or context()
    )
