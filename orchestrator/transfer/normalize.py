"""The same agent in the same words, and whether two of them say the same.

Defaults, empty members and templates that are not used say nothing, and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.errors import DefinitionError
from orchestrator.prompts import STAGES
from orchestrator.support.documents import Rules, parse
from orchestrator.transfer.document import PARTS

DEFAULT_TTL = 1800
"""Idle seconds of a session when the agent's definition does not say."""

_AGENT_DEFAULTS = {"idleSessionTTLInSeconds": DEFAULT_TTL, "orchestrationType": "DEFAULT"}


def normalize_agent(data: Mapping[str, Any], *, listed: bool = False) -> dict[str, Any]:
    """The same agent without empty members and defaults.

    GetAgent lists every stage, with the service's own template and settings where it is not
    overridden; `listed` leaves these out.
    """
    agent = _drop_defaults(data, _AGENT_DEFAULTS)
    for part, kind in PARTS.items():
        if part in agent:
            agent[part] = [_drop_defaults(it, kind.defaults) for it in agent[part]]
    for group in agent.get("actionGroups", ()):
        _normalize_group(group)
    if agent.get("agentCollaboration") == "DISABLED" and not agent.get("agentCollaborators"):
        del agent["agentCollaboration"]
    if prompts := _normalize_prompts(agent.pop("promptOverrideConfiguration", {}), agent, listed):
        agent["promptOverrideConfiguration"] = prompts
    return agent


def _drop_defaults(data: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in data.items()
        if value not in (None, "", {}, []) and not (key in defaults and defaults[key] == value)
    }


def _normalize_group(group: dict[str, Any]) -> None:
    if signature := group.pop("parentActionSignature", None):  # what Bedrock calls it in answers
        group.setdefault("parentActionGroupSignature", signature)
    for member in ("apiSchema", "actionGroupExecutor"):
        if inner := _drop_defaults(group.pop(member, {}), {}):
            group[member] = inner
    if functions := group.pop("functionSchema", {}).get("functions"):
        group["functionSchema"] = {"functions": [_normalize_function(it) for it in functions]}


def _normalize_function(function: Mapping[str, Any]) -> dict[str, Any]:
    normal = _drop_defaults(function, {"requireConfirmation": "DISABLED"})
    if parameters := normal.get("parameters"):
        normal["parameters"] = {
            name: _drop_defaults(it, {"required": False}) for name, it in parameters.items()
        }
    return normal


def _normalize_prompts(
    part: Mapping[str, Any], agent: Mapping[str, Any], listed: bool
) -> dict[str, Any] | None:
    configured = part.get("promptConfigurations") or ()
    stages = [_normalize_prompt(it, agent, listed) for it in configured]
    places = {stage: place for place, stage in enumerate(STAGES)}
    stages.sort(key=lambda it: places.get(str(it.get("promptType")), len(places)))
    normal = {
        "promptConfigurations": [it for it in stages if len(it) > 1],
        "overrideLambda": part.get("overrideLambda"),
    }
    return {name: value for name, value in normal.items() if value} or None


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
    for part, kind in PARTS.items():
        mine, theirs = ({it[kind.key]: it for it in of.get(part) or ()} for of in (there, wanted))
        if mine.keys() != theirs.keys() or any(not is_same_part(mine[k], theirs[k]) for k in mine):
            return False
    return one == other


def is_same_part(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two action groups, or other parts, say the same; schemas by what they say."""
    mine, theirs = (str((it.get("apiSchema") or {}).get("payload", "")) for it in (one, other))
    if mine and theirs and is_same_schema(mine, theirs):
        one, other = ({**it, "apiSchema": {}} for it in (one, other))
    return one == other


_SCHEMA_RULES = Rules(aliases=True, any_names=False)


def is_same_schema(one: str, other: str) -> bool:
    """Whether two texts of API schemas say the same, however they are written."""
    if one == other:
        return True
    try:
        # What is JSON is YAML, too.
        return bool(parse(one, rules=_SCHEMA_RULES).data == parse(other, rules=_SCHEMA_RULES).data)
    except DefinitionError:
        return False
