"""Importing what the API answered: GetAgent's JSON, and the AgentCore toolkit's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transfer_support import CLAUDE, FUNCTION, FUNCTIONS, INSTRUCTION, ROLE, SCHEMA, TEMPLATE

from orchestrator import Agent
from orchestrator.errors import DefinitionError, ResourceNotFound, ValidationError
from orchestrator.testing import ScriptedModel
from orchestrator.transfer import files_of, read_source, write_files
from orchestrator.transfer.sources import ImportedAgents

AGENT = {
    "agentId": "ABCDEFGHIJ",
    "agentName": "claims",
    "agentArn": "arn:aws:bedrock:eu-central-1:123456789012:agent/ABCDEFGHIJ",
    "agentVersion": "DRAFT",
    "agentStatus": "PREPARED",
    "clientToken": "9f2a6c1e-4b7d-4e0a-8c53-0d1e2f3a4b5c",
    "instruction": INSTRUCTION,
    "foundationModel": CLAUDE,
    "idleSessionTTLInSeconds": 600,
    "agentResourceRoleArn": ROLE,
    "createdAt": "2026-01-01T08:00:00.000000+00:00",
    "updatedAt": "2026-01-01T08:00:00.000000+00:00",
    "preparedAt": "2026-01-01T08:00:00.000000+00:00",
    "orchestrationType": "DEFAULT",
    "agentCollaboration": "DISABLED",
    "promptOverrideConfiguration": {
        "promptConfigurations": [
            {
                "promptType": "ORCHESTRATION",
                "promptCreationMode": "OVERRIDDEN",
                "promptState": "ENABLED",
                "basePromptTemplate": TEMPLATE,
                "inferenceConfiguration": {"temperature": 0.5, "stopSequences": ["</x>"]},
                "parserMode": "DEFAULT",
                "foundationModel": CLAUDE,
            },
            {
                "promptType": "ROUTING_CLASSIFIER",
                "promptCreationMode": "DEFAULT",
                "promptState": "ENABLED",
                "basePromptTemplate": "The service's own $question$",
                "inferenceConfiguration": {"temperature": 0.0},
                "parserMode": "DEFAULT",
            },
        ]
    },
}
GROUP = {
    "agentId": "ABCDEFGHIJ",
    "agentVersion": "DRAFT",
    "actionGroupId": "GROUP00001",
    "actionGroupName": "claims",
    "createdAt": "2026-01-01T08:00:00+00:00",
    "updatedAt": "2026-01-01T08:00:00+00:00",
    "actionGroupExecutor": {"lambda": FUNCTION},
    "apiSchema": {"payload": json.dumps(SCHEMA)},
    "actionGroupState": "ENABLED",
}
ASK = {
    "actionGroupId": "GROUP00002",
    "actionGroupName": "UserInputAction",
    "parentActionSignature": "AMAZON.UserInput",
    "actionGroupState": "ENABLED",
}
BASE = {
    "knowledgeBaseId": "KB00000001",
    "description": "The rules.",
    "knowledgeBaseState": "ENABLED",
    "createdAt": "2026-01-01T08:00:00+00:00",
}


def saved(folder: Path, data: Any, name: str = "told.json") -> Path:
    file = folder / name
    file.write_text(data if isinstance(data, str) else json.dumps(data, indent=2))
    return file


def only(found: ImportedAgents) -> dict[str, str]:
    [document] = found.agents.values()
    return files_of(document)


@pytest.mark.parametrize("wrapped", [True, False])
def test_get_agent(tmp_path: Path, wrapped: bool) -> None:
    told = {"agent": AGENT, "ResponseMetadata": {"HTTPStatusCode": 200}} if wrapped else AGENT
    found = read_source(saved(tmp_path, told))
    assert found.format == "GetAgent"
    files = only(found)
    assert files.pop("templates/orchestration.json") == TEMPLATE
    assert files == {
        "agent.yaml": f"""\
agentName: claims
agentId: ABCDEFGHIJ
instruction: {INSTRUCTION}
foundationModel: {CLAUDE}
idleSessionTTLInSeconds: 600
agentResourceRoleArn: {ROLE}
promptOverrideConfiguration:
  promptConfigurations:
    - promptType: ORCHESTRATION
      promptCreationMode: OVERRIDDEN
      promptState: ENABLED
      basePromptTemplateFile: templates/orchestration.json
      inferenceConfiguration:
        temperature: 0.5
        stopSequences:
          - </x>
"""
    }


BESIDE: dict[str, dict[str, Any]] = {
    "as they are in agent.yaml": {"actionGroups": [GROUP, ASK], "knowledgeBases": [BASE]},
    "as lists of answers": {
        "agentActionGroups": [{"agentActionGroup": GROUP}, {"agentActionGroup": ASK}],
        "agentKnowledgeBases": [{"agentKnowledgeBase": BASE}],
    },
    "in the agent": {
        "agent": {**AGENT, "actionGroups": [GROUP, ASK], "agentKnowledgeBaseSummaries": [BASE]}
    },
}


@pytest.mark.parametrize("how", BESIDE)
def test_parts_may_stand_beside_the_agent(tmp_path: Path, how: str) -> None:
    found = read_source(saved(tmp_path, {"agent": AGENT, **BESIDE[how]}))
    [document] = found.agents.values()
    assert document.data["actionGroups"] == [
        {
            "actionGroupName": "claims",
            "actionGroupExecutor": {"lambda": FUNCTION},
            "apiSchema": {"payload": json.dumps(SCHEMA)},
        },
        {"actionGroupName": "UserInputAction", "parentActionGroupSignature": "AMAZON.UserInput"},
    ]
    assert document.data["knowledgeBases"] == [
        {"knowledgeBaseId": "KB00000001", "description": "The rules."}
    ]


def test_parts_may_be_files_of_their_own(tmp_path: Path) -> None:
    agent = saved(tmp_path, {"agent": AGENT})
    group = saved(tmp_path, {"agentActionGroup": GROUP}, "group.json")
    base = saved(tmp_path, {"agentKnowledgeBase": BASE}, "base.json")
    [document] = read_source(agent, [group, base]).agents.values()
    assert [it["actionGroupName"] for it in document.data["actionGroups"]] == ["claims"]
    assert [it["knowledgeBaseId"] for it in document.data["knowledgeBases"]] == ["KB00000001"]


def test_yaml_is_read_too(tmp_path: Path) -> None:
    text = "agent:\n  agentName: claims\n  foundationModel: local\n  agentStatus: PREPARED\n"
    files = only(read_source(saved(tmp_path, text, "told.yaml")))
    assert files == {"agent.yaml": "agentName: claims\nfoundationModel: local\n"}


def test_what_nobody_knows_is_left_out_and_told(tmp_path: Path) -> None:
    [document] = read_source(saved(tmp_path, {**AGENT, "newMember": 1})).agents.values()
    assert [it.message for it in document.notes] == ["claims: left out 'newMember'"]


def toolkit(name: str = "claims", **members: Any) -> dict[str, Any]:
    """A `bedrock_config.json`, in the shape that the toolkit writes."""
    stages = AGENT["promptOverrideConfiguration"]["promptConfigurations"]  # type: ignore[index]
    return {
        "agent": {
            **AGENT,
            "agentName": name,
            "createdAt": "2026-01-01 08:00:00+00:00",
            "promptOverrideConfiguration": {
                "promptConfigurations": [{**stages[0], "basePromptTemplate": json.loads(TEMPLATE)}]
            },
            "guardrailConfiguration": {
                "name": "rules",
                "guardrailId": "abc123",
                "guardrailArn": "arn:aws:bedrock:eu-central-1:123456789012:guardrail/abc123",
                "version": "2",
                "status": "READY",
            },
            "model": {"modelId": CLAUDE, "providerName": "Anthropic"},
            "alias": "ALIAS00001",
            "version": "3",
        },
        "action_groups": [
            {
                **GROUP,
                "apiSchema": {
                    "s3": {"s3BucketName": "schemas", "s3ObjectKey": "claims.json"},
                    "payload": SCHEMA,
                },
            },
            {"actionGroupName": "_7_days", "functionSchema": {"functions": FUNCTIONS}}
            | {"actionGroupExecutor": {"customControl": "RETURN_CONTROL"}},
        ],
        "knowledge_bases": [{**BASE, "name": "rules", "roleArn": ROLE, "status": "ACTIVE"}],
        "collaborators": [],
        **members,
    }


def test_the_toolkits_file(tmp_path: Path) -> None:
    found = read_source(saved(tmp_path, toolkit(), "bedrock_config.json"))
    assert found.format == "bedrock_config.json"
    [document] = found.agents.values()
    data = document.data
    assert data["guardrailConfiguration"] == {
        "guardrailIdentifier": "abc123",
        "guardrailVersion": "2",
    }
    assert data["knowledgeBases"] == [
        {"knowledgeBaseId": "KB00000001", "description": "The rules."}
    ]
    assert [it["actionGroupName"] for it in data["actionGroups"]] == ["claims", "7_days"]
    files = only(found)
    assert json.loads(files["templates/orchestration.json"]) == json.loads(TEMPLATE)
    assert json.loads(files["action_groups/claims/openapi.json"]) == SCHEMA
    assert any("joined the lines" in it.message for it in document.notes)
    assert [it.code for it in document.notes] == ["templates"]


def test_the_toolkits_team(tmp_path: Path) -> None:
    member = {
        **toolkit("billing"),
        "collaboratorName": "billing",
        "collaborationInstruction": "Invoices.",
        "relayConversationHistory": "TO_COLLABORATOR",
    }
    boss = toolkit("boss", collaborators=[member])
    boss["agent"] |= {
        "agentCollaboration": "SUPERVISOR",
        "isPrimaryAgent": True,
        "collaborators": [{"collaboratorName": "Billing"}],
    }
    [document] = read_source(saved(tmp_path, boss)).agents.values()
    assert document.data["agentCollaborators"] == [
        {
            "collaboratorName": "billing",
            "collaborationInstruction": "Invoices.",
            "relayConversationHistory": "TO_COLLABORATOR",
        }
    ]
    files = files_of(document)
    assert "collaborators/billing/agent.yaml" in files
    assert "folder: collaborators/billing" in files["agent.yaml"]


def test_what_was_imported_runs(tmp_path: Path) -> None:
    told = toolkit(knowledge_bases=[])
    del told["agent"]["guardrailConfiguration"]
    del told["agent"]["promptOverrideConfiguration"]
    write_files(only(read_source(saved(tmp_path, told))), tmp_path / "agent")
    model = ScriptedModel(["<answer>Good day.</answer>"], "anthropic.claude-3-sonnet-20240229-v1:0")
    assert Agent.load(tmp_path / "agent", model=model).invoke("Hello?", "s-1").text == "Good day."


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", "1", "a: 1", '{"agent": {}}', '{"Resources": {}}', '{"values": {}}', "", "null"],
)
def test_a_file_of_nothing_that_is_known(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValidationError, match="holds no agent"):
        read_source(saved(tmp_path, text))


@pytest.mark.parametrize("text", ["{", '{"a": }', "a: [", "a: *x", "{" * 100_000, "- !!python/x 1"])
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    with pytest.raises((DefinitionError, ValidationError)):
        read_source(saved(tmp_path, text, "told.yaml"))


def test_a_small_file_of_endless_aliases_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join(10 * [f'*a{n - 1}'])}]" for n in range(1, 9)]
    with pytest.raises(DefinitionError, match="values"):
        read_source(saved(tmp_path, "\n".join(lines), "told.yaml"))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ResourceNotFound, match="no file"):
        read_source(tmp_path / "nothing.json")
