"""A folder's agent in the shapes of the API: what of its definition the API has a member for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from orchestrator.agent.agent import Agent
from orchestrator.definition import AgentDefinition, prompt_text
from orchestrator.definition.dump import as_data
from orchestrator.definition.files import is_arn, locate
from orchestrator.errors import OrchestratorError
from orchestrator.server.agents.folders import FolderAgent
from orchestrator.server.agents.kinds import ASSOCIATION, COLLABORATOR, GROUP, KINDS
from orchestrator.server.agents.prompts import default_configurations, list_stages
from orchestrator.server.ids import DRAFT, derive_id
from orchestrator.server.operations import pick
from orchestrator.support.forks import ForkSafeLock
from orchestrator.transfer.portability import to_function_schema
from orchestrator.transfer.request_members import find_violations

IDLE_SECONDS = 600
# Models at addresses and in files are the operator's business (Bedrock: ModelIdentifier).
_MODEL = re.compile(r"[A-Za-z0-9.:/_-]{1,2048}")
_ID = re.compile(r"[0-9a-zA-Z]{10}")
_PRIVATE_MODELS = ("openai:", "scripted:", "replay:")
_AS_THEY_ARE = (
    *("description", "instruction", "idleSessionTTLInSeconds", "agentResourceRoleArn"),
    *("customerEncryptionKeyArn", "memoryConfiguration", "agentCollaboration"),
    "orchestrationType",
)
_OF_A_GROUP = (
    *("description", "parentActionGroupSignatureParams", "functionSchema"),
    *("actionGroupState",),
)


class ApiAgent(NamedTuple):
    """A folder's agent as the API shows it."""

    agent: Mapping[str, Any]  # the members of GetAgent's `agent`
    # Its action groups, knowledge bases and collaborators, by their kinds' names
    parts: Mapping[str, list[dict[str, Any]]]


_lock = ForkSafeLock()
_rendered: WeakKeyDictionary[FolderAgent, tuple[str, Agent | None, ApiAgent]] = WeakKeyDictionary()


def to_api(defined: FolderAgent) -> ApiAgent:
    """The agent as the API shows it, rendered once while it stays the same.

    What the API has no member for is left out: handlers that are files, documents in folders.
    """
    failure = defined.failure()
    agent = None if failure else defined.agent()
    with _lock:
        known = _rendered.get(defined)
    if known is None or known[:2] != (failure, agent):
        known = failure, agent, _render(defined, failure)
        with _lock:
            _rendered[defined] = known
    return known[2]


def _render(defined: FolderAgent, failure: str) -> ApiAgent:
    arns = defined.resources.arns
    members: dict[str, Any] = {
        "agentId": defined.agent_id,
        "agentName": _to_api_name(defined),
        "agentArn": arns.agent(defined.agent_id),
        "agentVersion": DRAFT,
        "agentStatus": "FAILED" if failure else "PREPARED",
        "idleSessionTTLInSeconds": IDLE_SECONDS,
        "agentResourceRoleArn": arns.role(),
        "createdAt": defined.changed,
        "updatedAt": defined.changed,
        **({"failureReasons": [failure[:2048]]} if failure else {"preparedAt": defined.changed}),
    }
    parts: dict[str, list[dict[str, Any]]] = {kind.name: [] for kind in KINDS}
    if defined.definition is not None:
        members |= _build_agent(defined.definition, defined, failed=bool(failure))
        parts = _build_parts(defined.definition, defined, failed=bool(failure))
    return ApiAgent(members, parts)


def _to_api_name(defined: FolderAgent) -> str:
    return re.sub(r"[^0-9a-zA-Z]+", "-", defined.name).strip("-")[:100] or defined.agent_id


def _build_agent(
    definition: AgentDefinition, defined: FolderAgent, *, failed: bool
) -> dict[str, Any]:
    data = as_data(definition)
    members = {name: data[name] for name in _AS_THEY_ARE if data.get(name) not in (None, "")}
    members["idleSessionTTLInSeconds"] = definition.idle_session_ttl_in_seconds
    model = definition.foundation_model
    if model and _MODEL.fullmatch(model) and not model.startswith(_PRIVATE_MODELS):
        members["foundationModel"] = model
    guardrail = definition.guardrail_configuration
    if guardrail is not None and guardrail.guardrail_identifier:
        members["guardrailConfiguration"] = {
            "guardrailIdentifier": guardrail.guardrail_identifier,
            "guardrailVersion": guardrail.guardrail_version or DRAFT,
        }
    orchestrates = definition.orchestration_lambda
    if orchestrates and is_arn(orchestrates):
        members["customOrchestration"] = {"executor": {"lambda": orchestrates}}
    if not failed:
        members["promptOverrideConfiguration"] = _build_prompts(definition, defined)
    return members


def _build_prompts(definition: AgentDefinition, defined: FolderAgent) -> dict[str, Any]:
    folder = defined.folder / "templates"
    model_id = defined.agent().plan.orchestration.model.model_id
    stages = list_stages(as_data(definition))
    shipped = default_configurations(model_id, stages)
    used = default_configurations(model_id, stages, folder if folder.is_dir() else None)
    prompts = {it["promptType"]: it for it in used}
    # A template of the folder is the agent's own.
    for one in shipped:
        own = prompts.get(one["promptType"])
        if own is not None and own != one:
            own["promptCreationMode"] = "OVERRIDDEN"
    overrides = definition.prompt_override_configuration
    for configuration in overrides.prompt_configurations if overrides else ():
        data = as_data(configuration)
        stage = data["promptType"]
        # GetAgent has no such members.
        for ours in ("basePromptTemplateFile", "templateFormat"):
            data.pop(ours, None)
        found = prompt_text(definition, stage, defined.folder)
        if found is not None:
            data |= {"basePromptTemplate": found.text, "promptCreationMode": "OVERRIDDEN"}
            data.setdefault("promptState", "ENABLED")
        if stage in prompts or found is not None:
            prompts[stage] = {**prompts.get(stage, {}), **data}
    members: dict[str, Any] = {"promptConfigurations": list(prompts.values())}
    if overrides and overrides.override_lambda and is_arn(overrides.override_lambda):
        members["overrideLambda"] = overrides.override_lambda
    return members


def _build_parts(
    definition: AgentDefinition, defined: FolderAgent, *, failed: bool
) -> dict[str, list[dict[str, Any]]]:
    base = {"agentId": defined.agent_id, "agentVersion": DRAFT, "createdAt": defined.changed}
    changed = {"updatedAt": defined.changed}
    return {
        GROUP.name: [
            {**base, **changed, **_build_group(definition, index, defined, failed=failed)}
            for index in range(len(definition.action_groups))
        ],
        ASSOCIATION.name: [
            {
                **base,
                **changed,
                "knowledgeBaseId": it.knowledge_base_id,
                "description": it.description or it.knowledge_base_id,
                "knowledgeBaseState": it.knowledge_base_state or "ENABLED",
            }
            for it in definition.knowledge_bases
            if _ID.fullmatch(it.knowledge_base_id)
        ],
        COLLABORATOR.name: [
            {
                **base,
                "lastUpdatedAt": defined.changed,
                "collaboratorId": derive_id(defined.agent_id, it.collaborator_name),
                "collaboratorName": it.collaborator_name,
                "collaborationInstruction": it.collaboration_instruction or it.collaborator_name,
                "relayConversationHistory": it.relay_conversation_history or "DISABLED",
                "agentDescriptor": _build_descriptor(it.collaborator_name, defined, failed=failed),
            }
            for it in definition.agent_collaborators
        ],
    }


def _build_descriptor(name: str, defined: FolderAgent, *, failed: bool) -> dict[str, Any]:
    member = None if failed else defined.agent().plan.collaborators.get(name)
    return {"aliasArn": member.alias_arn} if member is not None else {}


def _build_group(
    definition: AgentDefinition, index: int, defined: FolderAgent, *, failed: bool
) -> dict[str, Any]:
    group = definition.action_groups[index]
    data = as_data(group)
    members = {
        "actionGroupState": "ENABLED",
        **pick(data, _OF_A_GROUP),
        "actionGroupId": derive_id(defined.agent_id, group.action_group_name),
        "actionGroupName": group.action_group_name,
    }
    if group.parent_action_group_signature is not None:
        members["parentActionSignature"] = group.parent_action_group_signature
    executor = group.action_group_executor
    if executor and executor.custom_control:
        members["actionGroupExecutor"] = {"customControl": executor.custom_control}
    elif executor and executor.lambda_ and is_arn(executor.lambda_):
        members["actionGroupExecutor"] = {"lambda": executor.lambda_}
    elif executor and executor.python and not failed:
        members |= _build_functions(group.action_group_name, defined)
    if schema := _read_schema(definition, index, data.get("apiSchema") or {}, defined.folder):
        members["apiSchema"] = schema
    return members


def _build_functions(group: str, defined: FolderAgent) -> dict[str, Any]:
    """The functions of a Python file, as far as the API can describe them."""
    operations = defined.agent().plan.catalog.operations
    members = {"functionSchema": to_function_schema(it for it in operations if it.group == group)}
    wrong = any(at[0] in members for at, _ in find_violations("CreateAgentActionGroup", members))
    return members if members["functionSchema"]["functions"] and not wrong else {}


def _read_schema(
    definition: AgentDefinition, index: int, schema: Mapping[str, Any], folder: Path
) -> dict[str, Any] | None:
    if schema.get("file") is None:
        found = next(((it, schema[it]) for it in ("s3", "payload") if schema.get(it)), None)
        return dict([found]) if found else None
    keys = ("actionGroups", index, "apiSchema", "file")
    try:
        return {"payload": locate(definition, schema["file"], keys, folder).read_text("utf-8-sig")}
    except (OrchestratorError, OSError, UnicodeDecodeError):  # it was changed in between
        return None
