"""What an agent's file may look like, and what it becomes."""

import json
from pathlib import Path

import pytest

from orchestrator.definition import (
    AgentDefinition,
    definition_of,
    load_definition,
    parse_definition,
)
from orchestrator.errors import DefinitionError, ResourceNotFound
from orchestrator.limits import Limits

CAMEL = """
agentName: claims
instruction: You help with insurance claims.
foundationModel: local
idleSessionTTLInSeconds: 900
promptOverrideConfiguration:
  promptConfigurations:
    - promptType: ORCHESTRATION
      promptCreationMode: OVERRIDDEN
      basePromptTemplate: "$instruction$ $question$"
      inferenceConfiguration: {temperature: 0.5, topP: 1, topK: 250, maximumLength: 2048}
      additionalModelRequestFields: {reasoningConfig: {type: enabled}, nothing: null}
actionGroups:
  - actionGroupName: claims
    functionSchema:
      functions:
        - name: get_claim
          parameters: {claimId: {type: string, required: true}}
          requireConfirmation: ENABLED
    actionGroupExecutor: {customControl: RETURN_CONTROL}
  - {actionGroupName: UserInput, parentActionGroupSignature: AMAZON.UserInput}
knowledgeBases:
  - {knowledgeBaseId: ABCDEFGHIJ, description: Rules}
guardrailConfiguration: {guardrailIdentifier: abc, guardrailVersion: "1"}
memoryConfiguration: {enabledMemoryTypes: [SESSION_SUMMARY], storageDays: 30}
agentCollaboration: DISABLED
limits: {modelCalls: 7, seconds: null}
"""

SNAKE = """
agent_name: claims
instruction: You help with insurance claims.
foundation_model: local
idle_session_ttl_in_seconds: 900
prompt_override_configuration:
  prompt_configurations:
    - prompt_type: ORCHESTRATION
      prompt_creation_mode: OVERRIDDEN
      base_prompt_template: "$instruction$ $question$"
      inference_configuration: {temperature: 0.5, top_p: 1, top_k: 250, maximum_length: 2048}
      additional_model_request_fields: {reasoningConfig: {type: enabled}, nothing: null}
action_groups:
  - action_group_name: claims
    function_schema:
      functions:
        - name: get_claim
          parameters: {claimId: {type: string, required: true}}
          require_confirmation: ENABLED
    action_group_executor: {custom_control: RETURN_CONTROL}
  - {action_group_name: UserInput, parent_action_group_signature: AMAZON.UserInput}
knowledge_bases:
  - {knowledge_base_id: ABCDEFGHIJ, description: Rules}
guardrail_configuration: {guardrail_identifier: abc, guardrail_version: "1"}
memory_configuration: {enabled_memory_types: [SESSION_SUMMARY], storage_days: 30}
agent_collaboration: DISABLED
limits: {model_calls: 7, seconds: null}
"""


def test_both_spellings_mean_the_same() -> None:
    assert parse_definition(CAMEL) == parse_definition(SNAKE)


def test_spellings_may_be_mixed() -> None:
    lines = zip(CAMEL.splitlines(), SNAKE.splitlines(), strict=True)
    mixed = "\n".join(pair[number % 2] for number, pair in enumerate(lines))
    assert parse_definition(mixed) == parse_definition(CAMEL)


def test_the_members_are_there() -> None:
    definition = parse_definition(CAMEL)
    assert definition.agent_name == "claims"
    assert definition.idle_session_ttl_in_seconds == 900
    prompt = definition.prompt("ORCHESTRATION")
    assert prompt is not None and prompt.overridden
    assert prompt.inference_configuration is not None
    assert prompt.inference_configuration.as_dict() == {
        "temperature": 0.5,
        "topP": 1.0,
        "topK": 250,
        "maximumLength": 2048,
    }
    assert prompt.additional_model_request_fields == {
        "reasoningConfig": {"type": "enabled"},
        "nothing": None,
    }
    assert definition.prompt("POST_PROCESSING") is None
    assert definition.limits is not None
    assert definition.limits.as_limits() == Limits(model_calls=7, seconds=None)


def test_limits_have_the_engines_members_and_defaults() -> None:
    limits = definition_of({"agentName": "a", "limits": {}}).limits
    assert limits is not None
    assert limits.as_limits() == Limits()
    assert limits.model_dump() == {name: getattr(Limits(), name) for name in Limits.__slots__}


def test_only_the_inference_of_a_stage_can_be_changed() -> None:
    definition = parse_definition(
        """
        agentName: a
        promptOverrideConfiguration:
          promptConfigurations:
            - {promptType: ORCHESTRATION, inferenceConfiguration: {stopSequences: []}}
            - {promptType: PRE_PROCESSING, promptState: ENABLED, promptCreationMode: DEFAULT}
        """
    )
    orchestration = definition.prompt("ORCHESTRATION")
    assert orchestration is not None and orchestration.inference_configuration is not None
    assert orchestration.inference_configuration.as_dict() == {"stopSequences": []}
    assert not orchestration.overridden


def test_null_members_are_left_out() -> None:
    given = {"agentName": "a", "description": None, "actionGroups": None, "instruction": None}
    assert definition_of(given) == definition_of({"agentName": "a"})


def test_the_callers_data_is_left_alone() -> None:
    given = {"agentName": "a", "agentId": "ABCDEFGHIJ", "actionGroups": [
        {"actionGroupName": "g", "actionGroupId": "ABCDEFGHIJ"},
    ]}  # fmt: skip
    before = json.dumps(given)
    definition_of(given)
    assert json.dumps(given) == before


def test_yaml_words_and_dates_are_texts() -> None:
    definition = parse_definition(
        """
        agentName: No
        description: 2026-01-31
        instruction: 12:30
        tags: {on: off, version: 1_000, list: ","}
        """
    )
    assert (definition.agent_name, definition.description) == ("No", "2026-01-31")
    assert definition.instruction == "12:30"
    assert definition.tags == {"on": "off", "version": "1_000", "list": ","}


def test_anchors_and_aliases_work() -> None:
    definition = parse_definition(
        """
        agentName: a
        description: &text The same
        instruction: *text
        """
    )
    assert definition.instruction == definition.description == "The same"


def test_json_is_read_too(tmp_path: Path) -> None:
    text = '\ufeff{\n\t"agentName": "a",\n\t"instruction": "\\ud83d\\ude00 \\u00fc\\/",\n'
    text += ' "tags": {}, "knowledgeBases": [ ],\n'
    text += ' "actionGroups": [{"actionGroupName": "g"} , {"actionGroupName": "h"}]\n}\n'
    (tmp_path / "agent.json").write_text(text, encoding="utf-8")
    definition = load_definition(tmp_path / "agent.json")
    assert [group.action_group_name for group in definition.action_groups] == ["g", "h"]
    assert (definition.tags, definition.knowledge_bases) == ({}, ())
    assert definition.source.place_of("actionGroups", 1) == (5, 46)
    assert definition.instruction == "😀 ü/"
    assert definition.source.place_of("instruction") == (3, 17)


def test_a_get_agent_dump_is_read_and_noted() -> None:
    dump = {
        "ResponseMetadata": {"RequestId": "r"},
        "agent": {
            "agentArn": "arn:aws:bedrock:us-east-1:123456789012:agent/ABCDEFGHIJ",
            "agentId": "ABCDEFGHIJ",
            "agentName": "claims",
            "agentStatus": "PREPARED",
            "agentVersion": "DRAFT",
            "createdAt": "2026-01-31T10:00:00+00:00",
            "foundationModel": "anthropic.claude-3-haiku-20240307-v1:0",
            "idleSessionTTLInSeconds": 600,
            "promptOverrideConfiguration": {
                "promptConfigurations": [
                    {
                        "basePromptTemplate": "{}",
                        "inferenceConfiguration": {"temperature": 0.0, "topP": 1.0, "topK": 250},
                        "parserMode": "DEFAULT",
                        "promptCreationMode": "DEFAULT",
                        "promptState": "ENABLED",
                        "promptType": "ROUTING_CLASSIFIER",
                    }
                ]
            },
        },
    }
    definition = parse_definition(json.dumps(dump, indent=2), file="agent.json")
    assert (definition.agent_name, definition.agent_id) == ("claims", "ABCDEFGHIJ")
    notes = definition.source.notes
    assert [(note.severity, note.line) for note in notes] == [
        ("info", 6), ("info", 9), ("info", 10), ("info", 11)
    ]  # fmt: skip
    assert "'agentArn' is set by Bedrock only" in notes[0].message


def test_an_action_group_as_bedrock_answers_it() -> None:
    definition = definition_of(
        {
            "agentName": "a",
            "actionGroups": [
                {
                    "actionGroupId": "ABCDEFGHIJ",
                    "actionGroupName": "ask",
                    "actionGroupState": "ENABLED",
                    "createdAt": "2026-01-31T10:00:00+00:00",
                    "parentActionSignature": "AMAZON.UserInput",
                }
            ],
        }
    )
    assert definition.action_groups[0].parent_action_group_signature == "AMAZON.UserInput"
    assert "actionGroups[0].actionGroupId" in definition.source.notes[0].message


def test_where_a_definition_was_read_from_is_no_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "agent.yml").write_text("agentName: a\n")
    definition = load_definition(tmp_path)
    assert definition == AgentDefinition(agentName="a")
    assert definition.source.file == str(tmp_path / "agent.yml")
    assert definition.source.folder == tmp_path


def test_places_are_found_in_either_spelling() -> None:
    source = parse_definition(CAMEL).source
    assert source.place_of("actionGroups", 1, "actionGroupName") == (21, 23)
    assert source.place_of("action_groups", 1, "action_group_name") == (21, 23)
    assert source.place_of("actionGroups", 1, "executor", "lambda") == (21, 5)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(ResourceNotFound, match="no agent at"):
        load_definition(tmp_path / "nowhere")
    program = tmp_path / "agent.py"
    program.write_text('"""An agent in Python."""\n')
    with pytest.raises(ResourceNotFound, match=r"agent\.py': it is a Python program"):
        load_definition(program)
    with pytest.raises(DefinitionError, match=r"no agent\.yaml; `orchestrator init`"):
        load_definition(tmp_path)


def test_two_files_in_one_folder(tmp_path: Path) -> None:
    for name in ("agent.yaml", "agent.json"):
        (tmp_path / name).write_text("agentName: a")
    with pytest.raises(DefinitionError, match=r"both agent\.yaml and agent\.json; keep one"):
        load_definition(tmp_path)
