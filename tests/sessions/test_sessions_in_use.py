"""Whose sessions a process uses at the moment."""

from __future__ import annotations

from orchestrator import Sessions
from orchestrator.sessions import NEVER


def test_those_of_a_tenant_are_not_those_of_the_agent_without_one() -> None:
    sessions = Sessions()
    session = sessions.acquire("AGENT/ALIAS/tenant/s-1", NEVER)
    owners = ("AGENT/ALIAS/tenant", "AGENT/ALIAS", "AGENT", "AGENT/ALIAS/ten")
    assert [sessions.uses(it) for it in owners] == [True, False, False, False]
    sessions.release(session)
    assert not sessions.uses("AGENT/ALIAS/tenant")
