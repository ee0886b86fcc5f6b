"""Agents by their ids and aliases, ready to be invoked: built once while they are the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from orchestrator.agent.agent import Agent
from orchestrator.engine.plan import MOST_LEVELS
from orchestrator.errors import DefinitionError, ResourceNotFound, ValidationError
from orchestrator.server.agents.build import OPERATOR, AgentResources, build_agent
from orchestrator.server.agents.folders import FolderAgent, Folders
from orchestrator.server.agents.store import AgentStore, Head, build_head
from orchestrator.server.document_store import digest
from orchestrator.server.ids import DRAFT, TEST_ALIAS
from orchestrator.server.operations import Caller
from orchestrator.support.aws.clients import ALIAS_ARN

if TYPE_CHECKING:
    from orchestrator.server.document_store import DocumentStore

_MOST = 256
_Key = tuple[str, str, str, str]
# Tenant, agent, and what else tells whose it is; the last changes with what it is made of.
_REJECTS = "REJECT_INVOCATIONS"


class Agents:
    """All agents of a server, in folders and made through the API. Safe for many threads."""

    def __init__(self, resources: AgentResources, documents: DocumentStore) -> None:
        """Finds the agents in folders, and answers `resources.find_agent` from here on.

        Raises:
            ResourceNotFound: The folder of agents is not there, or has none.
            DefinitionError: Two folders define an agent of the same id.
        """
        self.resources = resources
        self.folders = Folders(resources, self.fingerprint_folder)
        self.store = AgentStore(documents, self.folders, resources.arns)
        resources.find_agent = self.resolve_alias
        self._built: OrderedDict[_Key, Future[Agent]] = OrderedDict()
        self._lock = Lock()

    def resolve_alias(self, caller: Caller, agent_id: str, alias_id: str) -> Agent:
        """The agent that an alias stands for; its sessions are the caller's tenant's.

        May wait while it is built, which happens once while neither it nor whom it leads changes.

        Raises:
            ResourceNotFound: The caller has no such agent or alias.
            ValidationError: It was never prepared, or its alias takes no invocations.
            OrchestratorError: It is wrong, or what it names is not there any more.
            Fault: The caller may not use what it names.
        """
        # An agent that was made through the API needs no look at the folders' files.
        if self.folders.knows(agent_id) or not self.store.has(caller, agent_id):
            self.folders.refresh()
        defined = self.folders.find(agent_id)
        if defined is not None:
            if not defined.has_alias(alias_id):
                raise _not_found_error(agent_id, alias_id)
            return defined.agent().for_tenant(caller.tenant)
        version = self._get_version(caller, agent_id, alias_id)
        head = self._get_head(caller, agent_id, alias_id, version)
        key = self._build_key(caller, (agent_id, alias_id, version), head)

        def build() -> Agent:
            snapshot = self.store.snapshot(caller, agent_id, version)
            if snapshot is None:
                raise _not_found_error(agent_id, alias_id)
            return build_agent(self.resources, caller, snapshot, alias_id, version)

        return self._build_once(key, build).for_tenant(caller.tenant)

    def get_cached(self, caller: Caller, agent_id: str, alias_id: str) -> Agent | None:
        """What `resolve_alias` would give, if a few looks at files are enough to know that."""
        defined = self.folders.get_unchanged(agent_id)
        if defined is None or not defined.has_alias(alias_id):
            return None
        agent = defined.get_cached()
        return agent.for_tenant(caller.tenant) if agent is not None else None

    def check(self, caller: Caller, snapshot: Mapping[str, Any]) -> None:
        """Builds `DRAFT` of a snapshot, which is cached for whoever invokes it next.

        Raises:
            OrchestratorError: It is wrong, or what it names is not there or may not be used.
            Fault: The caller may not use what it names.
        """
        whose = (snapshot["agent"]["agentId"], TEST_ALIAS, DRAFT)
        key = self._build_key(caller, whose, build_head(snapshot))
        self._build_once(
            key, lambda: build_agent(self.resources, caller, snapshot, TEST_ALIAS, DRAFT)
        )

    def list_invocable(self, caller: Caller) -> list[tuple[str, str, str, str]]:
        """What the caller can invoke: agent id, alias id, the agent's name and its description.

        An agent that was never prepared, and one in a folder that is wrong, is not among them.
        """
        found = []
        for _, record in sorted(self.store.agents(caller), key=lambda pair: pair[0]):
            agent = record.agent
            marks = agent["agentName"], agent.get("description", "")
            if record.folder is not None:
                ready = agent["agentStatus"] == "PREPARED"
                aliases = [TEST_ALIAS, *record.folder.aliases] if ready else []
            else:
                ready = self.store.head(caller, agent["agentId"], DRAFT) is not None
                built = self.store.aliases(caller, agent["agentId"])
                aliases = [TEST_ALIAS] * ready + [it["agentAliasId"] for it in built]
            found += [(agent["agentId"], alias, *marks) for alias in aliases]
        return found

    def forget(self, caller: Caller, agent_id: str) -> None:
        """Drops an agent that was deleted; turns that use it go on to their end."""
        with self._lock:
            self._drop((caller.tenant, agent_id))

    def close(self) -> None:
        """Closes the agents: what they have begun ends."""
        with self._lock:
            built, self._built = list(self._built.values()), OrderedDict()
        for future in built:
            if future.done() and future.exception() is None:
                future.result().close()
        self.folders.close()

    def _get_version(self, caller: Caller, agent_id: str, alias_id: str) -> str:
        if alias_id == TEST_ALIAS:
            return DRAFT
        alias = self.store.alias(caller, agent_id, alias_id)
        if alias is None:
            raise _not_found_error(agent_id, alias_id)
        if alias["aliasInvocationState"] == _REJECTS:
            raise ValidationError(
                f"the alias {alias_id!r} of the agent {agent_id!r} takes no invocations; set its "
                "aliasInvocationState to ACCEPT_INVOCATIONS"
            )
        return str(alias["routingConfiguration"][0]["agentVersion"])

    def _get_head(self, caller: Caller, agent_id: str, alias_id: str, version: str) -> Head:
        head = self.store.head(caller, agent_id, version)
        if head is None and version == DRAFT and self.store.has(caller, agent_id):
            if reasons := self.store.get_editable(caller, agent_id).agent.get("failureReasons"):
                raise ValidationError(
                    f"the agent {agent_id!r} could not be prepared: {'; '.join(reasons)}; mend it "
                    "and call PrepareAgent again"
                )
            raise ValidationError(
                f"the agent {agent_id!r} was never prepared; call PrepareAgent before you invoke it"
            )
        if head is None:
            raise _not_found_error(agent_id, alias_id)
        return head

    def _build_key(self, caller: Caller, whose: tuple[str, str, str], head: Head) -> _Key:
        agent_id, alias_id, version = whose
        team = self._fingerprint_team(caller, head.team, (agent_id,))
        used = digest([list(caller.allow), alias_id])
        return caller.tenant, agent_id, used, digest([version, head.digest, team])

    def add_folder(self, folder: Path, resources: AgentResources) -> FolderAgent:
        """Adds the agent of another folder, whose files are not looked at again.

        Raises:
            OrchestratorError: It is wrong, with file, line and column.
        """
        found = FolderAgent(resources, self.fingerprint_folder, folder, [])
        found.agent()
        self.folders.add(found)
        return found

    def fingerprint_folder(self, defined: FolderAgent) -> list[Any]:
        """What changes with the agents that one in a folder leads."""
        return self._fingerprint_team(OPERATOR, defined.team, (defined.agent_id,))

    def _fingerprint_team(
        self, caller: Caller, team: Sequence[str], above: tuple[str, ...]
    ) -> list[Any]:
        marks: list[Any] = []
        for arn in team:
            found = ALIAS_ARN.fullmatch(arn)
            if not found or found.group("region", "account") != self.resources.arns:
                continue
            _check_levels(found["agent"], above)
            mark, whose, below = self._read_collaborator(caller, found["agent"], found["alias"])
            marks.append(
                [arn, mark, self._fingerprint_team(whose, below, (*above, found["agent"]))]
            )
        return marks

    def _read_collaborator(
        self, caller: Caller, agent_id: str, alias_id: str
    ) -> tuple[str, Caller, list[str]]:
        """The mark of an agent's state; who leads, and whom."""
        defined = self.folders.find(agent_id)
        if defined is not None:
            return defined.mark, OPERATOR, defined.team
        version = self._get_version(caller, agent_id, alias_id)
        head = self._get_head(caller, agent_id, alias_id, version)
        return f"{version} {head.digest}", caller, head.team

    def _build_once(self, key: _Key, build: Callable[[], Agent]) -> Agent:
        with self._lock:
            found = self._built.get(key)
            mine = found is None
            if found is None:
                # An older build of the same agent.
                self._drop(key[:3])
                found = self._built[key] = Future()
                if len(self._built) > _MOST:
                    self._built.popitem(last=False)
            self._built.move_to_end(key)
        if not mine:
            return found.result()
        try:
            found.set_result(build())
        except BaseException as error:
            with self._lock:
                self._built.pop(key, None)
            found.set_exception(error)
            raise
        return found.result()

    def _drop(self, whose: tuple[str, ...]) -> None:
        for key in [it for it in self._built if it[: len(whose)] == whose]:
            del self._built[key]


def _not_found_error(agent_id: str, alias_id: str) -> ResourceNotFound:
    return ResourceNotFound(
        f"there is no alias {alias_id!r} of an agent {agent_id!r}; check both ids"
    )


def _check_levels(agent_id: str, above: tuple[str, ...]) -> None:
    if agent_id in above:
        circle = " → ".join((*above, agent_id))
        raise DefinitionError(f"the agents lead each other in a circle: {circle}")
    if len(above) >= MOST_LEVELS:
        raise DefinitionError(
            f"with the agent {agent_id!r} there are {len(above) + 1} levels of agents that lead "
            f"agents; the most are {MOST_LEVELS}"
        )
