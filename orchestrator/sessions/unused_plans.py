"""Deleting what past prompts were made of when no session needs it any more."""

from __future__ import annotations

from typing import Any

from orchestrator.sessions.journal import SessionStore


def delete_unused_plans(store: SessionStore) -> int:
    """Deletes the snapshots of plans that no turn in the store names; how many.

    All journals are read for that. A process that still has such an agent keeps it again with the
    first session that it reads more than an hour later (`Sessions.plans`). Prompts of turns that
    it began before are shown with the templates of today until then.

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
    for digest in unused:
        keeper.delete_plan(digest)
    return len(unused)
