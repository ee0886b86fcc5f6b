"""Deleting what past prompts were made of when no session needs it any more."""

from __future__ import annotations

from typing import Any

from orchestrator.sessions.journal import SessionStore

# A process that knows that a snapshot is kept does not look again for an hour (`Sessions.plans`).
# The second hour is for clocks that differ, and for a turn between the look and its first record.
IDLE_SECONDS = 2 * 3600.0


def delete_unused_plans(store: SessionStore) -> int:
    """Deletes the snapshots of plans that no turn in the store names; how many.

    All journals are read for that. One that a process has kept in the last two hours stays: the
    process may begin a turn that names it at any moment, and has it kept again every hour while it
    takes turns.

    Raises:
        DependencyFailed: A journal cannot be read, so that nobody knows what it names; nothing was
            deleted then.
    """
    keeper: Any = store
    if not (hasattr(keeper, "list_plans") and hasattr(keeper, "delete_plan")):
        return 0
    unused = set(keeper.list_plans())
    for info in store.list() if unused else ():
        unused -= {record.get("plan") for record in store.load(info.key)}
    return sum(bool(keeper.delete_plan(digest, IDLE_SECONDS)) for digest in unused)
