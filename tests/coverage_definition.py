"""What of an agent's definition works, found out by defining agents; see `coverage_page.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

from botocore_shapes import service
from whole_agents import CLAUDE_35

from orchestrator import OrchestratorError
from orchestrator.content import root
from orchestrator.definition import AgentDefinition, build_action_groups, definition_of, unsupported
from orchestrator.definition.action_group import ActionGroupDefinition
from orchestrator.definition.agent import AgentCollaborator, KnowledgeBaseAssociation

Row = tuple[str, ...]


_FOLDER = root() / "examples" / "insurance"
_FUNCTION = {"name": "find", "description": "Finds."}
_CLAIMS = {
    "apiSchema": {"file": "action_groups/claims/openapi.yaml"},
    "actionGroupExecutor": {"lambda": "action_groups/claims/handler.py"},
}
_DOCUMENT = json.dumps({"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "paths": {
    "/a": {"get": {"operationId": "a", "description": "A.", "responses": {}}}}})  # fmt: skip
_PROMPT = "promptOverrideConfiguration.promptConfigurations[]"


def _prompt(**members: Any) -> dict[str, Any]:
    one = {"promptType": "ORCHESTRATION", **members}
    return {"promptOverrideConfiguration": {"promptConfigurations": [one]}}


def _group(**members: Any) -> dict[str, Any]:
    return {"actionGroups": [{"actionGroupName": "claims", **_CLAIMS, **members}]}


def _functions(**members: Any) -> dict[str, Any]:
    schema = {"functions": [{**_FUNCTION, **members}]}
    executor = {"customControl": "RETURN_CONTROL"}
    return {
        "actionGroups": [
            {"actionGroupName": "g", "functionSchema": schema, "actionGroupExecutor": executor}
        ]
    }


def _parameter(**members: Any) -> dict[str, Any]:
    return _functions(parameters={"a": {"type": "string", **members}})


def _built_in(name: str) -> dict[str, Any]:
    return {"actionGroups": [{"actionGroupName": "g", "parentActionGroupSignature": name}]}


def _probes() -> dict[str, dict[str, Any]]:
    """A definition that asks for each member."""
    base = {"knowledgeBaseId": "POLICIES01"}
    team = [{"collaboratorName": "billing", "collaborationInstruction": "Invoices."}]
    arn = "arn:aws:lambda:us-east-1:000000000000:function:claims"
    found: dict[str, dict[str, Any]] = {
        "agentName": {},
        "instruction": {"instruction": "You help."},
        "foundationModel": {"foundationModel": CLAUDE_35},
        "description": {"description": "For people."},
        "idleSessionTTLInSeconds": {"idleSessionTTLInSeconds": 600},
        "agentResourceRoleArn": {"agentResourceRoleArn": "arn:aws:iam::000000000000:role/r"},
        "customerEncryptionKeyArn": {"customerEncryptionKeyArn": "arn:aws:kms:key"},
        "tags": {"tags": {"a": "b"}},
        "orchestrationType: DEFAULT": {"orchestrationType": "DEFAULT"},
        "orchestrationType: CUSTOM_ORCHESTRATION": {
            "orchestrationType": "CUSTOM_ORCHESTRATION",
            "customOrchestration": {"executor": {"lambda": arn}},
        },
        "customOrchestration": {"customOrchestration": {"executor": {"lambda": arn}}},
        "guardrailConfiguration": {"guardrailConfiguration": {"guardrailIdentifier": "g-1"}},
        "memoryConfiguration": {"memoryConfiguration": {"enabledMemoryTypes": ["SESSION_SUMMARY"]}},
        "agentCollaboration: DISABLED": {"agentCollaboration": "DISABLED"},
        "agentCollaboration: SUPERVISOR": {"agentCollaboration": "SUPERVISOR"},
        "agentCollaboration: SUPERVISOR_ROUTER": {"agentCollaboration": "SUPERVISOR_ROUTER"},
        "agentCollaborators[]": {"agentCollaborators": team},
        "knowledgeBases[]": {"knowledgeBases": [base]},
        "knowledgeBases[].knowledgeBaseState: DISABLED": {
            "knowledgeBases": [{**base, "knowledgeBaseState": "DISABLED"}]
        },
        "promptOverrideConfiguration.overrideLambda": {
            "promptOverrideConfiguration": {"overrideLambda": arn}
        },
        f"{_PROMPT}.basePromptTemplate": _prompt(basePromptTemplate="Answer $question$"),
        f"{_PROMPT}.promptCreationMode": _prompt(promptCreationMode="DEFAULT"),
        f"{_PROMPT}.promptState": _prompt(promptState="ENABLED"),
        f"{_PROMPT}.parserMode: DEFAULT": _prompt(parserMode="DEFAULT"),
        f"{_PROMPT}.parserMode: OVERRIDDEN": _prompt(parserMode="OVERRIDDEN"),
        f"{_PROMPT}.foundationModel": _prompt(foundationModel=CLAUDE_35),
        f"{_PROMPT}.additionalModelRequestFields": _prompt(additionalModelRequestFields={"a": 1}),
        "actionGroups[].actionGroupName": _group(),
        "actionGroups[].description": _group(description="Claims."),
        "actionGroups[].actionGroupState": _group(actionGroupState="DISABLED"),
        "actionGroups[].actionGroupExecutor.lambda: a handler file": _group(),
        "actionGroups[].actionGroupExecutor.lambda: an ARN": _group(
            actionGroupExecutor={"lambda": arn}
        ),
        "actionGroups[].actionGroupExecutor.customControl": _functions(),
        "actionGroups[].apiSchema.payload": _group(apiSchema={"payload": _DOCUMENT}),
        "actionGroups[].apiSchema.s3": _group(
            apiSchema={"s3": {"s3BucketName": "schemas", "s3ObjectKey": "a.yaml"}}
        ),
        "actionGroups[].functionSchema.functions[].name": _functions(),
        "actionGroups[].functionSchema.functions[].description": _functions(),
        "actionGroups[].functionSchema.functions[].parameters{}.type": _parameter(),
        "actionGroups[].functionSchema.functions[].parameters{}.description": _parameter(
            description="A."
        ),
        "actionGroups[].functionSchema.functions[].parameters{}.required": _parameter(
            required=True
        ),
        "actionGroups[].functionSchema.functions[].requireConfirmation": _functions(
            requireConfirmation="ENABLED"
        ),
        "actionGroups[].parentActionGroupSignatureParams": {
            "actionGroups": [
                {
                    **_built_in("AMAZON.UserInput")["actionGroups"][0],
                    "parentActionGroupSignatureParams": {"a": "b"},
                }
            ]
        },
    }
    control = service("bedrock-agent")
    for name in control.shape_for("ActionGroupSignature").enum:
        found[f"actionGroups[].parentActionGroupSignature: {name}"] = _built_in(name)
    for name in control.shape_for("PromptType").enum:
        found[f"{_PROMPT}.promptType: {name}"] = _prompt(promptType=name, promptState="ENABLED")
    for name in control.shape_for("InferenceConfiguration").members:
        value = ["x"] if name == "stopSequences" else 1
        found[f"{_PROMPT}.inferenceConfiguration.{name}"] = _prompt(
            inferenceConfiguration={name: value}
        )
    return found


_UNUSED = {
    "description": "for people",
    "agentResourceRoleArn": "for Bedrock",
    "customerEncryptionKeyArn": "for Bedrock",
    "tags": "for Bedrock",
    "actionGroups[].description": "no prompt holds it",
    "actionGroups[].parentActionGroupSignatureParams": "`AMAZON.UserInput` has none",
}
_REFUSED = {"knowledgeBases[]": "in a file; `Agent(knowledge_bases=...)` takes backends in Python"}
_PARTS = (
    ("CreateAgent", "", AgentDefinition),
    ("AssociateAgentKnowledgeBase", "knowledgeBases[].", KnowledgeBaseAssociation),
    ("AssociateAgentCollaborator", "agentCollaborators[].", AgentCollaborator),
    ("CreateAgentActionGroup", "actionGroups[].", ActionGroupDefinition),
)


def definition(runs: Callable[[str], bool]) -> Iterator[Row]:
    """The rows; `runs` says whether turns run a stage."""
    probes = _probes()
    for operation, prefix, part in _PARTS:
        shape = service("bedrock-agent").operation_model(operation).input_shape
        aliases = {field.alias for field in part.model_fields.values()}
        aliases |= {"parentActionGroupSignature"} & shape.members.keys()
        whole = prefix.removesuffix(".")
        if whole in probes:
            yield f"`{whole}`", *probed(whole, probes[whole], runs)
        for name in shape.members:
            path = f"{prefix}{name}"
            mine = [one for one in probes if re.match(rf"{re.escape(path)}(?![A-Za-z])", one)]
            for one in mine:
                yield f"`{one}`", *probed(one, probes[one], runs)
            if not mine and name in part.READ_ONLY:
                yield f"`{path}`", "ignored", ""
            elif not mine and whole not in probes:
                assert name not in aliases, f"no definition tries {path}"
                yield f"`{path}`", "not yet", ""


def probed(path: str, members: dict[str, Any], runs: Callable[[str], bool]) -> tuple[str, str]:
    """The state of a member, from an agent that has it; what the refusal says."""
    asked = {"agentName": "a", "instruction": "You help.", **members}
    try:
        given = definition_of(asked)
        refused = unsupported(given)
        if refused:
            return "refused", _REFUSED.get(path, "")
        # What is in Amazon S3 is read when an agent is loaded; here there is no account.
        with patch("orchestrator.actions.s3_schema.read_s3_schema", lambda *_: _DOCUMENT):
            build_action_groups(given, _FOLDER)
    except OrchestratorError as error:
        assert "not supported yet" in error.message, (path, error)
        return "refused", ""
    if path in _UNUSED:
        return "kept, not used", _UNUSED[path]
    _, is_type, stage = path.partition("promptType: ")
    if is_type and not runs(stage):
        return "kept, not used", "no turn runs the stage yet"
    return "works", ""
