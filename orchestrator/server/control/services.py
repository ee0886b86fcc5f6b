"""What the handlers of agents' operations share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from orchestrator.server.agents.cleanup import AgentCleanup
from orchestrator.server.agents.prompts import Prompts
from orchestrator.server.agents.registry import Agents
from orchestrator.server.agents.store import AgentStore, Record
from orchestrator.server.control.tags import Tags
from orchestrator.server.document_store import paginate, render_page
from orchestrator.server.operations import Request

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

    @contextmanager
    def edit_draft(self, request: Request) -> Iterator[Record]:
        """One change of an agent's `DRAFT`, which has to be prepared then; a transaction.

        Raises:
            Fault: There is no such agent, or it is defined in a folder.
        """
        with self.store.documents.transaction():
            record = self.store.get_editable(request.caller, request.params["agentId"])
            yield record
            self.store.touch(request.caller, record)


Handling = Callable[[Services, Request], Data]
"""Carries an operation out."""


def build_page(
    found: Sequence[tuple[Sequence[Any], Data]], request: Request, member: str
) -> dict[str, Any]:
    """One page of a list, whose items come with what orders them, as an answer."""
    params = request.params
    path = (params.get("agentId", ""), params.get("agentVersion", ""))
    scope = "\0".join((request.caller.tenant, request.operation, *path))
    page = paginate(found, params.get("maxResults"), params.get("nextToken"), scope)
    return render_page(member, page)
