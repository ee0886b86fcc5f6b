"""Importing agents from Terraform's plans and states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transfer_support import CLAUDE, FUNCTION, INSTRUCTION, ROLE, SCHEMA, TEMPLATE

from orchestrator.errors import DefinitionError, ValidationError
from orchestrator.transfer import Document, files_of, read_source

PROVIDER = "registry.terraform.io/hashicorp/aws"


def resource(kind: str, name: str, values: dict[str, Any], module: str = "") -> dict[str, Any]:
    return {
        "address": f"{module}{kind}.{name}",
        "mode": "managed",
        "type": kind,
        "name": name.partition("[")[0],
        "provider_name": PROVIDER,
        "schema_version": 0,
        "values": values,
        "sensitive_values": {},
    }


def configured(kind: str, name: str, **references: list[str]) -> dict[str, Any]:
    expressions = {member: {"references": told} for member, told in references.items()}
    return {
        "address": f"{kind}.{name}",
        "mode": "managed",
        "type": kind,
        "name": name,
        "expressions": expressions,
    }


AGENT = "aws_bedrockagent_agent"
GROUP = "aws_bedrockagent_agent_action_group"
BASE = "aws_bedrockagent_agent_knowledge_base_association"
MEMBER = "aws_bedrockagent_agent_collaborator"
ALIAS = "aws_bedrockagent_agent_alias"


def agent(name: str, **values: Any) -> dict[str, Any]:
    return {
        "agent_name": name,
        "foundation_model": CLAUDE,
        "instruction": INSTRUCTION,
        "idle_session_ttl_in_seconds": 500,
        "description": None,
        "customer_encryption_key_arn": None,
        "prepare_agent": True,
        "skip_resource_in_use_check": False,
        "agent_collaboration": "DISABLED",
        "guardrail_configuration": [],
        "memory_configuration": [],
        "prompt_override_configuration": [],
        "tags": None,
        "timeouts": None,
        **values,
    }


def group(name: str, **values: Any) -> dict[str, Any]:
    return {
        "action_group_name": name,
        "agent_version": "DRAFT",
        "skip_resource_in_use_check": True,
        "description": None,
        "parent_action_group_signature": None,
        "action_group_executor": [{"custom_control": "RETURN_CONTROL", "lambda": None}],
        "api_schema": [],
        "function_schema": [],
        **values,
    }


def plan(
    resources: list[dict[str, Any]],
    configuration: list[dict[str, Any]] | None = None,
    *,
    children: list[dict[str, Any]] | None = None,
    calls: dict[str, Any] | None = None,
) -> dict[str, Any]:
    root = {"resources": resources, "child_modules": children or []}
    told = {"resources": configuration or [], "module_calls": calls or {}}
    return {
        "format_version": "1.2",
        "terraform_version": "1.9.8",
        "planned_values": {"root_module": root},
        "resource_changes": [],
        "configuration": {"root_module": told},
    }


def read(tmp_path: Path, told: dict[str, Any]) -> dict[str, Document]:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(told))
    found = read_source(file)
    assert found.format == "Terraform"
    return found.agents


def test_a_plan_is_read(tmp_path: Path) -> None:
    override = {
        "override_lambda": None,
        "prompt_configurations": [
            {
                "prompt_type": "ORCHESTRATION",
                "prompt_creation_mode": "OVERRIDDEN",
                "prompt_state": "ENABLED",
                "parser_mode": "DEFAULT",
                "base_prompt_template": TEMPLATE,
                "inference_configuration": [
                    {
                        "max_length": 2048,
                        "stop_sequences": ["</x>"],
                        "temperature": 0,
                        "top_k": 250,
                        "top_p": 1,
                    }
                ],
            }
        ],
    }
    parameters = [
        {
            "map_block_key": "visit_day",
            "type": "string",
            "description": "The day.",
            "required": True,
        }
    ]
    functions = [{"name": "book_visit", "description": "Book a visit.", "parameters": parameters}]
    memory = {"enabled_memory_types": ["SESSION_SUMMARY"], "storage_days": 30}
    resources = [
        resource(
            AGENT,
            "claims",
            agent(
                "claims",
                prompt_override_configuration=[override],
                memory_configuration=[memory],
                guardrail_configuration=[
                    {"guardrail_identifier": "abc123", "guardrail_version": "1"}
                ],
                tags={"owner_team": "claims"},
            ),
        ),
        resource(
            GROUP,
            "visits",
            group("visits", function_schema=[{"member_functions": [{"functions": functions}]}]),
        ),
        resource(
            GROUP,
            "claims",
            group(
                "claims",
                action_group_executor=[{}],
                api_schema=[{"payload": json.dumps(SCHEMA), "s3": []}],
            ),
        ),
        resource(BASE, "rules", {"description": "The rules.", "knowledge_base_state": "ENABLED"}),
        resource("aws_lambda_function", "claims", {"function_name": "claims-live"}),
    ]
    configuration = [
        configured(
            AGENT, "claims", agent_resource_role_arn=["aws_iam_role.r.arn", "aws_iam_role.r"]
        ),
        configured(GROUP, "visits", agent_id=[f"{AGENT}.claims.agent_id", f"{AGENT}.claims"]),
        {
            **configured(GROUP, "claims", agent_id=[f"{AGENT}.claims.agent_id", f"{AGENT}.claims"]),
        },
        configured(
            BASE,
            "rules",
            agent_id=[f"{AGENT}.claims.id", f"{AGENT}.claims"],
            knowledge_base_id=["aws_bedrockagent_knowledge_base.rules.id"],
        ),
    ]
    configuration[2]["expressions"]["action_group_executor"] = [
        {"lambda": {"references": ["aws_lambda_function.claims.arn", "aws_lambda_function.claims"]}}
    ]
    agents = read(tmp_path, plan(resources, configuration))
    assert [*agents] == [f"{AGENT}.claims"]
    [document] = agents.values()
    stages = document.data["promptOverrideConfiguration"]["promptConfigurations"]
    assert stages == [
        {
            "promptType": "ORCHESTRATION",
            "promptCreationMode": "OVERRIDDEN",
            "promptState": "ENABLED",
            "basePromptTemplate": TEMPLATE,
            "inferenceConfiguration": {
                "maximumLength": 2048,
                "stopSequences": ["</x>"],
                "temperature": 0,
                "topK": 250,
                "topP": 1,
            },
        }
    ]
    assert document.data["idleSessionTTLInSeconds"] == 500
    assert document.data["tags"] == {"owner_team": "claims"}
    assert document.data["memoryConfiguration"]["storageDays"] == 30
    assert document.data["guardrailConfiguration"]["guardrailIdentifier"] == "abc123"
    assert document.data["actionGroups"] == [
        {
            "actionGroupName": "visits",
            "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
            "functionSchema": {
                "functions": [
                    {
                        "name": "book_visit",
                        "description": "Book a visit.",
                        "parameters": {
                            "visit_day": {
                                "type": "string",
                                "description": "The day.",
                                "required": True,
                            }
                        },
                    }
                ]
            },
        },
        {
            "actionGroupName": "claims",
            "actionGroupExecutor": {
                "lambda": "arn:aws:lambda:us-east-1:000000000000:function:claims-live"
            },
            "apiSchema": {"payload": json.dumps(SCHEMA)},
        },
    ]
    [base] = document.data["knowledgeBases"]
    assert base["description"] == "The rules." and len(base["knowledgeBaseId"]) == 10
    told = " ".join(it.message for it in document.notes)
    assert "agent_resource_role_arn is known only when applied" in told
    assert "claims-live" in told and base["knowledgeBaseId"] in told
    assert "left out" not in told
    assert {*files_of(document)} == {
        "agent.yaml",
        "templates/orchestration.json",
        "action_groups/claims/openapi.json",
    }


@pytest.mark.parametrize(
    ("unknown", "names"), [({"QUEUE": True, "STAGE": False}, "QUEUE"), (True, "variables")]
)
def test_variables_that_a_plan_does_not_know_are_named(
    unknown: Any, names: str, tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "app.py").write_text("def find(event, context):\n    return {}\n")
    function = {
        "function_name": "finder",
        "handler": "app.find",
        "runtime": "python3.12",
        "filename": "code",
        "environment": [{"variables": {"STAGE": "test"}}],
    }
    executor = [{"lambda": "arn:aws:lambda:us-east-1:000000000000:function:finder"}]
    own = {"agent_id": "ABCDEFGHIJ"}
    told = plan(
        [
            resource(AGENT, "a", {**agent("a"), **own}),
            resource(GROUP, "g", {**group("g", action_group_executor=executor), **own}),
            resource("aws_lambda_function", "f", function),
        ]
    )
    change = {"after_unknown": {"environment": [{"variables": unknown}]}}
    told["resource_changes"] = [{"address": "aws_lambda_function.f", "change": change}]
    [document] = read(tmp_path, told).values()
    [part] = document.data["actionGroups"]
    assert part["environment"] == {"STAGE": "test"}
    [one] = [it for it in document.notes if it.code == "environment"]
    assert one.message.startswith(f"finder reads {names}: ")


def test_a_state_is_linked_by_ids(tmp_path: Path) -> None:
    one = agent("one", agent_id="AAAAAAAAAA", id="AAAAAAAAAA", agent_resource_role_arn=ROLE)
    two = agent("two", agent_id="BBBBBBBBBB", id="BBBBBBBBBB", agent_collaboration="SUPERVISOR")
    arn = "arn:aws:bedrock:eu-west-1:123456789012:agent-alias/AAAAAAAAAA/CCCCCCCCCC"
    executor = [{"custom_control": None, "lambda": FUNCTION}]
    member = {
        "agent_id": "BBBBBBBBBB",
        "collaborator_name": "one",
        "collaboration_instruction": "Its questions.",
        "relay_conversation_history": "TO_COLLABORATOR",
        "agent_descriptor": [{"alias_arn": arn}],
        "prepare_agent": True,
    }
    resources = [
        resource(AGENT, "one", one),
        resource(AGENT, "two", two),
        resource(GROUP, "g", group("g", agent_id="AAAAAAAAAA", action_group_executor=executor)),
        resource(MEMBER, "m", member),
    ]
    agents = read(tmp_path, {"values": {"root_module": {"resources": resources}}})
    first, second = agents.values()
    assert first.data["agentId"] == "AAAAAAAAAA"
    assert first.data["agentResourceRoleArn"] == ROLE
    assert [it["actionGroupName"] for it in first.data["actionGroups"]] == ["g"]
    assert "actionGroups" not in second.data
    assert second.team == {"one": first}
    assert first.notes == []


def test_a_team_in_modules_is_linked_by_references(tmp_path: Path) -> None:
    """A module makes an agent of its input; the root's supervisor takes its output."""
    module = {
        "resources": [
            configured(AGENT, "this"),
            configured(ALIAS, "live", agent_id=[f"{AGENT}.this.agent_id", f"{AGENT}.this"]),
            configured(GROUP, "own", agent_id=["var.agent_id"]),
        ],
        "outputs": {"alias_arn": {"expression": {"references": [f"{ALIAS}.live.agent_alias_arn"]}}},
    }
    calls = {
        "worker": {
            "source": "./agent",
            "expressions": {
                "agent_id": {"references": [f"{AGENT}.boss.agent_id", f"{AGENT}.boss"]}
            },
            "module": module,
        }
    }
    member = {
        "collaborator_name": "worker",
        "collaboration_instruction": "All else.",
        "agent_descriptor": [{}],
    }
    configuration = [
        configured(AGENT, "boss"),
        configured(MEMBER, "worker", agent_id=[f"{AGENT}.boss.agent_id", f"{AGENT}.boss"]),
    ]
    configuration[1]["expressions"]["agent_descriptor"] = [
        {"alias_arn": {"references": ["module.worker.alias_arn", "module.worker"]}}
    ]
    children = [
        {
            "address": "module.worker",
            "resources": [
                resource(AGENT, "this", agent("worker"), "module.worker."),
                resource(ALIAS, "live", {"agent_alias_name": "live"}, "module.worker."),
                resource(GROUP, "own", group("own"), "module.worker."),
            ],
        }
    ]
    resources = [
        resource(AGENT, "boss", agent("boss", agent_collaboration="SUPERVISOR")),
        resource(MEMBER, "worker", member),
    ]
    agents = read(tmp_path, plan(resources, configuration, children=children, calls=calls))
    boss, worker = agents[f"{AGENT}.boss"], agents[f"module.worker.{AGENT}.this"]
    assert boss.team == {"worker": worker}
    # The module's group belongs to the agent that it was given.
    assert [it["actionGroupName"] for it in boss.data["actionGroups"]] == ["own"]
    assert "actionGroups" not in worker.data


def test_one_of_many_is_told_by_its_index(tmp_path: Path) -> None:
    resources = [
        *(resource(AGENT, f'this["{key}"]', agent(key)) for key in ("eu", "us")),
        *(resource(GROUP, f'own["{key}"]', group(f"group-{key}")) for key in ("us", "eu")),
    ]
    configuration = [
        configured(AGENT, "this"),
        configured(GROUP, "own", agent_id=[f"{AGENT}.this", "each.key"]),
    ]
    agents = read(tmp_path, plan(resources, configuration))
    for key in ("eu", "us"):
        [one] = agents[f'{AGENT}.this["{key}"]'].data["actionGroups"]
        assert one["actionGroupName"] == f"group-{key}"


@pytest.mark.parametrize("key", [["visit_day"], {"a": "b"}, None])
def test_a_block_whose_key_is_no_text_is_named(tmp_path: Path, key: Any) -> None:
    functions = [{"name": "book", "parameters": [{"map_block_key": key, "type": "string"}]}]
    schema = [{"member_functions": [{"functions": functions}]}]
    resources = [
        resource(AGENT, "claims", agent("claims")),
        resource(GROUP, "visits", group("visits", function_schema=schema)),
    ]
    configuration = [configured(GROUP, "visits", agent_id=[f"{AGENT}.claims.agent_id"])]
    with pytest.raises(DefinitionError, match="stands where a mapping has to be"):
        read(tmp_path, plan(resources, configuration))


def test_a_plan_without_agents(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="no aws_bedrockagent_agent"):
        read(tmp_path, plan([]))


def test_modules_without_end_are_refused(tmp_path: Path) -> None:
    module: dict[str, Any] = {"resources": []}
    for _ in range(100):
        module = {"resources": [], "child_modules": [module]}
    with pytest.raises(DefinitionError, match="nested"):
        read(tmp_path, {"values": {"root_module": module}})


def test_inputs_that_name_each_other_end_somewhere(tmp_path: Path) -> None:
    module = {"outputs": {"a": {"expression": {"references": ["var.a"]}}}}
    expressions = {"a": {"references": ["module.m.a"]}}
    calls = {"m": {"expressions": expressions, "module": module}}
    resources = [resource(AGENT, "one", agent("one")), resource(GROUP, "g", group("g"))]
    configuration = [configured(GROUP, "g", agent_id=["module.m.a"])]
    [document] = read(tmp_path, plan(resources, configuration, calls=calls)).values()
    assert "actionGroups" not in document.data
