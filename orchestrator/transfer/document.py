"""The form that every agent takes on its way from one place to another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.definition import Source
from orchestrator.diagnostics import Diagnostic


@dataclass(slots=True)
class Document:
    """An agent with all of its parts, as plain data.

    Attributes:
        data: The members of `agent.yaml` in Bedrock's spelling, with every text in place: no
            `basePromptTemplateFile`, no `apiSchema.file`.
        team: The agents that come along, by `collaboratorName`; two names of one agent have the
            same document. Other collaborators stay where their `aliasArn` says.
        notes: What was left out, and what to do about it.
        source: Where it was read from, for messages.
        code: Further files of its folder, such as handlers and what is beside them, by their paths.
        line: The line of its source where it begins, if there is one.
        stand_ins: What stands in the data for values that nobody knows yet, by the notes that say
            so; a note whose value is in the data no more is dropped with `drop_idle_notes`.
    """

    data: dict[str, Any]
    team: dict[str, Document] = field(default_factory=dict)
    notes: list[Diagnostic] = field(default_factory=list)
    source: Source = field(default_factory=Source)
    code: dict[str, str] = field(default_factory=dict)
    line: int | None = None
    stand_ins: dict[Diagnostic, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The agent's name."""
        return str(self.data.get("agentName", ""))

    @property
    def agent_id(self) -> str:
        """The agent's id; empty when it has none yet."""
        return str(self.data.get("agentId") or "")

    def parts(self, member: str) -> list[dict[str, Any]]:
        """The list at a member, such as `actionGroups`; empty when there is none."""
        found: list[dict[str, Any]] = self.data.get(member) or []
        return found

    def iter_agents(self) -> Iterator[Document]:
        """The agent and all agents that come along, each once, those that are led first."""
        seen: set[int] = set()

        def visit(one: Document) -> Iterator[Document]:
            if id(one) in seen:
                return
            seen.add(id(one))
            for member in one.team.values():
                yield from visit(member)
            yield one

        return visit(self)

    def drop_idle_notes(self) -> None:
        """Drops the notes on values that stand nowhere in the agent."""
        members = [
            {**it, "agentDescriptor": None} if it.get("collaboratorName") in self.team else it
            for it in self.parts("agentCollaborators")
        ]
        text = str({**self.data, "agentCollaborators": members, "agentId": None})
        text += "".join(self.code.values())
        idle = set()
        # A short value, such as an account's number, may be a part of a longer one.
        for one, value in sorted(self.stand_ins.items(), key=lambda it: -len(it[1])):
            if value not in text:
                idle.add(one)
            text = text.replace(value, "")
        self.notes = [it for it in dict.fromkeys(self.notes) if it not in idle]

    def place_notes(self, start: str, line: int | None) -> None:
        """Gives a line to the notes that begin with a text and have none yet."""
        for number, one in enumerate(self.notes):
            if one.line is None and one.message.startswith(start):
                self.notes[number] = placed = replace(one, line=line)
                if one in self.stand_ins:
                    self.stand_ins[placed] = self.stand_ins.pop(one)

    def all_notes(self) -> list[Diagnostic]:
        """The notes of the agent and of all that come along."""
        return list(dict.fromkeys(it for one in self.iter_agents() for it in one.notes))


@dataclass(frozen=True, slots=True)
class PartKind:
    """A list of an agent whose items the API makes one by one, and how it does."""

    noun: str  # what an item is
    key: str  # the member that an agent calls it by
    id: str  # the member that the API calls it by
    listed: str  # the member of the answer that lists such items
    get: str  # the member of the answer that has one; empty where the list has all of each
    members: tuple[str, ...]  # the members of answers that say what an item is
    defaults: Mapping[str, Any]  # what members mean that are left out
    operations: tuple[str, str] = ("associate", "disassociate")
    verbs: tuple[str, str] = ("add", "take away")  # what these operations do, for people
    forced: Mapping[str, Any] = field(default_factory=dict)  # members of the second operation

    def operation(self, verb: str) -> str:
        """The client's method for what a verb does to an item."""
        return f"{verb}_agent_{self.noun.replace(' ', '_')}"

    @property
    def create_operation(self) -> str:
        """The API's operation that makes an item."""
        return to_operation_name(self.operation(self.operations[0]))


def to_operation_name(method: str) -> str:
    """The API's name of an operation, by the name of the client's method."""
    return "".join(word.capitalize() for word in method.split("_"))


PARTS = {
    "actionGroups": PartKind(
        "action group",
        key="actionGroupName",
        id="actionGroupId",
        listed="actionGroupSummaries",
        get="agentActionGroup",
        members=(
            *("actionGroupName", "description", "actionGroupState", "parentActionSignature"),
            *("parentActionGroupSignatureParams", "apiSchema", "functionSchema"),
            "actionGroupExecutor",
        ),
        defaults={"actionGroupState": "ENABLED"},
        operations=("create", "delete"),
        verbs=("create", "delete"),
        forced={"skipResourceInUseCheck": True},  # it is enabled until it is gone
    ),
    "knowledgeBases": PartKind(
        "knowledge base",
        key="knowledgeBaseId",
        id="knowledgeBaseId",
        listed="agentKnowledgeBaseSummaries",
        get="agentKnowledgeBase",
        members=("knowledgeBaseId", "description", "knowledgeBaseState"),
        defaults={"knowledgeBaseState": "ENABLED"},
    ),
    "agentCollaborators": PartKind(
        "collaborator",
        key="collaboratorName",
        id="collaboratorId",
        listed="agentCollaboratorSummaries",
        get="",
        members=(
            *("collaboratorName", "agentDescriptor", "collaborationInstruction"),
            "relayConversationHistory",
        ),
        defaults={"relayConversationHistory": "DISABLED"},
    ),
}


def stages_of(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The stages of which an agent overrides something."""
    stages = (data.get("promptOverrideConfiguration") or {}).get("promptConfigurations")
    return stages or []


def note(
    code: str,
    message: str,
    suggestion: str = "",
    *,
    file: str | None = None,
    line: int | None = None,
) -> Diagnostic:
    """A note for whoever moves the agent."""
    return Diagnostic(
        severity="info", code=code, message=message, suggestion=suggestion, file=file, line=line
    )


PARSER = "overrideLambda"
CUSTOM = "customOrchestration"


def list_lambdas(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The Lambda functions that an agent names, and what for: action groups, or the two others."""
    for group in data.get("actionGroups") or ():
        if arn := (group.get("actionGroupExecutor") or {}).get("lambda"):
            yield str(group.get("actionGroupName")), str(arn)
    overrides = data.get("promptOverrideConfiguration") or {}
    if arn := overrides.get("overrideLambda"):
        yield PARSER, str(arn)
    executor = (data.get("customOrchestration") or {}).get("executor") or {}
    if arn := executor.get("lambda"):
        yield CUSTOM, str(arn)
