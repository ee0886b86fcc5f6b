"""Values that a template does not hold: what stands for them has the form that the member needs."""

from __future__ import annotations

import json
from pathlib import Path

from transfer_support import CLAUDE, INSTRUCTION

from orchestrator import Agent
from orchestrator.definition import load_definition
from orchestrator.testing import ScriptedModel
from orchestrator.transfer import Document, files_of, read_source, write_files

PARAMETERS = """
Parameters:
  Instruction: {Type: String, Default: You help the guests of a hotel with rooms and breakfasts.}
  Model: {Type: String, AllowedValues: [anthropic.claude-3-haiku-20240307-v1:0, other]}
  Stored: {Type: "AWS::SSM::Parameter::Value<String>", Default: /hotel/kb}
  Guard: {Type: String}
  GuardVersion: {Type: String}
  Function: {Type: String}
  Role: {Type: String}
  Ttl: {Type: Number}
  Days: {Type: Number}
  Alias: {Type: String}
  Temperature: {Type: Number}
  State: {Type: String}
  FunctionSuffix: {Type: String}
"""
AGENT = """
Resources:
  Hotel:
    Type: AWS::Bedrock::Agent
    Properties:
      AgentName: hotel
      Instruction: !Ref Instruction
      AgentResourceRoleArn: !Ref Role
      FoundationModel: !Ref Model
      IdleSessionTTLInSeconds: !Ref Ttl
      AgentCollaboration: SUPERVISOR
      GuardrailConfiguration: {GuardrailIdentifier: !Ref Guard, GuardrailVersion: !Ref GuardVersion}
      MemoryConfiguration: {EnabledMemoryTypes: [SESSION_SUMMARY], StorageDays: !Ref Days}
      KnowledgeBases: [{KnowledgeBaseId: !Ref Stored, Description: The house.}]
      AgentCollaborators:
        - CollaboratorName: kitchen
          CollaborationInstruction: Everything about food.
          AgentDescriptor: {AliasArn: !Ref Alias}
      ActionGroups:
        - ActionGroupName: rooms
          ActionGroupState: !Ref State
          ActionGroupExecutor: {Lambda: !Ref Function}
          FunctionSchema: {Functions: [{Name: find_room, Description: Find a room.}]}
        - ActionGroupName: taxis
          ActionGroupExecutor:
            Lambda: !Sub "arn:aws:lambda:us-east-1:111122223333:function:taxi-${FunctionSuffix}"
          FunctionSchema: {Functions: [{Name: call_taxi, Description: Call a taxi.}]}
      PromptOverrideConfiguration:
        PromptConfigurations:
          - PromptType: ORCHESTRATION
            PromptCreationMode: OVERRIDDEN
            PromptState: ENABLED
            InferenceConfiguration: {Temperature: !Ref Temperature, MaximumLength: 500}
"""


def read(tmp_path: Path, text: str) -> Document:
    file = tmp_path / ("plan.json" if text.startswith("{") else "template.yaml")
    file.write_text(text)
    [document] = read_source(file).agents.values()
    return document


def test_unset_parameters_have_the_form_that_their_members_need(tmp_path: Path) -> None:
    document = read(tmp_path, PARAMETERS + AGENT)
    write_files(files_of(document), tmp_path / "agent")
    definition = load_definition(tmp_path / "agent")
    assert definition.foundation_model == "anthropic.claude-3-haiku-20240307-v1:0"
    assert definition.guardrail_configuration is not None
    assert definition.guardrail_configuration.guardrail_version == "DRAFT"
    assert definition.guardrail_configuration.guardrail_identifier == "guard00000"
    assert definition.idle_session_ttl_in_seconds == 1800  # left out: the default
    assert [it.knowledge_base_id for it in definition.knowledge_bases] == ["STORED0000"]
    rooms, taxis = (it.action_group_executor for it in definition.action_groups)
    assert rooms is not None and taxis is not None
    assert rooms.lambda_ == "arn:aws:lambda:us-east-1:000000000000:function:Function"
    assert taxis.lambda_ == (
        "arn:aws:lambda:us-east-1:111122223333:function:taxi-UNKNOWN-FunctionSuffix"
    )
    (prompt,) = definition.prompts
    assert prompt.inference_configuration is not None
    assert prompt.inference_configuration.temperature is None
    assert prompt.inference_configuration.maximum_length == 500
    # Every one of them is named, with what stands there.
    told = "\n".join(it.message for it in document.notes)
    for name in (
        *("Stored", "Guard", "GuardVersion", "Function", "Role", "Ttl", "Days", "Alias"),
        *("Temperature", "State", "FunctionSuffix", "Model"),
    ):
        assert f"the parameter {name} is known only when deployed; " in told
    assert "the parameter Ttl is known only when deployed; it is left out of " in told
    assert "'DRAFT' stands for it in guardrailConfiguration.guardrailVersion" in told


def test_dynamic_references_are_values_of_a_deployment(tmp_path: Path) -> None:
    text = """
Resources:
  Hotel:
    Type: AWS::Bedrock::Agent
    Properties:
      AgentName: hotel
      AgentResourceRoleArn: "{{resolve:ssm:/agents/role:1}}"
      KnowledgeBases: [{KnowledgeBaseId: "{{resolve:ssm:/kb}}"}]
"""
    document = read(tmp_path, text)
    role = "arn:aws:iam::000000000000:role/ssm-agents-role-1"
    assert document.data["agentResourceRoleArn"] == role
    [base] = document.data["knowledgeBases"]
    assert len(base["knowledgeBaseId"]) == 10
    assert {it.code: it.line for it in document.notes} == {"role": 7, "knowledge-base": 8}


def test_an_agent_of_unset_parameters_holds_a_turn(tmp_path: Path) -> None:
    text = (PARAMETERS + AGENT).replace("GuardrailConfiguration:", "#").replace("SUPERVISOR", "X")
    text = text.replace("AgentCollaboration: X", "AgentCollaboration: DISABLED")
    document = read(tmp_path, text)
    write_files(files_of(document), tmp_path / "agent")
    model = ScriptedModel(["<answer>Good evening."], "anthropic.claude-3-haiku-20240307-v1:0")
    agent = Agent.load(tmp_path / "agent", model=model)
    assert agent.invoke("Hello", session_id="s-1").text == "Good evening."


GUARDS = f"""
Resources:
  Guard:
    Type: AWS::Bedrock::Guardrail
    Properties: {{Name: house-rules}}
  GuardVersion:
    Type: AWS::Bedrock::GuardrailVersion
    Properties: {{GuardrailIdentifier: !GetAtt Guard.GuardrailId}}
  Table:
    Type: AWS::DynamoDB::Table
    Properties: {{TableName: rooms-of-the-house}}
  Concierge:
    Type: AWS::Bedrock::Agent
    Properties:
      AgentName: !Sub "${{Guard.Name}}-agent"
      Description: !Sub "Reads ${{Table}}."
      FoundationModel: {CLAUDE}
      Instruction: {INSTRUCTION}
      GuardrailConfiguration:
        GuardrailIdentifier: !GetAtt ID
        GuardrailVersion: !GetAtt VERSION
"""


def test_versions_of_guardrails(tmp_path: Path) -> None:
    arn = "arn:aws:bedrock:us-east-1:000000000000:guardrail/guard00000"
    for id, version, identifier, number in (
        ("Guard.GuardrailId", "Guard.Version", "guard00000", "DRAFT"),
        ("Guard.GuardrailArn", "GuardVersion.Version", arn, "1"),
        ("GuardVersion.GuardrailId", "GuardVersion.Version", "guard00000", "1"),
    ):
        document = read(tmp_path, GUARDS.replace("ID\n", f"{id}\n").replace("VERSION", version))
        assert document.data["guardrailConfiguration"] == {
            "guardrailIdentifier": identifier,
            "guardrailVersion": number,
        }
        # What the template says itself is no guess.
        assert document.data["agentName"] == "house-rules-agent"
        assert document.data["description"] == "Reads rooms-of-the-house."
        write_files(files_of(document), tmp_path / id)
        load_definition(tmp_path / id)


def test_a_collaborator_of_a_plan_whose_alias_is_a_variable(tmp_path: Path) -> None:
    def resource(kind: str, **values: object) -> dict[str, object]:
        name = f"aws_bedrockagent_{kind}"
        return {"address": f"{name}.a", "type": name, "name": "a", "values": values}

    leader = {
        "agent_name": "inn",
        "foundation_model": CLAUDE,
        "instruction": INSTRUCTION,
        "agent_collaboration": "SUPERVISOR",
    }
    member = {"collaborator_name": "cook", "collaboration_instruction": "Meals."}
    of_inn = {"references": ["aws_bedrockagent_agent.a.agent_id", "aws_bedrockagent_agent.a"]}
    expressions = {
        "agent_id": of_inn,
        "agent_descriptor": [{"alias_arn": {"references": ["var.cook"]}}],
    }
    part = resource("agent_collaborator", **member, agent_descriptor=[{}])
    plan = {
        "planned_values": {"root_module": {"resources": [resource("agent", **leader), part]}},
        "configuration": {
            "root_module": {"resources": [{"address": part["address"], "expressions": expressions}]}
        },
    }
    document = read(tmp_path, json.dumps(plan))
    write_files(files_of(document), tmp_path / "agent")
    (one,) = load_definition(tmp_path / "agent").agent_collaborators
    assert one.agent_descriptor is not None
    arn = "arn:aws:bedrock:us-east-1:000000000000:agent-alias/COOK000000/COOK000000"
    assert one.agent_descriptor.alias_arn == arn
    assert any(f"{arn!r} stands for it" in it.message for it in document.notes)
