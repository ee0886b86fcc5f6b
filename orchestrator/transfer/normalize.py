"""The same agent in the same words, and whether two of them say the same.

Defaults, empty members and templates that are not used say nothing, and are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.transfer.schemas import is_same_schema

STAGES = (
    "PRE_PROCESSING",
    "ORCHESTRATION",
    "KNOWLEDGE_BASE_RESPONSE_GENERATION",
    "POST_PROCESSING",
    "MEMORY_SUMMARIZATION",
    "ROUTING_CLASSIFIER",
)
"""The prompt types, in the order in which they are written."""

DEFAULT_TTL = 1800
"""Idle seconds of a session when the agent's definition does not say."""

_DEFAULTS: dict[str, dict[str, Any]] = {
    "agent": {"idleSessionTTLInSeconds": DEFAULT_TTL, "orchestrationType": "DEFAULT"},
    "actionGroups": {"actionGroupState": "ENABLED"},
    "functions": {"requireConfirmation": "DISABLED"},
    "parameters": {"required": False},
    "knowledgeBases": {"knowledgeBaseState": "ENABLED"},
    "agentCollaborators": {"relayConversationHistory": "DISABLED"},
}


def normalize_agent(data: Mapping[str, Any], *, listed: bool = False) -> dict[str, Any]:
    """The same agent without empty members and defaults.

    GetAgent lists every stage, with the service's own template and settings where it is not
    overridden; `listed` leaves these out.
    """
    agent = _drop_defaults(data, _DEFAULTS["agent"])
    for member in ("knowledgeBases", "agentCollaborators"):
        if member in agent:
            agent[member] = [_drop_defaults(it, _DEFAULTS[member]) for it in agent[member]]
    if agent.get("agentCollaboration") == "DISABLED" and not agent.get("agentCollaborators"):
        del agent["agentCollaboration"]
    if "actionGroups" in agent:
        agent["actionGroups"] = [_normalize_group(it) for it in agent["actionGroups"]]
    if prompts := _normalize_prompts(agent.pop("promptOverrideConfiguration", {}), agent, listed):
        agent["promptOverrideConfiguration"] = prompts
    return agent


def _drop_defaults(data: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in data.items()
        if not _is_empty(value) and not (key in defaults and defaults[key] == value)
    }


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, (str, dict, list)) and not value)


def _normalize_group(group: Mapping[str, Any]) -> dict[str, Any]:
    normal = _drop_defaults(group, _DEFAULTS["actionGroups"])
    if signature := normal.pop("parentActionSignature", None):  # what Bedrock calls it in answers
        normal.setdefault("parentActionGroupSignature", signature)
    for member in ("apiSchema", "actionGroupExecutor"):
        if member in normal and _is_empty(inner := _drop_defaults(normal[member], {})):
            del normal[member]
        elif member in normal:
            normal[member] = inner
    if functions := normal.get("functionSchema", {}).get("functions"):
        normal["functionSchema"] = {"functions": [_normalize_function(it) for it in functions]}
    else:
        normal.pop("functionSchema", None)
    return normal


def _normalize_function(function: Mapping[str, Any]) -> dict[str, Any]:
    normal = _drop_defaults(function, _DEFAULTS["functions"])
    if parameters := normal.get("parameters"):
        normal["parameters"] = {
            name: _drop_defaults(it, _DEFAULTS["parameters"]) for name, it in parameters.items()
        }
    return normal


def _normalize_prompts(
    part: Mapping[str, Any], agent: Mapping[str, Any], listed: bool
) -> dict[str, Any] | None:
    configured = (
        _normalize_prompt(it, agent, listed) for it in part.get("promptConfigurations") or ()
    )
    stages = _sort_stages(it for it in configured if len(it) > 1)
    normal = {"promptConfigurations": stages} if stages else {}
    return {**normal, **{k: v for k, v in part.items() if k == "overrideLambda" and v}} or None


def _sort_stages(stages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    known = {stage: place for place, stage in enumerate(STAGES)}
    return sorted(stages, key=lambda it: known.get(str(it.get("promptType")), len(known)))


def _normalize_prompt(
    prompt: Mapping[str, Any], agent: Mapping[str, Any], listed: bool
) -> dict[str, Any]:
    normal = _drop_defaults(prompt, {"parserMode": "DEFAULT"})
    inference = normal.get("inferenceConfiguration")
    if inference is not None:
        normal["inferenceConfiguration"] = {k: v for k, v in inference.items() if v is not None}
    if normal.get("foundationModel") == agent.get("foundationModel"):
        normal.pop("foundationModel", None)
    mode = normal.pop("promptCreationMode", None)
    has_template = "basePromptTemplate" in normal or "basePromptTemplateFile" in normal
    if has_template and mode != "DEFAULT":
        # Bedrock runs a stage with a custom template, unless its promptState is DISABLED.
        return {
            "promptType": normal.pop("promptType", ""),
            "promptCreationMode": "OVERRIDDEN",
            "promptState": normal.pop("promptState", "ENABLED"),
            **normal,
        }
    if has_template and listed:  # the service refuses anything else than its own here
        normal.pop("inferenceConfiguration", None)
        normal.pop("promptState", None)
    normal.pop("basePromptTemplate", None)
    normal.pop("basePromptTemplateFile", None)
    return normal


PARTS = {
    "actionGroups": "actionGroupName",
    "knowledgeBases": "knowledgeBaseId",
    "agentCollaborators": "collaboratorName",
}
"""The lists of an agent that are made one by one, and what each of their items is called by."""

KEPT_THERE = ("agentResourceRoleArn", "foundationModel")
"""Members that the service needs: a folder without them leaves those of the agent there."""

_NOT_OF_A_VERSION = ("orchestrationType", "customOrchestration", "tags", "agentId")


def pick_agent_members(
    data: Mapping[str, Any], there: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The agent's own members, without its parts, id and tags.

    Members that the service needs and `data` lacks are those of the agent `there`.
    """
    own = {k: v for k, v in normalize_agent(data).items() if k not in (*PARTS, "agentId", "tags")}
    # AWS: UpdateAgent requires these members.
    needed = {k: there[k] for k in KEPT_THERE if there and k in there}
    return {**needed, **own}


def is_same_content(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a version is the agent, in the members that a version has."""
    one, other = (
        {k: v for k, v in it.items() if k not in _NOT_OF_A_VERSION}
        for it in (pick_agent_members(there), pick_agent_members(wanted, there))
    )
    return one == other and all(
        _are_same_parts(there.get(part) or (), wanted.get(part) or (), key)
        for part, key in PARTS.items()
    )


def _are_same_parts(there: Any, wanted: Any, key: str) -> bool:
    mine, theirs = ({it[key]: it for it in parts} for parts in (there, wanted))
    return mine.keys() == theirs.keys() and all(is_same_part(mine[k], theirs[k]) for k in mine)


def is_same_part(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two action groups, or other parts, say the same; schemas by what they say."""
    mine, theirs = (str((it.get("apiSchema") or {}).get("payload", "")) for it in (one, other))
    if mine and theirs and is_same_schema(mine, theirs):
        one, other = ({**it, "apiSchema": {}} for it in (one, other))
    return one == other
