"""A server somewhere else: its agents, and turns of them, through Bedrock's API."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from orchestrator.actions.base import Operation
from orchestrator.actions.functions import function_operations
from orchestrator.actions.openapi import api_operations
from orchestrator.errors import DependencyFailed, OrchestratorError, ValidationError
from orchestrator.support.aws import Target, translate_errors
from orchestrator.support.aws.invocations import restore_json
from orchestrator.transfer import connect, connect_runtime
from orchestrator.transfer.document import Document
from orchestrator.transfer.pull import read_alias_version, read_single_agent

TEST_ALIAS = "TSTALIASID"
_ID = re.compile(r"[0-9A-Za-z]{10}")
_KNOWN_SECONDS = 30.0  # that a definition is not asked for again
_MOST_ALIASES = _MOST_KNOWN = 100
_MOST_MEMORIES = 500  # summaries of sessions
_MEMORIES_AT_ONCE = 100


@dataclass(slots=True)
class _Known:
    document: Document
    operations: list[Operation]
    until: float


class RemoteServer:
    """A server that is asked through Bedrock's API, and for nothing else.

    Attributes:
        url: Its address, as it was given when the workbench was started.
    """

    def __init__(
        self, url: str, number: int = 0, region: str | None = None, profile: str | None = None
    ) -> None:
        """Makes its clients, with boto3's own credentials; nothing is sent.

        Raises:
            ValidationError: The URL is none of a server, or has a password in it.
            AccessDenied: There are no credentials, and the server is on another machine.
        """
        parts = urlsplit(url)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValidationError(
                "the address of a server has a user's name, a password or a query in it, which a "
                "page would show: leave that out; requests are signed with the credentials that "
                "boto3 finds"
            )
        self.url = url.rstrip("/")
        self.number = number
        self._control = connect(url, region, profile, attempts=1)
        self._runtime = connect_runtime(url, region, profile)
        self._known: dict[tuple[str, str], _Known] = {}
        self._names: dict[str, str] = {}  # of agents, by their ids

    def list_agents(self) -> list[RemoteAgent]:
        """The agents that the server lists.

        Raises:
            OrchestratorError: It cannot be reached, or does not list them.
        """
        pages = self._control.pages("the agents", "list_agents", "agentSummaries")
        found = [it for it in pages if _ID.fullmatch(str(it.get("agentId")))]
        self._names = {it["agentId"]: str(it.get("agentName") or "") for it in found}
        return [
            RemoteAgent(self, it["agentId"], TEST_ALIAS, str(it.get("description") or ""))
            for it in found
        ]

    def find_name(self, agent_id: str) -> str:
        """The name of an agent, as far as it was told; else its id."""
        return self._names.get(agent_id) or agent_id

    def list_aliases(self, agent_id: str) -> list[dict[str, str]]:
        """The aliases of an agent: id and name.

        Raises:
            OrchestratorError: It cannot be reached, or there is no such agent.
        """
        what = f"the aliases of the agent {agent_id!r}"
        pages = self._control.pages(
            what, "list_agent_aliases", "agentAliasSummaries", agentId=agent_id
        )
        found = {
            str(it["agentAliasId"]): str(it.get("agentAliasName", ""))
            for it in pages
            if _ID.fullmatch(str(it.get("agentAliasId")))
        }
        found.setdefault(TEST_ALIAS, "its draft")
        return [{"id": id, "name": name} for id, name in list(found.items())[:_MOST_ALIASES]]

    def read_definition(self, agent: RemoteAgent) -> Document:
        """What an agent is made of, as far as the API tells it.

        Raises:
            OrchestratorError: It cannot be reached, or there is no such agent.
        """
        return self._read(agent).document

    def list_operations(self, agent: RemoteAgent) -> list[Operation]:
        """The operations of an agent, for forms; none where the server does not tell them."""
        try:
            return self._read(agent).operations
        except OrchestratorError:
            return []

    def _read(self, agent: RemoteAgent) -> _Known:
        key = agent.agent_id, agent.alias_id
        known = self._known.get(key)
        if known is None or known.until < time.monotonic():
            version = "DRAFT"
            if agent.alias_id != TEST_ALIAS:
                version = read_alias_version(self._control, *key)
            document = read_single_agent(self._control, agent.agent_id, version)
            until = time.monotonic() + _KNOWN_SECONDS
            known = _Known(document, list(_read_operations(document)), until)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._names = {**self._names, agent.agent_id: document.name}
            self._known[key] = known
        return known

    def invoke(self, agent: RemoteAgent, session_id: str, **members: Any) -> Invocation:
        """Begins a turn with its trace; a request is never sent twice.

        Args:
            agent: Whom to ask.
            session_id: The session.
            members: `inputText`, `sessionState` or `endSession`, as of InvokeAgent.

        Raises:
            OrchestratorError: It was refused, or the server cannot be reached.
        """
        target = self._describe_target(agent, "InvokeAgent")
        with translate_errors(target):
            answer = self._runtime.invoke_agent(
                agentId=agent.agent_id,
                agentAliasId=agent.alias_id,
                sessionId=session_id,
                enableTrace=True,
                **members,
            )
        return Invocation(answer["completion"], target)

    def list_memories(self, agent: RemoteAgent, memory_id: str) -> list[dict[str, Any]]:
        """What an agent remembers under an id, as GetAgentMemory gives it; so much at most.

        Raises:
            OrchestratorError: It was refused, or the server cannot be reached.
        """
        found: list[dict[str, Any]] = []
        token: dict[str, str] = {}
        while len(found) < _MOST_MEMORIES:
            with translate_errors(self._describe_target(agent, "GetAgentMemory")):
                page = self._runtime.get_agent_memory(
                    agentId=agent.agent_id,
                    agentAliasId=agent.alias_id,
                    memoryId=memory_id,
                    memoryType="SESSION_SUMMARY",
                    maxItems=_MEMORIES_AT_ONCE,
                    **token,
                )
            contents = page.get("memoryContents") or []
            found += [_read_summary(it.get("sessionSummary") or {}) for it in contents]
            if not contents or not page.get("nextToken"):
                break
            token = {"nextToken": page["nextToken"]}
        return found[:_MOST_MEMORIES]

    def forget(self, agent: RemoteAgent, memory_id: str) -> None:
        """Has an agent forget what it remembers under an id.

        Raises:
            OrchestratorError: It was refused, or the server cannot be reached.
        """
        with translate_errors(self._describe_target(agent, "DeleteAgentMemory")):
            self._runtime.delete_agent_memory(
                agentId=agent.agent_id, agentAliasId=agent.alias_id, memoryId=memory_id
            )

    def _describe_target(self, agent: RemoteAgent, operation: str) -> Target:
        return Target(
            f"the agent {agent.agent_id}/{agent.alias_id} of {self.url}",
            agent.agent_id,
            f"allow bedrock:{operation}",
            "check its id, and the address of the server",
        )

    def close(self) -> None:
        """Ends its connections."""
        self._runtime.close()
        self._control.client.close()


class Invocation:
    """The events of a turn, read one by one in a thread; `stop` ends it from any other."""

    def __init__(self, events: Any, target: Target) -> None:
        self._stream = events
        self._events = iter(events)
        self._target = target

    def read(self) -> dict[str, Any] | None:
        """The next event as JSON, with `bytes` as they are; `None` at the end.

        Raises:
            OrchestratorError: The turn failed, or the connection broke.
        """
        try:
            with translate_errors(self._target):
                event = next(self._events, None)
        except OrchestratorError:
            raise
        except Exception as error:  # urllib3's, and those of a stream that is none
            text = f"the answer of {self._target.what} broke off ({type(error).__name__})"
            raise DependencyFailed(text) from error
        if event is None:
            return None
        if "trace" in event:
            return {"trace": restore_json(event["trace"])}
        return dict(event)

    def stop(self) -> None:
        """Ends it: the server stops the turn when its client is gone."""
        # A thread may be reading: to close the stream would wait for that, to end its socket not.
        sock = getattr(getattr(self._stream._raw_stream, "connection", None), "sock", None)
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Gives up the connection, after the last `read`."""
        with suppress(Exception):
            self._stream.close()


@dataclass(frozen=True, slots=True)
class RemoteAgent:
    """An alias of a remote server's agent."""

    server: RemoteServer
    agent_id: str
    alias_id: str
    description: str = ""

    @property
    def name(self) -> str:
        """Its name, as far as the server has told it; else its id."""
        return self.server.find_name(self.agent_id)

    @property
    def key(self) -> str:
        """Its name in addresses."""
        return f"remote-{self.server.number}-{self.agent_id}-{self.alias_id}"


def _read_summary(given: dict[str, Any]) -> dict[str, Any]:
    texts = restore_json(given)
    names = ("sessionId", "sessionStartTime", "sessionExpiryTime", "summaryText")
    return {name: texts.get(name, "") for name in names}


def _read_operations(document: Document) -> Iterator[Operation]:
    for group in document.parts("actionGroups"):
        name = str(group.get("actionGroupName", ""))
        # What cannot be read here the server may read all the same: its forms have no fields then.
        with suppress(OrchestratorError):
            schema = group.get("apiSchema") or {}
            if isinstance(schema.get("payload"), str):
                yield from api_operations(name, schema["payload"])
            functions = (group.get("functionSchema") or {}).get("functions") or ()
            yield from function_operations(name, functions)
