"""Steps that change an agent at an endpoint: what is sent, awaited and reported, for each part."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from orchestrator.errors import DefinitionError, DependencyFailed
from orchestrator.transfer.document import PARTS, Document, PartKind
from orchestrator.transfer.normalize import is_same_content, is_same_part
from orchestrator.transfer.pull import (
    fetch_agent,
    fetch_alias,
    find_alias_id,
    read_alias_version,
    read_single_agent,
)
from orchestrator.transfer.remote import DRAFT, Remote, check_id, parse_alias_arn

_DONE = {
    "create": "created",
    "update": "updated",
    "delete": "deleted",
    "change": "changed",
    "prepare": "prepared",
    "move": "moved",
    "add": "added",
    "take away": "took away",
}

_AT_WORK = ("CREATING", "PREPARING", "UPDATING", "VERSIONING")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was done, or in a dry run would be.

    Attributes:
        agent: The agent's name.
        verb: `create`, `update`, `delete`, `change`, `prepare`, `move`, `add` or `take away`.
        what: What it was done to, such as `the action group 'claims'`.
    """

    agent: str
    verb: str
    what: str

    @property
    def text_when_done(self) -> str:
        """The step, once it is done."""
        return f"{_DONE[self.verb]} {self.what}"

    @property
    def dry_run_text(self) -> str:
        """The step in a dry run."""
        return f"would {self.verb} {self.what}"


@dataclass(frozen=True, slots=True)
class Waiter:
    """How to wait for what takes time at the service."""

    seconds: float = 300.0  # how long at most
    # Seconds before the second look; each further wait is twice as long, up to two
    first: float = 0.1
    sleep: Callable[[float], object] = time.sleep  # waits for a number of seconds

    def wait_for_status(
        self, what: str, look: Callable[[], dict[str, Any]], member: str, done: Collection[str]
    ) -> dict[str, Any]:
        """Looks at something until the status in a member of it is one of `done`.

        Raises:
            DependencyFailed: It failed, or took too long.
        """
        waited, pause = 0.0, self.first
        while True:
            found = look()
            status = str(found.get(member))
            if status in done:
                return found
            # FAILED, or a status that the API does not have yet: waiting longer would not help.
            if status not in _AT_WORK:
                why = "; ".join(map(str, found.get("failureReasons") or ()))
                raise DependencyFailed(f"{what} is {status}{': ' if why else ''}{why}")
            if waited >= self.seconds:
                raise DependencyFailed(f"{what} is {status} after {waited:.0f} seconds")
            self.sleep(pause)
            waited, pause = waited + pause, min(2 * pause, 2.0)


@dataclass(slots=True)
class Sender:
    """Sends what changes an agent."""

    remote: Remote  # where to
    dry_run: bool = False  # whether nothing is sent
    report: Callable[[Step], None] | None = None  # gets every step, once it is done
    wait: Waiter = field(default_factory=Waiter)  # how to wait
    steps: list[Step] = field(default_factory=list)  # the steps that were reported

    @contextmanager
    def step(self, agent: str, verb: str, what: str) -> Iterator[None]:
        """What is done within is one step."""
        yield
        step = Step(agent, verb, what)
        self.steps.append(step)
        if self.report is not None:
            self.report(step)

    def send(self, agent: str, operation: str, **params: Any) -> dict[str, Any]:
        """Sends a request that changes something; nothing in a dry run.

        Raises:
            OrchestratorError: It failed.
        """
        if self.dry_run:
            return {}
        return self.remote.call(f"the agent {agent!r}", operation, **params)

    def wait_until_settled(self, agent_id: str) -> None:
        """Waits until an agent can be changed again."""
        # AWS refuses changes of an agent that is CREATING, UPDATING or PREPARING.
        if not self.dry_run:
            what, done = f"the agent {agent_id!r}", ("PREPARED", "NOT_PREPARED")
            self.wait.wait_for_status(
                what, lambda: fetch_agent(self.remote, agent_id), "agentStatus", done
            )


@dataclass(slots=True)
class Parts:
    """The parts of one agent."""

    sender: Sender  # sends the changes
    document: Document  # the agent
    agent_id: str  # its id there
    there: Document | None  # it as it is there; `None` for a new one
    wanted: Mapping[str, Any]  # what it is to be
    _gone: set[tuple[str, str]] = field(default_factory=set)

    def match(self) -> None:
        """Takes away what is not wanted, changes what differs and makes what is missing.

        Raises:
            OrchestratorError: Something failed; the steps that were reported are done.
        """
        for part in PARTS:
            self.remove_unwanted(part)
            for value in self.wanted.get(part) or ():
                self._put(part, value)

    def remove_unwanted(self, part: str) -> None:
        """Takes away the parts that are there and not wanted."""
        kind = PARTS[part]
        wanted = {it[kind.key] for it in self.wanted.get(part) or ()}
        for name in [name for name in self._index_by_name(part) if name not in wanted]:
            self._gone.add((part, name))
            with self.sender.step(self.document.name, kind.verbs[1], f"the {kind.noun} {name!r}"):
                params = {kind.id: self._find_id(kind, name), **kind.forced}
                self._send(kind.operation(kind.operations[1]), **params)

    def _put(self, part: str, value: Mapping[str, Any]) -> None:
        """Makes a part, or changes it if it differs."""
        kind = PARTS[part]
        name = value[kind.key]
        what, request = f"the {kind.noun} {name!r}", {**kind.defaults, **value}
        before = self._index_by_name(part).get(name)
        if before is None:
            with self.sender.step(self.document.name, kind.verbs[0], what):
                self._send(kind.operation(kind.operations[0]), **request)
        elif not self._is_same(before, value):
            with self.sender.step(self.document.name, "update", what):
                request[kind.id] = self._find_id(kind, name)
                self._send(kind.operation("update"), **request)

    def _index_by_name(self, part: str) -> dict[str, Any]:
        found = self.there.parts(part) if self.there else []
        named = {str(it.get(PARTS[part].key)): it for it in found}
        return {name: it for name, it in named.items() if (part, name) not in self._gone}

    def _is_same(self, there: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
        """Whether a part is as it is wanted; a schema in Amazon S3 by its text."""
        place = (there.get("apiSchema") or {}).get("s3")
        if place is not None and (wanted.get("apiSchema") or {}).get("payload") is not None:
            try:
                there = {**there, "apiSchema": {"payload": self.sender.remote.read_schema(place)}}
            except (DefinitionError, DependencyFailed):
                return False
        return is_same_part(there, wanted)

    def _find_id(self, kind: PartKind, name: str) -> str:
        if kind.id == kind.key:  # an association with a knowledge base has no id of its own
            return check_id(name, f"the {kind.noun}")
        what = f"the agent {self.document.name!r}"
        at = {"agentId": self.agent_id, "agentVersion": DRAFT}
        for it in self.sender.remote.pages(what, kind.operation("list") + "s", kind.listed, **at):
            if it.get(kind.key) == name:
                return check_id(it.get(kind.id), f"the {kind.noun}")
        raise DependencyFailed(
            f"the {kind.noun} {name!r} was taken away meanwhile; run the command again"
        )

    def _send(self, operation: str, **params: Any) -> None:
        # Only the working draft can be changed (AWS: versions of an agent are immutable).
        self.sender.send(
            self.document.name, operation, agentId=self.agent_id, agentVersion=DRAFT, **params
        )


NEW_ALIAS = "arn:aws:bedrock:us-east-1:000000000000:agent-alias/0000000000/0000000000"
"""Stands in a dry run for the ARN of an alias that is not made."""


@dataclass(frozen=True, slots=True)
class Aliases:
    """The aliases of one agent."""

    sender: Sender  # sends the changes
    agent: str  # the agent's name
    agent_id: str  # its id there; empty in the dry run of a new one
    wanted: Mapping[str, Any]  # what it is to be

    def ensure(self, name: str, arn: str) -> str:
        """The ARN of an alias that leads to a version with the agent's content.

        `name` is its name or id; `arn` is used instead if it is one of this agent.

        Raises:
            OrchestratorError: The endpoint failed, or its answer makes no sense.
        """
        # An older version is replaced. An alias of the working draft (DRAFT) already follows the
        # agent, so it stays.
        ids = parse_alias_arn(arn)
        alias_id = ids[1] if ids and ids[0] == self.agent_id else ""
        if not alias_id and self.agent_id:
            alias_id = find_alias_id(self.sender.remote, self.agent_id, name)
        if not alias_id:
            with self.sender.step(self.agent, "create", f"the alias {name!r}"):
                answer = self.sender.send(
                    self.agent, "create_agent_alias", agentId=self.agent_id, agentAliasName=name
                )
                if self.sender.dry_run:
                    return NEW_ALIAS
                made = answer.get("agentAlias") or {}
                return self._wait_until_ready(check_id(made.get("agentAliasId"), "an alias"))
        if self._is_behind(alias_id):
            self._move(alias_id)
        return self._wait_until_ready(alias_id)

    def _is_behind(self, alias_id: str) -> bool:
        """Whether the version that an alias leads to is not what the agent is to be."""
        version = read_alias_version(self.sender.remote, self.agent_id, alias_id)
        if version == DRAFT:
            return False
        there = read_single_agent(self.sender.remote, self.agent_id, version)
        return not is_same_content(there.data, self.wanted)

    def _move(self, alias_id: str) -> None:
        # AWS: UpdateAgentAlias without a routingConfiguration makes a version and routes to it.
        alias = fetch_alias(self.sender.remote, self.agent_id, alias_id)
        name = str(alias.get("agentAliasName"))
        with self.sender.step(self.agent, "move", f"the alias {name!r} to a new version"):
            self.sender.send(
                self.agent,
                "update_agent_alias",
                agentId=self.agent_id,
                agentAliasId=alias_id,
                agentAliasName=name,
                description=alias.get("description") or None,
            )
            if self.sender.dry_run:
                return
            self._wait_until_ready(alias_id)
            if self._is_behind(alias_id):
                raise DependencyFailed(
                    f"the alias {name!r} still leads to the version before; route it to a new one"
                )

    def _wait_until_ready(self, alias_id: str) -> str:
        """Waits until an alias can be used, and gives its ARN."""
        alias = self.sender.wait.wait_for_status(
            f"the alias {alias_id!r}",
            lambda: fetch_alias(self.sender.remote, self.agent_id, alias_id),
            *("agentAliasStatus", ("PREPARED",)),
        )
        arn = str(alias.get("agentAliasArn"))
        if parse_alias_arn(arn) != (self.agent_id, alias_id):
            raise DependencyFailed(f"{arn!r} is not the ARN of the alias {alias_id!r}")
        return arn
