"""The JSON Schema for editors agrees with the loader and with Bedrock."""

import gzip
import json
from pathlib import Path
from typing import Any

import botocore
import pytest

from orchestrator.definition import definition_schema

SERVICE = Path(botocore.__file__).parent / "data" / "bedrock-agent"

OUR_OWN = {
    "ActionGroupDefinition": {"environment", "isolation"},
    "ActionGroupExecutor": {"http", "mcp", "python"},
    "ApiSchema": {"file"},
    "AgentDescriptor": {"folder"},
    "GuardrailConfiguration": {"checkResults", "file"},
    "KnowledgeBaseAssociation": {
        *("chunkingConfiguration", "embedder", "folder", "retrievalConfiguration")
    },
    "PromptConfiguration": {"basePromptTemplateFile", "templateFormat"},
    "AgentDefinition": {
        "unknownOutcomes",
        *("actionGroups", "agentCollaborators", "awsCompat", "knowledgeBases", "limits"),
        *("aliases", "orchestration"),
        "agentId",  # GetAgent's
    },
}
OUR_PARTS = {"AgentAlias", "HttpApi", "LimitsConfiguration", "McpServer"}
NARROWER = {"ChunkingConfiguration"}  # their ranges are those of a folder's index
SHAPES = {
    "AgentDefinition": "CreateAgentRequest",
    "ActionGroupDefinition": "CreateAgentActionGroupRequest",
    "KnowledgeBaseAssociation": "AssociateAgentKnowledgeBaseRequest",
    "AgentCollaborator": "AssociateAgentCollaboratorRequest",
    "ApiSchema": "APISchema",
    "ChunkingConfiguration": "FixedSizeChunkingConfiguration",
}
NOT_CONTENT = {"clientToken", "agentId", "agentVersion"}


@pytest.fixture(scope="module")
def shapes() -> dict[str, Any]:
    (file,) = SERVICE.glob("*/service-2.json.gz")
    with gzip.open(file) as stream:
        found: dict[str, Any] = json.load(stream)["shapes"]
    return found


def parts() -> dict[str, Any]:
    schema = definition_schema()
    return {"AgentDefinition": schema, **schema["$defs"]}


@pytest.mark.parametrize("name", [name for name in parts() if name not in OUR_PARTS])
def test_the_members_are_bedrocks(name: str, shapes: dict[str, Any]) -> None:
    bedrocks = shapes[SHAPES.get(name, name)]["members"]
    own = set(parts()[name]["properties"]) - OUR_OWN.get(name, set())
    assert own == set(bedrocks) - NOT_CONTENT


@pytest.mark.parametrize("name", [name for name in parts() if name not in OUR_PARTS])
def test_the_enums_and_ranges_are_bedrocks(name: str, shapes: dict[str, Any]) -> None:
    bedrocks = shapes[SHAPES.get(name, name)]["members"]
    for member, schema in parts()[name]["properties"].items():
        shape = shapes[bedrocks[member]["shape"]] if member in bedrocks else {}
        if "enum" in shape and member != "promptType":
            assert schema.get("enum", [schema.get("const")]) == shape["enum"]
        if shape.get("type") in ("integer", "float") and name not in NARROWER:
            assert schema.get("minimum") == shape.get("min")
            assert schema.get("maximum") == shape.get("max")


def test_every_part_is_closed_and_every_member_explained() -> None:
    for name, part in parts().items():
        assert part["additionalProperties"] is False, name
        assert part["description"], name
        for member, schema in part["properties"].items():
            assert schema["description"].endswith("."), f"{name}.{member}"
            assert "title" not in schema


def test_members_that_may_be_left_out_do_not_offer_null() -> None:
    text = json.dumps(definition_schema())
    # limits.seconds, limits.actionSeconds, and an embedder for keywords only
    assert text.count('"null"') == 3


def test_unions_have_one_member_and_mappings_only_good_names() -> None:
    found = parts()
    for name in ("ApiSchema", "ActionGroupExecutor", "AgentDescriptor"):
        assert (found[name]["minProperties"], found[name]["maxProperties"]) == (1, 1)
    assert found["FunctionSchema"]["properties"]["functions"]["minItems"] == 1
    for part, member in (("ActionGroupDefinition", "environment"), ("Function", "parameters")):
        mapping = found[part]["properties"][member]
        assert mapping["patternProperties"] and mapping["additionalProperties"] is False


def test_it_has_an_id_and_wants_a_name() -> None:
    schema = definition_schema()
    assert schema["$id"] == "urn:bedrock-orchestrator:agent-definition:1"
    assert schema["required"] == ["agentName"]
    assert schema["properties"]["idleSessionTTLInSeconds"]["default"] == 1800
