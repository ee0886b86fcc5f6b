"""A `Document` → AWS, or any endpoint: made, or changed to match, prepared and given an alias."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.support.documents import combine_findings
from orchestrator.transfer.document import Document, list_lambdas
from orchestrator.transfer.normalize import pick_agent_members
from orchestrator.transfer.portability import (
    NOT_PORTABLE,
    Portable,
    make_portable,
    to_agent_request,
)
from orchestrator.transfer.pull import fetch_agent, read_single_agent
from orchestrator.transfer.push_steps import Aliases, Parts, Sender, Step, Waiter
from orchestrator.transfer.remote import Remote, check_id, parse_alias_arn

TEAM_ALIAS = "live"
"""The alias through which a supervisor reaches a collaborator that has no other yet."""


@dataclass(frozen=True, slots=True)
class Options:
    """How an agent is pushed.

    Attributes:
        alias: The alias that leads to what was pushed; without one there is the working draft.
        agent_id: The agent to change, instead of the one with the folder's id or name.
        create: Make a new agent.
        dry_run: Report what would be done, and do nothing.
        skip: Leave out what Bedrock does not have.
        lambdas: ARNs of Lambda functions by the names of action groups, `overrideLambda` or
            `customOrchestration`; with `<agent>/` before it, for that agent only.
        model: The foundation model there, of the agent and of those that it leads.
    """

    alias: str | None = None
    agent_id: str | None = None
    create: bool = False
    dry_run: bool = False
    skip: bool = False
    lambdas: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None


@dataclass(frozen=True, slots=True)
class PushResult:
    """What a push came to.

    Attributes:
        agent_id: The agent's id there; empty after the dry run of a new one.
        alias_id: The id of the alias; empty without one.
        steps: What was done; nothing when all was there.
        notes: What is different there, and what was left out.
    """

    agent_id: str
    alias_id: str
    steps: tuple[Step, ...]
    notes: tuple[Diagnostic, ...]


@dataclass(slots=True)
class _Target:
    """An agent there, as it was found, and what it is to be."""

    id: str
    before: Document | None
    wanted: Portable


def push(
    document: Document,
    remote: Remote,
    options: Options | None = None,
    *,
    report: Callable[[Step], None] | None = None,
    wait: Waiter | None = None,
) -> PushResult:
    """Makes an agent, and those that it leads, be at an endpoint as they are in a folder.

    The agent there is the one with the folder's `agentId`, or else with its name. Nothing is sent
    before all of it was checked. It stops at the first failure, and can be run again: what is done
    is not done twice.

    Raises:
        DefinitionError: The API cannot hold some of it; the message has all of that, with places.
        ValidationError: There is no such agent to change, or the options cannot be.
        DependencyFailed: The endpoint failed.
    """
    options = options or Options()
    sender = Sender(remote, options.dry_run, report, wait or Waiter())
    return _Push(document, options, sender).run()


def find_agent(remote: Remote, document: Document) -> str:
    """The id of the agent there with a document's id, or else its name; empty when there is none.

    Raises:
        ValidationError: Several have the name.
        OrchestratorError: The endpoint failed.
    """
    # The folder may come from another account, whose ids mean nothing here: then the name decides.
    if document.agent_id:
        with suppress(ResourceNotFound):
            fetch_agent(remote, document.agent_id)
            return document.agent_id
    return _find_id_by_name(remote, document.name)


def _find_id_by_name(remote: Remote, name: str) -> str:
    found = [
        check_id(it.get("agentId"), "an agent")
        for it in remote.pages("the agents", "list_agents", "agentSummaries")
        if it.get("agentName") == name
    ]
    if len(found) > 1:
        ids = ", ".join(found)
        raise ValidationError(f"there are {len(found)} agents {name!r}: {ids}; name one by its id")
    return found[0] if found else ""


class _Push:
    """One push: first all targets are found and checked, then each agent is made to match."""

    def __init__(self, document: Document, options: Options, sender: Sender) -> None:
        self.document = document
        self.options = options
        self.sender = sender
        self.remote = sender.remote
        self.targets: dict[int, _Target] = {}

    def run(self) -> PushResult:
        everyone = self.find_targets()
        notes = self.check_targets(everyone)
        for one in everyone:
            self.push_agent(one)
        target = self.targets[id(self.document)]
        arn = self.point_alias(self.document, self.options.alias, "") if self.options.alias else ""
        ids = None if self.options.dry_run else parse_alias_arn(arn)
        return PushResult(target.id, ids[1] if ids else "", tuple(self.sender.steps), tuple(notes))

    def find_targets(self) -> list[Document]:
        """Every agent once, those that are led first; copies in several folders are one agent."""
        # A collaborator must have an alias before its supervisor can name that alias's ARN.
        first: dict[str, Document] = {}
        for one in self.document.iter_agents():
            same = first.setdefault(one.agent_id or one.name, one)
            if same is one:
                self.targets[id(one)] = self.make_target(one)
            elif same.data == one.data:
                self.targets[id(one)] = self.targets[id(same)]
            else:
                raise ValidationError(
                    f"two folders of the team say different things about the agent {one.name!r}; "
                    "make them equal, or rename one"
                )
        return list(first.values())

    def make_target(self, document: Document) -> _Target:
        id = self.find_agent_id(document)
        before = read_single_agent(self.remote, id) if id else None
        wanted = make_portable(
            document,
            self.select_lambdas(document.name),
            known=dict(list_lambdas(before.data)) if before else {},
            model=self.options.model,
            local_models=self.remote.endpoint_url is not None,
        )
        return _Target(id, before, wanted)

    def select_lambdas(self, agent: str) -> dict[str, str]:
        """The functions for one agent, whose names may stand before theirs."""
        own, given = f"{agent}/", self.options.lambdas
        return {
            **{name: arn for name, arn in given.items() if "/" not in name},
            **{name.removeprefix(own): arn for name, arn in given.items() if name.startswith(own)},
        }

    def find_agent_id(self, document: Document) -> str:
        if document is not self.document:
            return find_agent(self.remote, document)
        if self.options.create:
            if _find_id_by_name(self.remote, document.name):
                raise ValidationError(
                    f"there is an agent {document.name!r} already; without --create it is changed"
                )
            return ""
        if self.options.agent_id:
            return check_id(self.options.agent_id, "an agent")
        return find_agent(self.remote, document)

    def check_targets(self, everyone: list[Document]) -> list[Diagnostic]:
        """What is left out and what is different, if that is all there is to say."""
        targets = [self.targets[id(one)] for one in everyone]
        found = [it for target in targets for it in target.wanted.left]
        fatal = [it for it in found if it.code != NOT_PORTABLE or not self.options.skip]
        if fatal:
            raise combine_findings(fatal)
        return [*found, *(it for target in targets for it in target.wanted.notes)]

    def push_agent(self, document: Document) -> None:
        target = self.targets[id(document)]
        data = target.wanted.data
        for member in data.get("agentCollaborators") or ():
            if member["collaboratorName"] in document.team:
                led = document.team[member["collaboratorName"]]
                arn = self.point_alias(led, None, _find_existing_alias_arn(target, member))
                member["agentDescriptor"] = {"aliasArn": arn}
        before = len(self.sender.steps)
        if target.before is None:
            self.create(document, target)
        parts = Parts(self.sender, document, target.id, target.before, data)
        if data.get("agentCollaboration") in (None, "DISABLED"):
            # The service refuses DISABLED while the agent still leads others.
            parts.remove_unwanted("agentCollaborators")
        if target.before is not None:
            self.update(document, target, target.before)
        parts.match()
        self.prepare(document, target, changed=len(self.sender.steps) > before)

    def create(self, document: Document, target: _Target) -> None:
        data = target.wanted.data
        with self.sender.step(document.name, "create", "the agent"):
            request = {**to_agent_request(data), "tags": data.get("tags")}
            answer = self.sender.send(document.name, "create_agent", **request)
            if not self.options.dry_run:
                created = answer.get("agent") or {}
                target.id = check_id(created.get("agentId"), "an agent")
                self.sender.wait_until_settled(target.id)

    def update(self, document: Document, target: _Target, before: Document) -> None:
        there = pick_agent_members(before.data)
        wanted = pick_agent_members(target.wanted.data, before.data)
        if there != wanted:
            differ = sorted(k for k in {*there, *wanted} if there.get(k) != wanted.get(k))
            with self.sender.step(document.name, "update", f"the agent ({', '.join(differ)})"):
                request = {**to_agent_request(wanted), "agentId": target.id}
                self.sender.send(document.name, "update_agent", **request)
                self.sender.wait_until_settled(target.id)
        if not before.notes:  # else its tags could not be read
            self.tag(document, target, before.data.get("tags") or {})

    def tag(self, document: Document, target: _Target, there: Mapping[str, str]) -> None:
        wanted = target.wanted.data.get("tags") or {}
        if there == wanted:
            return
        with self.sender.step(document.name, "change", "the tags"):
            arn = fetch_agent(self.remote, target.id).get("agentArn")
            if gone := sorted(set(there) - set(wanted)):
                self.sender.send(document.name, "untag_resource", resourceArn=arn, tagKeys=gone)
            if wanted:
                self.sender.send(document.name, "tag_resource", resourceArn=arn, tags=wanted)

    def prepare(self, document: Document, target: _Target, *, changed: bool) -> None:
        if not changed and fetch_agent(self.remote, target.id).get("agentStatus") == "PREPARED":
            # A new agent has been changed in any case.
            return
        with self.sender.step(document.name, "prepare", "the agent"):
            self.sender.send(document.name, "prepare_agent", agentId=target.id)
            self.sender.wait_until_settled(target.id)

    def point_alias(self, document: Document, name: str | None, arn: str) -> str:
        target = self.targets[id(document)]
        name = name or self.options.alias or TEAM_ALIAS
        return Aliases(self.sender, document.name, target.id, target.wanted.data).ensure(name, arn)


def _find_existing_alias_arn(target: _Target, member: Mapping[str, Any]) -> str:
    for it in target.before.parts("agentCollaborators") if target.before else ():
        if it.get("collaboratorName") == member["collaboratorName"]:
            return str((it.get("agentDescriptor") or {}).get("aliasArn") or "")
    return ""
