"""What the readers of files have in common: parts in any spelling → a checked `Document`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.actions.names import slug
from orchestrator.definition import AgentDefinition, definition_of
from orchestrator.definition.action_group import ActionGroupDefinition
from orchestrator.definition.agent import AgentCollaborator
from orchestrator.definition.files import handler_of, is_arn
from orchestrator.definition.knowledge_base import KnowledgeBaseAssociation
from orchestrator.definition.trust import refuse_untrusted
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import DefinitionError, ValidationError
from orchestrator.transfer.document import PARTS, Document, list_lambdas, note
from orchestrator.transfer.normalize import normalize_agent
from orchestrator.transfer.request_members import to_request_members
from orchestrator.transfer.unknown_values import Change, fit_unknown_values

_DEFINITIONS = (
    AgentDefinition,
    ActionGroupDefinition,
    KnowledgeBaseAssociation,
    AgentCollaborator,
)
# Members that say nothing of what an agent is, without case and underscores.
_QUIET = {
    *(member.lower() for part in _DEFINITIONS for member in part.READ_ONLY),
    *("agentid", "autoprepare", "prepareagent", "skipresourceinusecheck", "region", "timeouts"),
    *("skipresourceinusecheckondelete", "testaliastags", "id", "tagsall", "updatedat", "s3"),
}


def as_mapping(value: object) -> Mapping[str, Any]:
    """A value that is a mapping; an empty one for any other."""
    return value if isinstance(value, Mapping) else {}


def list_mappings(value: object) -> list[Mapping[str, Any]]:
    """The mappings in a value that is a list; none for any other."""
    return [it for it in value if isinstance(it, Mapping)] if isinstance(value, list) else []


def build_document(
    agent: Mapping[str, Any],
    parts: Iterable[Iterable[Mapping[str, Any]]],
    *,
    agent_id: object = None,
    listed: bool = False,
    expressions: Mapping[str, str] | None = None,
) -> Document:
    """Builds an agent from members in any spelling; `listed` as for `normalize_agent`.

    `parts` are its action groups, its knowledge bases and its collaborators. `expressions` says
    what unknown values are the values of, for messages.

    Raises:
        DefinitionError: The data is no agent's.
    """
    left: list[str] = []
    changes: list[Change] = []
    data = _to_agent_members("CreateAgent", agent, left, changes)
    if agent_id:
        data["agentId"] = str(agent_id)
    data["agentName"] = slug(str(data.get("agentName") or "")) or "agent"
    for (part, kind), items in zip(PARTS.items(), parts, strict=True):
        operation = kind.create_operation
        data[part] = [_to_agent_members(operation, it, left, changes) for it in items]
    for group in data["actionGroups"]:
        group["actionGroupName"] = slug(str(group.get("actionGroupName") or ""))
        # A file may hold both the text of a schema and its place in S3; the text wins.
        schema = as_mapping(group.get("apiSchema"))
        if schema.get("payload") is not None:
            group["apiSchema"] = {"payload": schema["payload"]}
    document = Document(normalize_agent(data, listed=listed))
    unknown = sorted({it for it in left if it.replace("_", "").lower() not in _QUIET})
    if unknown:
        names = ", ".join(map(repr, unknown[:20]))
        document.notes.append(note("left-out", f"{document.name}: left out {names}"))
    for change in changes:
        one = _make_change_note(document, change, expressions or {})
        document.notes.append(one)
        if change.stand_in:
            document.stand_ins[one] = change.stand_in
    return document


def _make_change_note(
    document: Document, change: Change, expressions: Mapping[str, str]
) -> Diagnostic:
    what = expressions.get(change.value, change.value)
    does = f"{change.stand_in!r} stands for it in" if change.stand_in else "it is left out of"
    text = f"{document.name}: {what} is known only when deployed; {does} {change.member}"
    return note("unknown", text, "give it with --parameter, or change it in agent.yaml")


def _to_agent_members(
    operation: str, data: Mapping[str, Any], left: list[str], changes: list[Change]
) -> dict[str, Any]:
    members = to_request_members(operation, data, left)
    changes += fit_unknown_values(operation, members)
    # These say which agent a request is about, and not what it is.
    about = ("agentId", "agentVersion", "clientToken")
    return {name: value for name, value in members.items() if name not in about}


def refuse_untrusted_document(document: Document) -> None:
    """Refuses an agent that names, or whose team names, what is on this machine or an address.

    Raises:
        ValidationError: It does: the author of an agent must not reach the host with it.
        DefinitionError: The data is no agent's.
    """
    for one in document.iter_agents():
        for what, spec in list_lambdas(one.data):
            if not is_arn(spec) and handler_of(spec)[0] not in one.code:
                raise ValidationError(
                    f"{one.name}: {spec!r} as the Lambda function of {what!r} is no ARN; it could "
                    "be any file here, so it is not transferred"
                )
        data = dict(one.data)
        # Collaborators of the same transfer have no alias yet, and a definition needs one.
        data["agentCollaborators"] = [
            {"agentDescriptor": {"aliasArn": "-"}, **it} for it in one.parts("agentCollaborators")
        ]
        try:
            refuse_untrusted(definition_of(data), folder=False, models=True)
        except DefinitionError as error:
            reason = "; ".join(it.message for it in error.diagnostics) or error.reason
            raise DefinitionError(f"the agent {one.name!r} is not transferred: {reason}") from None
