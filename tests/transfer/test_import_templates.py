"""Importing agents from CloudFormation templates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transfer_support import CLAUDE, INSTRUCTION, SCHEMA, TEMPLATE

from orchestrator import Agent
from orchestrator.errors import DefinitionError, ValidationError
from orchestrator.testing import ScriptedModel
from orchestrator.transfer import Document, files_of, read_source, write_files
from orchestrator.transfer.cloudformation.agents import Intrinsics

STACK = f"""
AWSTemplateFormatVersion: 2010-09-09
Parameters:
  Stage: {{Type: String, Default: test}}
  Ttl: {{Type: Number, Default: "900"}}
  Model: {{Type: String}}
  Stops: {{Type: CommaDelimitedList, Default: "</a>, </b>"}}
Mappings:
  Names: {{test: {{Suffix: t1}}}}
Conditions:
  IsLive: !Equals [!Ref Stage, live]
  HasMemory: !Not [!Condition IsLive]
Resources:
  AgentRole:
    Type: AWS::IAM::Role
    Properties: {{RoleName: !Sub "agents-${{Stage}}"}}
  ClaimsFunction:
    Type: AWS::Lambda::Function
    Properties: {{FunctionName: !Join ["-", [claims, !Ref Stage]]}}
  Rules:
    Type: AWS::Bedrock::KnowledgeBase
  Guard:
    Type: AWS::Bedrock::Guardrail
  Claims:
    Type: AWS::Bedrock::Agent
    Properties:
      AgentName: !Sub ["claims-${{S}}", {{S: !FindInMap [Names, !Ref Stage, Suffix]}}]
      AgentResourceRoleArn: !GetAtt AgentRole.Arn
      FoundationModel: !Ref Model
      Instruction: {INSTRUCTION}
      IdleSessionTTLInSeconds: !Ref Ttl
      AutoPrepare: true
      SkipResourceInUseCheckOnDelete: true
      CustomerEncryptionKeyArn: !If [IsLive, "arn:aws:kms:eu-central-1:1:key/x", !Ref AWS::NoValue]
      Tags: {{Owner_Team: claims}}
      GuardrailConfiguration:
        GuardrailIdentifier: !Ref Guard
        GuardrailVersion: 1
      MemoryConfiguration: !If
        - HasMemory
        - EnabledMemoryTypes: [SESSION_SUMMARY]
          StorageDays: 7
          SessionSummaryConfiguration: {{MaxRecentSessions: 3}}
        - !Ref AWS::NoValue
      ActionGroups:
        - ActionGroupName: claims
          ActionGroupExecutor: {{Lambda: !GetAtt ClaimsFunction.Arn}}
          ApiSchema:
            Payload: |
              openapi: 3.0.0
              paths: {{}}
        - ActionGroupName: visits
          ActionGroupExecutor: {{CustomControl: RETURN_CONTROL}}
          SkipResourceInUseCheckOnDelete: true
          FunctionSchema:
            Functions:
              - Name: book_visit
                Description: Book a visit.
                RequireConfirmation: ENABLED
                Parameters:
                  Visit_Day: {{Type: string, Description: The day., Required: "true"}}
      KnowledgeBases:
        - KnowledgeBaseId: !Ref Rules
          Description: The rules.
      PromptOverrideConfiguration:
        PromptConfigurations:
          - PromptType: ORCHESTRATION
            PromptCreationMode: OVERRIDDEN
            PromptState: ENABLED
            BasePromptTemplate: '{TEMPLATE.replace(chr(10), "")}'
            InferenceConfiguration: {{Temperature: 0, TopP: "0.5", StopSequences: !Ref Stops}}
            AdditionalModelRequestFields: {{Thinking: {{Type: adaptive}}}}
"""


def read(tmp_path: Path, text: Any, **parameters: str) -> dict[str, Document]:
    file = tmp_path / "template.yaml"
    file.write_text(text if isinstance(text, str) else json.dumps(text))
    found = read_source(file, parameters=parameters)
    assert found.format == "CloudFormation"
    return found.agents


def test_a_stack_is_read(tmp_path: Path) -> None:
    [document] = read(tmp_path, STACK, Model=CLAUDE).values()
    data = document.data
    template = data["promptOverrideConfiguration"]["promptConfigurations"][0]
    assert json.loads(template.pop("basePromptTemplate")) == json.loads(TEMPLATE)
    assert data == {
        "agentName": "claims-t1",
        "instruction": INSTRUCTION,
        "foundationModel": CLAUDE,
        "idleSessionTTLInSeconds": 900,
        "agentResourceRoleArn": "arn:aws:iam::000000000000:role/agents-test",
        "tags": {"Owner_Team": "claims"},
        "guardrailConfiguration": {
            "guardrailIdentifier": "arn:aws:bedrock:us-east-1:000000000000:guardrail/guard00000",
            "guardrailVersion": "1",
        },
        "memoryConfiguration": {
            "enabledMemoryTypes": ["SESSION_SUMMARY"],
            "storageDays": 7,
            "sessionSummaryConfiguration": {"maxRecentSessions": 3},
        },
        "actionGroups": [
            {
                "actionGroupName": "claims",
                "actionGroupExecutor": {
                    "lambda": "arn:aws:lambda:us-east-1:000000000000:function:claims-test"
                },
                "apiSchema": {"payload": "openapi: 3.0.0\npaths: {}\n"},
            },
            {
                "actionGroupName": "visits",
                "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
                "functionSchema": {
                    "functions": [
                        {
                            "name": "book_visit",
                            "description": "Book a visit.",
                            "requireConfirmation": "ENABLED",
                            "parameters": {
                                "Visit_Day": {
                                    "type": "string",
                                    "description": "The day.",
                                    "required": True,
                                }
                            },
                        }
                    ]
                },
            },
        ],
        "knowledgeBases": [{"knowledgeBaseId": "RULES00000", "description": "The rules."}],
        "promptOverrideConfiguration": {
            "promptConfigurations": [
                {
                    "promptType": "ORCHESTRATION",
                    "promptCreationMode": "OVERRIDDEN",
                    "promptState": "ENABLED",
                    "inferenceConfiguration": {
                        "temperature": 0,
                        "topP": 0.5,
                        "stopSequences": ["</a>", "</b>"],
                    },
                    "additionalModelRequestFields": {"Thinking": {"Type": "adaptive"}},
                }
            ]
        },
    }


def test_what_only_a_deployment_knows_is_told(tmp_path: Path) -> None:
    [document] = read(tmp_path, STACK, Model=CLAUDE).values()
    told = " ".join(it.message for it in document.notes)
    for what in ("AgentRole.Arn", "function:claims-test", "Ref Rules", "Ref Guard"):
        assert what in told
    ways = {it.code: it.suggestion for it in document.notes}
    assert ways.keys() == {"role", "unknown", "knowledge-base", "code"}
    assert "--parameter" in ways["unknown"] and "folder:" in ways["knowledge-base"]
    assert {(Path(it.file or "").name, it.line is not None) for it in document.notes} == {
        ("template.yaml", True)
    }


def test_parameters_can_be_given(tmp_path: Path) -> None:
    [document] = read(tmp_path, STACK, Model=CLAUDE, Stage="live", Ttl="60").values()
    assert document.data["idleSessionTTLInSeconds"] == 60
    assert "memoryConfiguration" not in document.data
    assert document.data["customerEncryptionKeyArn"].startswith("arn:aws:kms")


def test_a_parameter_without_a_value_is_told(tmp_path: Path) -> None:
    [document] = read(tmp_path, STACK).values()
    assert document.data["foundationModel"] == "UNKNOWN-Model"
    assert any("the parameter Model" in it.message for it in document.notes)


def test_json_with_long_forms_is_the_same(tmp_path: Path) -> None:
    properties = {
        "AgentName": {"Fn::Sub": "a-${AWS::Region}"},
        "FoundationModel": CLAUDE,
        "ActionGroups": [
            {
                "ActionGroupName": "claims",
                "ActionGroupExecutor": {"Lambda": {"Fn::GetAtt": ["F", "Arn"]}},
                "ApiSchema": {"Payload": {"Fn::ToJsonString": SCHEMA}},
            }
        ],
    }
    template = {
        "Resources": {
            "A": {"Type": "AWS::Bedrock::Agent", "Properties": properties},
            "F": {"Type": "AWS::Serverless::Function"},
        }
    }
    [document] = read(tmp_path, template, **{"AWS::Region": "eu-west-1"}).values()
    assert document.name == "a-eu-west-1"
    [group] = document.data["actionGroups"]
    assert json.loads(group["apiSchema"]["payload"]) == SCHEMA
    assert group["actionGroupExecutor"]["lambda"].endswith(":function:F")


TEAM = f"""
Resources:
  Billing:
    Type: AWS::Bedrock::Agent
    Properties: {{AgentName: billing, FoundationModel: {CLAUDE}, Instruction: "{INSTRUCTION}"}}
  BillingAlias:
    Type: AWS::Bedrock::AgentAlias
    Properties: {{AgentAliasName: live, AgentId: !GetAtt Billing.AgentId}}
  Boss:
    Type: AWS::Bedrock::Agent
    Properties:
      AgentName: boss
      FoundationModel: {CLAUDE}
      Instruction: "{INSTRUCTION}"
      AgentCollaboration: SUPERVISOR
      AgentCollaborators:
        - CollaboratorName: billing
          CollaborationInstruction: Everything about invoices.
          AgentDescriptor: {{AliasArn: !GetAtt BillingAlias.AgentAliasArn}}
        - CollaboratorName: far
          CollaborationInstruction: The rest.
          AgentDescriptor:
            AliasArn: arn:aws:bedrock:eu-west-1:123456789012:agent-alias/ABCDEFGHIJ/KLMNOPQRST
  Other:
    Type: AWS::Bedrock::Agent
    Properties: {{AgentName: other, FoundationModel: {CLAUDE}}}
"""


def test_agents_of_the_same_template_are_a_team(tmp_path: Path) -> None:
    file = tmp_path / "template.yaml"
    file.write_text(TEAM)
    found = read_source(file)
    assert {*found.agents} == {"Billing", "Boss", "Other"}
    assert {*found.find_top_level()} == {"Boss", "Other"}
    boss = found.get_agent("Boss")
    assert boss.team == {"billing": found.agents["Billing"]}
    assert found.get_agent("boss") is boss
    assert boss.notes == []
    files = files_of(boss)
    assert [*files] == ["agent.yaml", "collaborators/billing/agent.yaml"]
    assert "agent-alias/ABCDEFGHIJ/KLMNOPQRST" in files["agent.yaml"]
    with pytest.raises(
        ValidationError, match=r"billing \(Billing\), boss \(Boss\), other \(Other\)"
    ):
        found.get_agent("nobody")


def test_what_was_imported_runs(tmp_path: Path) -> None:
    file = tmp_path / "template.yaml"
    file.write_text(TEAM)
    write_files(files_of(read_source(file).get_agent("Billing")), tmp_path / "agent")
    model = ScriptedModel(["<answer>Good day.</answer>"], "anthropic.claude-3-sonnet-20240229-v1:0")
    assert Agent.load(tmp_path / "agent", model=model).invoke("Hello?", "s-1").text == "Good day."


LOOP = {"Fn::Sub": "${A}"}


def test_parameters_that_name_each_other_end_somewhere(tmp_path: Path) -> None:
    resources = {
        "A": {"Type": "AWS::Lambda::Function", "Properties": {"FunctionName": {"Ref": "A"}}},
        "G": {"Type": "AWS::Bedrock::Agent", "Properties": {"AgentName": {"Ref": "A"}}},
    }
    with pytest.raises(DefinitionError, match="nested"):
        read(tmp_path, {"Resources": resources})
    conditions = {"X": {"Condition": "X"}}
    properties = {"AgentName": {"Fn::If": ["X", "a", "b"]}}
    agent = {"G": {"Type": "AWS::Bedrock::Agent", "Properties": properties}}
    with pytest.raises(DefinitionError, match="nested"):
        read(tmp_path, {"Resources": agent, "Conditions": conditions})


def test_functions_that_multiply_texts_are_refused(tmp_path: Path) -> None:
    node: Any = "x" * 100
    for _ in range(40):
        node = {"Fn::Sub": ["${x}" * 10, {"x": node}]}
    agent = {"Type": "AWS::Bedrock::Agent", "Properties": {"AgentName": node}}
    with pytest.raises(DefinitionError, match="too much"):
        read(tmp_path, {"Resources": {"G": agent}})


EVALUATED: list[tuple[Any, Any]] = [
    ({"Ref": "P"}, "v"),
    ({"Fn::Sub": "${P}-${!P}-${AWS::Partition}"}, "v-${P}-aws"),
    ({"Fn::Join": ["", ["a", {"Ref": "P"}]]}, "av"),
    ({"Fn::Select": ["1", {"Fn::Split": ["|", "a|b"]}]}, "b"),
    ({"Fn::Select": [5, ["a"]]}, "UNKNOWN"),
    ({"Fn::If": ["Yes", 1, 2]}, 1),
    ({"Fn::If": ["No", 1, {"Ref": "P"}]}, "v"),
    ([{"Ref": "AWS::NoValue"}, 1], [1]),
    ({"a": {"Ref": "AWS::NoValue"}, "b": 1}, {"b": 1}),
    ({"Fn::ImportValue": "x"}, "UNKNOWN-x"),
    ({"Fn::FindInMap": ["M", "k", "l"]}, "m"),
    ({"Fn::FindInMap": ["M", "k", "nothing"]}, "UNKNOWN"),
    ({"Fn::Base64": {"Ref": "P"}}, "v"),
    ({"Fn::Sub": ["${x}", {"x": {"Ref": "P"}}]}, "v"),
]


@pytest.mark.parametrize(("node", "value"), EVALUATED)
def test_functions(node: Any, value: Any) -> None:
    template = {
        "Parameters": {"P": {"Type": "String", "Default": "v"}},
        "Mappings": {"M": {"k": {"l": "m"}}},
        "Conditions": {
            "Yes": {
                "Fn::And": [{"Fn::Equals": [{"Ref": "P"}, "v"]}, {"Fn::Equals": [True, "true"]}]
            },
            "No": {"Fn::Or": [{"Fn::Not": [{"Condition": "Yes"}]}]},
        },
    }
    assert Intrinsics(template, {}).evaluate(node) == value


names = st.sampled_from(
    [
        "Ref",
        "Fn::Sub",
        "Fn::GetAtt",
        "Fn::Join",
        "Fn::If",
        "Fn::Select",
        "Fn::Split",
        "Fn::FindInMap",
        "Fn::ToJsonString",
        "Fn::Equals",
        "Condition",
        "a",
    ]
)
nodes = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["A", "A.Arn", "${A}", "P", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=2),
    max_leaves=12,
)


@given(nodes, nodes)
def test_no_template_breaks_it(node: Any, condition: Any) -> None:
    template = {
        "Resources": {"A": {"Type": "AWS::Lambda::Function", "Properties": node}},
        "Conditions": {"A": condition},
        "Parameters": {"P": {"Default": 1}},
    }
    try:
        Intrinsics(template, {}).evaluate(node)
    except DefinitionError as error:
        assert "nested" in str(error)
