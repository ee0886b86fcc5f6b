"""`bedrock_config.json`, which the AgentCore toolkit's import of agents writes → a `Document`.

It holds `agent`, `action_groups`, `knowledge_bases` and `collaborators`, the last
as whole configurations again. Its templates and schemas are parsed; its guardrails have the form of
GetGuardrail's answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orchestrator.actions.names import slug
from orchestrator.engine.plan import MOST_LEVELS
from orchestrator.errors import DefinitionError
from orchestrator.transfer.build_document import as_mapping, build_document, list_mappings
from orchestrator.transfer.document import Document, note

_NOT_OURS = ("model", "alias", "version", "isPrimaryAgent", "collaborators")


def is_toolkit(data: Mapping[str, Any]) -> bool:
    """Whether data is such a configuration."""
    parts = ("action_groups", "knowledge_bases", "collaborators")
    return isinstance(data.get("agent"), Mapping) and any(part in data for part in parts)


def read_toolkit(data: Mapping[str, Any], level: int = 1) -> Document:
    """An agent with those that it leads.

    Raises:
        DefinitionError: The data is no agent's.
    """
    if level > MOST_LEVELS:
        raise DefinitionError(f"there are more than {MOST_LEVELS} levels of agents")
    agent = {k: v for k, v in as_mapping(data.get("agent")).items() if k not in _NOT_OURS}
    agent["guardrailConfiguration"] = _guardrail(agent.get("guardrailConfiguration"))
    led = list_mappings(data.get("collaborators"))
    groups, members = list_mappings(data.get("action_groups")), [_member(it) for it in led]
    names = ("knowledgeBaseId", "description", "knowledgeBaseState")
    found = list_mappings(data.get("knowledge_bases"))
    bases = [{name: it.get(name) for name in names} for it in found]
    parts = (groups, bases, members)
    document = build_document(agent, parts, agent_id=agent.get("agentId"), listed=True)
    for member, config in zip(members, led, strict=True):
        document.team[member["collaboratorName"]] = read_toolkit(config, level + 1)
    if "promptOverrideConfiguration" in document.data:
        text = (
            f"{document.name}: the toolkit has joined the lines of templates, and left out stages"
        )
        document.notes.append(note("templates", text, "compare them with `orchestrator pull`"))
    return document


def _guardrail(settings: Any) -> dict[str, Any] | None:
    if not as_mapping(settings):
        return None
    return {
        "guardrailIdentifier": settings.get("guardrailIdentifier") or settings.get("guardrailId"),
        "guardrailVersion": settings.get("guardrailVersion") or settings.get("version"),
    }


def _member(config: Mapping[str, Any]) -> dict[str, Any]:
    names = ("collaborationInstruction", "relayConversationHistory")
    fallback = as_mapping(config.get("agent")).get("agentName")
    name = slug(str(config.get("collaboratorName") or fallback or ""))
    return {"collaboratorName": name, **{k: config.get(k) for k in names}}


_GROUPS = ("agentActionGroup", "agentActionGroups", "actionGroups", "actionGroupSummaries")
_BASES = (
    *("agentKnowledgeBase", "agentKnowledgeBases", "knowledgeBases"),
    "agentKnowledgeBaseSummaries",
)
_MEMBERS = (
    *("agentCollaborator", "agentCollaborators", "collaborators"),
    "agentCollaboratorSummaries",
)


def is_get_agent(data: Mapping[str, Any]) -> bool:
    """Whether data is GetAgent's answer, with or without its outermost member."""
    return "agentName" in _get_agent(data)


def _get_agent(data: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = data.get("agent", data.get("agentVersion"))
    return inner if isinstance(inner, Mapping) else data


def read_get_agent(data: Mapping[str, Any], others: Iterable[Mapping[str, Any]] = ()) -> Document:
    """Reads an agent from GetAgent's or GetAgentVersion's answer.

    `others` are further answers, such as GetAgentActionGroup's. Parts may also stand beside the
    agent, under the names that the API's answers have for one or for many.

    Raises:
        DefinitionError: The data is no agent's.
    """
    agent = _get_agent(data)
    answers = [data, *([agent] if agent is not data else []), *others]
    parts = (_GROUPS, _BASES, _MEMBERS)
    names = {name for part in parts for name in part}
    own = {k: v for k, v in agent.items() if k not in names and k not in ("version", "alias")}
    found = [list(_iter_parts(answers, part)) for part in parts]
    return build_document(own, found, agent_id=agent.get("agentId"), listed=True)


def _iter_parts(
    answers: Iterable[Mapping[str, Any]], names: Iterable[str]
) -> Iterator[Mapping[str, Any]]:
    for answer in answers:
        for name in names:
            value = answer.get(name)
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, Mapping):
                    inner = (item.get(name) for name in names)
                    yield next((it for it in inner if isinstance(it, Mapping)), item)
