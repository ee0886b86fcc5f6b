"""Where agents and their parts are: read from documents or folders, written to documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from orchestrator.server.agents.folders import FolderAgent, Folders
from orchestrator.server.agents.kinds import COLLABORATOR, KINDS, PartKind
from orchestrator.server.agents.to_api import to_api
from orchestrator.server.document_store import DocumentStore, digest
from orchestrator.server.ids import DRAFT, Arns, now
from orchestrator.server.operations import Caller, conflict_error, not_found_error

AGENT = "agent"
VERSION = "agent-version"
ALIAS = "agent-alias"
SNAPSHOT = "agent-snapshot"
HEAD = "agent-head"

PREPARING_SECONDS = 1.0
"""How long an agent shows as PREPARING, though it is prepared at once: some clients wait for it."""

Data = Mapping[str, Any]


@dataclass(slots=True)
class Record:
    """An agent as it is edited."""

    agent: dict[str, Any]  # the members of GetAgent's `agent`, as far as they are known
    latest: int = 0  # the number of its latest version; 0 without one
    folder: FolderAgent | None = None  # where it is defined, and cannot be changed
    # Until when it shows as being prepared, in seconds since 1970
    preparing_until: float = 0.0


@dataclass(frozen=True, slots=True)
class Head:
    """The digest and the team of one snapshot of an agent."""

    digest: str  # changes with anything in it
    team: list[str] = field(default_factory=list)  # the ARNs of the aliases that it leads


class AgentStore:
    """Agents, their parts, versions and aliases; each tenant sees its own, and the folders'."""

    def __init__(self, documents: DocumentStore, folders: Folders, arns: Arns) -> None:
        self.documents = documents
        self.arns = arns
        self.folders = folders
        self.preparing_seconds = PREPARING_SECONDS

    def agent(self, caller: Caller, agent_id: str) -> Record:
        """An agent.

        Raises:
            Fault: ResourceNotFoundException, when the caller has none with this id.
        """
        defined = self.folders.find(agent_id)
        if defined is not None:
            return Record(dict(to_api(defined).agent), folder=defined)
        found = self.documents.get(caller.tenant, AGENT, agent_id)
        if found is None:
            raise not_found_error("agent", agent_id)
        until = found.get("preparingUntil", 0.0)
        return Record(found["agent"], found["latest"], preparing_until=until)

    def has(self, caller: Caller, agent_id: str) -> bool:
        """Whether the caller has made an agent with this id."""
        return self.documents.get(caller.tenant, AGENT, agent_id) is not None

    def get_editable(self, caller: Caller, agent_id: str) -> Record:
        """An agent that may be changed.

        Raises:
            Fault: There is none, or it is defined in a folder.
        """
        defined = self.folders.find(agent_id)
        if defined is not None:
            raise conflict_error(
                f"the agent {agent_id!r} is defined in {str(defined.file)!r} of the server, and is "
                "changed by editing that file"
            )
        return self.agent(caller, agent_id)

    def agents(self, caller: Caller) -> list[tuple[tuple[Any, ...], Record]]:
        """All agents that the caller has, each with what orders them."""
        found: list[tuple[tuple[Any, ...], Record]] = [
            ((0, 0.0, it.agent_id), Record(dict(to_api(it).agent), folder=it))
            for it in self.folders.all()
        ]
        for it in self.documents.all(caller.tenant, AGENT):
            agent = it["agent"]
            key = (1, agent["createdAt"].timestamp(), agent["agentId"])
            found.append((key, Record(agent, it["latest"])))
        return found

    def save(self, caller: Caller, record: Record) -> None:
        """Stores an agent."""
        agent = record.agent
        name = agent["agentName"]
        taken = (
            f"there is already an agent with the name {name!r}; choose another name, or update "
            "that agent"
        )
        if self.folders.has_name(name):
            raise conflict_error(taken)
        body = {"agent": agent, "latest": record.latest}
        if record.preparing_until:
            body["preparingUntil"] = record.preparing_until
        self.documents.put(caller.tenant, AGENT, agent["agentId"], body, name=name, taken=taken)

    def touch(self, caller: Caller, record: Record) -> None:
        """Stores that `DRAFT` was edited: it has to be prepared."""
        record.preparing_until = 0.0
        record.agent |= {"agentStatus": "NOT_PREPARED", "updatedAt": now()}
        record.agent.pop("failureReasons", None)
        self.save(caller, record)

    def remove(self, caller: Caller, agent_id: str) -> None:
        """Deletes an agent and all that belongs to it."""
        documents, tenant = self.documents, caller.tenant
        versions = [it["agentVersion"] for it in documents.all(tenant, VERSION, agent_id)]
        for version in (DRAFT, *versions):
            self.remove_version(caller, agent_id, version)
        documents.clear(tenant, ALIAS, agent_id)
        documents.delete(tenant, AGENT, agent_id)

    # Parts of a version.

    def check_version(self, caller: Caller, agent_id: str, version: str) -> Record:
        """The agent, which has that version."""
        record = self.agent(caller, agent_id)
        if version != DRAFT and (
            record.folder or not self.documents.get(caller.tenant, VERSION, version, agent_id)
        ):
            raise not_found_error(f"version of the agent {agent_id!r}", version)
        return record

    def parts(
        self, caller: Caller, kind: PartKind, agent_id: str, version: str
    ) -> list[dict[str, Any]]:
        """The parts of a version, in the order in which they were made."""
        record = self.check_version(caller, agent_id, version)
        if record.folder is not None:
            return list(to_api(record.folder).parts[kind.name])
        return self.documents.all(caller.tenant, kind.name, _parent_key(agent_id, version))

    def part(
        self, caller: Caller, kind: PartKind, agent_id: str, version: str, id: str
    ) -> dict[str, Any]:
        """One part."""
        record = self.check_version(caller, agent_id, version)
        found: dict[str, Any] | None
        if record.folder is not None:
            parts = to_api(record.folder).parts[kind.name]
            found = next((dict(it) for it in parts if it[kind.id] == id), None)
        else:
            found = self.documents.get(caller.tenant, kind.name, id, _parent_key(agent_id, version))
        if found is None:
            raise not_found_error(f"{kind.title} of the agent {agent_id!r}", id)
        return found

    def save_part(self, caller: Caller, kind: PartKind, part: Data) -> None:
        """Stores a part of `DRAFT`."""
        parent = _parent_key(part["agentId"], DRAFT)
        name = part[kind.named]
        taken = (
            f"the agent {part['agentId']!r} already has the {kind.title} {name!r}; choose another "
            "name, or update it"
        )
        self.documents.put(
            caller.tenant, kind.name, part[kind.id], part, parent, name=name, taken=taken
        )

    def remove_part(self, caller: Caller, kind: PartKind, agent_id: str, id: str) -> None:
        """Deletes a part of `DRAFT`."""
        self.documents.delete(caller.tenant, kind.name, id, _parent_key(agent_id, DRAFT))

    # What was prepared.

    def snapshot_of_draft(self, caller: Caller, agent_id: str) -> dict[str, Any]:
        """Everything that `DRAFT` is now."""
        with self.documents.transaction():
            record = self.get_editable(caller, agent_id)
            parts = {it.name: self.parts(caller, it, agent_id, DRAFT) for it in KINDS}
        return {"agent": record.agent, "parts": parts, "schemas": {}}

    def save_snapshot(self, caller: Caller, agent_id: str, version: str, snapshot: Data) -> None:
        """Stores what a version runs as."""
        head = build_head(snapshot)
        with self.documents.transaction():
            self.documents.put(caller.tenant, SNAPSHOT, version, snapshot, agent_id)
            self.documents.put(caller.tenant, HEAD, version, asdict(head), agent_id)

    def snapshot(self, caller: Caller, agent_id: str, version: str) -> dict[str, Any] | None:
        """What a version runs as; `None` when `DRAFT` was never prepared."""
        return self.documents.get(caller.tenant, SNAPSHOT, version, agent_id)

    def head(self, caller: Caller, agent_id: str, version: str) -> Head | None:
        """What tells a version from what it was."""
        found = self.documents.get(caller.tenant, HEAD, version, agent_id)
        return Head(**found) if found else None

    def create_version(self, caller: Caller, record: Record, snapshot: Data) -> str:
        """Makes a numbered version of what was prepared; its number."""
        agent_id, record.latest = record.agent["agentId"], record.latest + 1
        version = str(record.latest)
        members = {**snapshot["agent"], "agentVersion": version}
        members |= {"createdAt": now(), "updatedAt": now()}
        self.documents.put(caller.tenant, VERSION, version, members, agent_id)
        for kind in KINDS:
            for part in snapshot["parts"][kind.name]:
                body = {**part, "agentVersion": version}
                parent = _parent_key(agent_id, version)
                self.documents.put(caller.tenant, kind.name, part[kind.id], body, parent)
        self.save_snapshot(caller, agent_id, version, snapshot)
        self.save(caller, record)
        return version

    def version(self, caller: Caller, agent_id: str, version: str) -> dict[str, Any]:
        """A numbered version, as GetAgent would show it."""
        self.check_version(caller, agent_id, version)
        found = self.documents.get(caller.tenant, VERSION, version, agent_id)
        if found is None:
            raise not_found_error(f"version of the agent {agent_id!r}", version)
        return found

    def versions(self, caller: Caller, agent_id: str) -> list[dict[str, Any]]:
        """All versions, `DRAFT` first."""
        record = self.agent(caller, agent_id)
        numbered = [] if record.folder else self.documents.all(caller.tenant, VERSION, agent_id)
        return [record.agent, *numbered]

    def remove_version(self, caller: Caller, agent_id: str, version: str) -> None:
        """Deletes a version and its parts."""
        for kind in KINDS:
            self.documents.clear(caller.tenant, kind.name, _parent_key(agent_id, version))
        for kind_of_version in (VERSION, SNAPSHOT, HEAD):
            self.documents.delete(caller.tenant, kind_of_version, version, agent_id)

    # Aliases; that of `DRAFT` is not stored.

    def alias(self, caller: Caller, agent_id: str, alias_id: str) -> dict[str, Any] | None:
        """An alias that was made, if there is one."""
        return self.documents.get(caller.tenant, ALIAS, alias_id, agent_id)

    def aliases(self, caller: Caller, agent_id: str) -> list[dict[str, Any]]:
        """The aliases that were made."""
        return self.documents.all(caller.tenant, ALIAS, agent_id)

    def save_alias(self, caller: Caller, alias: Data) -> None:
        """Stores an alias."""
        agent_id, name = alias["agentId"], alias["agentAliasName"]
        taken = (
            f"the agent {agent_id!r} already has an alias with the name {name!r}; choose another "
            "name, or update that alias"
        )
        id = alias["agentAliasId"]
        self.documents.put(caller.tenant, ALIAS, id, alias, agent_id, name=name, taken=taken)

    def remove_alias(self, caller: Caller, agent_id: str, alias_id: str) -> None:
        """Deletes an alias."""
        self.documents.delete(caller.tenant, ALIAS, alias_id, agent_id)


def build_head(snapshot: Data) -> Head:
    """The digest of a snapshot."""
    team = [
        it["agentDescriptor"].get("aliasArn", "") for it in snapshot["parts"][COLLABORATOR.name]
    ]
    leads = snapshot["agent"].get("agentCollaboration", "DISABLED") != "DISABLED"
    return Head(digest(snapshot), team if leads else [])


def _parent_key(agent_id: str, version: str) -> str:
    return f"{agent_id}/{version}"
