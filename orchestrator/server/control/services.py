"""What the handlers of agents' operations share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.server.agents.cleanup import AgentCleanup
from orchestrator.server.agents.prompts import Prompts
from orchestrator.server.agents.registry import Agents
from orchestrator.server.agents.store import AgentStore
from orchestrator.server.control.tags import Tags
from orchestrator.server.document_store import Page, paginate
from orchestrator.server.operations import Fault, Request

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Services:
    """What the handlers work with."""

    agents: Agents
    cleanup: AgentCleanup  # deletes what deleted agents leave behind
    prompts: Prompts
    tags: Tags

    @property
    def store(self) -> AgentStore:
        """Where agents are stored."""
        return self.agents.store

    def run_once(self, request: Request, make: Callable[[], Data]) -> dict[str, Any]:
        """Carries a request out once for its client token, in one transaction."""
        return self.store.documents.run_once(
            request.caller.tenant,
            request.operation,
            request.params.get("clientToken"),
            request.params,
            make,
        )


Handling = Callable[[Services, Request], Data]
"""Carries an operation out."""


def pick(members: Data, names: Sequence[str]) -> dict[str, Any]:
    """The members of these names that are there."""
    return {name: members[name] for name in names if members.get(name) is not None}


def check_quota(count: int, most: int, what: str) -> None:
    """Refuses one more than there may be."""
    if count >= most:
        raise Fault(
            "ServiceQuotaExceededException",
            f"there are {count} {what}, and the most are {most}; delete one first",
        )


def add_sort_keys(parts: Sequence[Data], names: Sequence[str]) -> list[tuple[Sequence[Any], Data]]:
    """Members of an agent's parts, each with what orders them: when they were made.

    Those of a folder were all made at once, and stay in the folder's order.
    """
    return [
        ((it["createdAt"].timestamp(), place), pick(it, names)) for place, it in enumerate(parts)
    ]


def build_page(
    found: Sequence[tuple[Sequence[Any], Data]], request: Request, member: str
) -> dict[str, Any]:
    """One page of a list as an answer."""
    params = request.params
    path = (params.get("agentId", ""), params.get("agentVersion", ""))
    scope = "\0".join((request.caller.tenant, request.operation, *path))
    page: Page[Data] = paginate(found, params.get("maxResults"), params.get("nextToken"), scope)
    items, token = page
    return {member: items, **({"nextToken": token} if token else {})}
