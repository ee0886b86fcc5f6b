"""Importing whole projects: agents that others wrote as infrastructure code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import fill
from typing import Any

import pytest
from inline_snapshot import snapshot
from town import FERRY, KINDS, LIBRARY, TEMPLATE, copy_project, describe, hold_turns
from transfer_support import CLAUDE

from orchestrator.agent.lint import lint_agent
from orchestrator.errors import DefinitionError, DependencyFailed, ValidationError
from orchestrator.transfer import files_of, read_source, write_files
from orchestrator.transfer.sources import ImportedAgents


def write_all(found: ImportedAgents, folder: Path) -> Path:
    for document in found.agents.values():
        write_files(files_of(document), folder / document.name)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_tells_the_same_agents(kind: str, tmp_path: Path) -> None:
    found = read_source(copy_project(kind, tmp_path))
    assert describe(found) == snapshot(
        {
            "ferry": {
                "agentName": "ferry",
                "foundationModel": "anthropic.claude-3-5-sonnet-20240620-v1:0",
                "agentCollaboration": "SUPERVISOR",
                "instruction": FERRY,
                "agentCollaborators": [
                    {
                        "collaboratorName": "tides",
                        "collaborationInstruction": "Ask it when the water is high.",
                        "relayConversationHistory": "TO_COLLABORATOR",
                    }
                ],
            },
            "garden": {
                "agentName": "garden",
                "foundationModel": "anthropic.claude-3-5-sonnet-20240620-v1:0",
                "instruction": """\
You look after the town's garden.
  You say "please", and you never water at ${noon}.
""",
                "guardrailConfiguration": {"file": "guardrail.yaml"},
                "actionGroups": [
                    {
                        "actionGroupName": "watering",
                        "actionGroupExecutor": {"customControl": "RETURN_CONTROL", "lambda": ""},
                        "functionSchema": {
                            "functions": [
                                {
                                    "name": "water_bed",
                                    "description": "Waters one bed.",
                                    "parameters": {
                                        "bed": {
                                            "type": "string",
                                            "description": "Which bed, by its letter.",
                                            "required": True,
                                        },
                                        "minutes": {
                                            "type": "integer",
                                            "description": "How long, in minutes.",
                                            "required": True,
                                        },
                                    },
                                }
                            ]
                        },
                        "apiSchema": {},
                    }
                ],
                "promptOverrideConfiguration": {
                    "promptConfigurations": [
                        {
                            "promptType": "ORCHESTRATION",
                            "promptCreationMode": "OVERRIDDEN",
                            "promptState": "ENABLED",
                            "basePromptTemplate": TEMPLATE,
                            "inferenceConfiguration": {
                                "maximumLength": 512,
                                "temperature": 0,
                                "topK": 250,
                                "topP": 1,
                                "stopSequences": ["</answer>"],
                            },
                        }
                    ]
                },
            },
            "library": {
                "agentName": "library",
                "foundationModel": "anthropic.claude-3-5-sonnet-20240620-v1:0",
                "idleSessionTTLInSeconds": 900,
                "instruction": LIBRARY,
                "actionGroups": [
                    {
                        "actionGroupName": "loans",
                        "apiSchema": {
                            "openapi": "3.0.0",
                            "info": {"title": "loans", "version": "1"},
                            "paths": {
                                "/loans/{reader}": {
                                    "get": {
                                        "operationId": "listLoans",
                                        "description": "Lists what a reader has borrowed.",
                                        "parameters": [
                                            {
                                                "name": "reader",
                                                "in": "path",
                                                "required": True,
                                                "description": "The number on the reader's card.",
                                                "schema": {"type": "string"},
                                            }
                                        ],
                                        "responses": {"200": {"description": "The loans."}},
                                    }
                                }
                            },
                        },
                        "actionGroupExecutor": {"lambda": "lambda_handler"},
                        "environment": {"LOAN_DAYS": "21"},
                    }
                ],
            },
            "tides": {
                "agentName": "tides",
                "foundationModel": "anthropic.claude-3-5-sonnet-20240620-v1:0",
                "instruction": "You know when the water is high, at every pier of the town.",
                "actionGroups": [
                    {
                        "actionGroupName": "water",
                        "actionGroupExecutor": {"lambda": "answer"},
                        "functionSchema": {
                            "functions": [
                                {
                                    "name": "high_water",
                                    "description": "When the water is high.",
                                    "parameters": {
                                        "pier": {
                                            "type": "string",
                                            "description": "The pier.",
                                            "required": True,
                                        }
                                    },
                                }
                            ]
                        },
                        "apiSchema": {},
                    }
                ],
            },
        }
    )


@pytest.mark.parametrize("kind", KINDS)
def test_imported_agents_hold_turns_without_an_edit(kind: str, tmp_path: Path) -> None:
    found = read_source(copy_project(kind, tmp_path))
    assert hold_turns(write_all(found, tmp_path / "agents")) == snapshot(
        {
            "library": '{"titles": ["A Field Guide to Moss, lent to 7"], "days": "21"} Moss.',
            "garden": "water_bed: bed=B, minutes=5",
            "garden, guarded": "Let us talk about the garden.",
            "ferry": "High water at A is at noon. At noon.",
        }
    )


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_nothing_to_decide_and_nothing_to_complain_about(
    kind: str, tmp_path: Path
) -> None:
    found = read_source(copy_project(kind, tmp_path))
    notes = [it for one in found.agents.values() for it in one.all_notes()]
    assert [it.message for it in notes if it.code != "role"] == []
    folder = write_all(found, tmp_path / "agents")
    findings = [it for name in ("library", "garden", "ferry") for it in lint_agent(folder / name)]
    assert [it.message for it in findings if it.severity != "info"] == []


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def show_notes(found: ImportedAgents, folder: Path) -> str:
    """The notes with their places and ways out, as the table has them, but for roles."""
    notes = [*found.notes, *(it for one in found.agents.values() for it in one.all_notes())]
    return "\n".join(
        f"{Path(it.file or '').relative_to(folder).as_posix()}:{it.line}\n"
        + fill(f"{it.message} = {it.suggestion}", 90, break_long_words=False)
        for it in notes
        if it.code != "role"
    )


AGENT = """
resource "aws_bedrockagent_agent" "a" {
  agent_name  = "a"
  %s
}
"""


def test_what_sources_do_not_tell_is_named_with_its_place(tmp_path: Path) -> None:
    source = """variable "model" {}
module "net" { source = "terraform-aws-modules/vpc/aws" }
resource "aws_bedrockagent_agent" "a" {
  agent_name       = "a-${random_id.x.hex}"
  foundation_model = var.model
  description      = cidrsubnet("10.0.0.0/8", 8, 2)
  instruction      = file("missing.txt")
  customer_encryption_key_arn = module.net.key
  tags = { owner = data.aws_ssm_parameter.owner.value, ours = "yes" }
  prompt_override_configuration {
    prompt_configurations {
      prompt_type          = "ORCHESTRATION"
      prompt_creation_mode = "OVERRIDDEN"
      prompt_state         = "ENABLED"
      base_prompt_template = "%{ if true }x%{ endif }"
    }
  }
}
resource "aws_bedrockagent_agent_action_group" "g" {
  agent_id          = aws_bedrockagent_agent.a.id
  action_group_name = "g"
  action_group_executor { lambda = aws_lambda_function.f.arn }
  function_schema {
    member_functions {
      dynamic "functions" {
        for_each = var.functions
        content { name = functions.key }
      }
    }
  }
}
resource "aws_lambda_function" "f" {
  function_name = "f"
  filename      = "f.zip"
  handler       = "index.handler"
  runtime       = "nodejs22.x"
}
resource "aws_bedrockagent_agent_knowledge_base_association" "k" {
  agent_id          = aws_bedrockagent_agent.a.id
  knowledge_base_id = aws_bedrockagent_knowledge_base.k.id
  description       = "Rules."
}
resource "aws_bedrockagent_knowledge_base" "k" { name = "k" }
"""
    found = read_source(write(tmp_path, {"main.tf": source}))
    assert show_notes(found, tmp_path) == snapshot("""\
main.tf:4
random_id.x.hex is not in the sources; 'UNKNOWN-random-id-x-hex' stands for it = change it
in agent.yaml
main.tf:5
foundation_model (var.model) has no default = give --parameter model=VALUE, or change it
in agent.yaml
main.tf:6
description (cidrsubnet(…)) is not worked out here = change it in agent.yaml
main.tf:7
instruction (file('missing.txt')) cannot be read: there is no file 'missing.txt' = change
it in agent.yaml
main.tf:8
customer_encryption_key_arn (module.net.key) is of a module that is not here (terraform-
aws-modules/vpc/aws) = import the JSON of `terraform show -json`, which has all modules
main.tf:9
tags.owner (data.aws_ssm_parameter.owner.value) is not in the sources = change it in
agent.yaml
main.tf:15
prompt_override_configuration.prompt_configurations.base_prompt_template (a %{…} directive
in a text) is not worked out here = change it in agent.yaml
main.tf:27
function_schema.member_functions.functions (var.functions) has no default = give
--parameter functions=VALUE, or change it in agent.yaml
main.tf:40
aws_bedrockagent_knowledge_base.k.id is known only when applied; 'AWSBE6B392' stands for
it = write the id of a knowledge base, or add `folder:` with documents
main.tf:32
a-UNKNOWN-random-id-x-hex: g calls arn:aws:lambda:us-east-1:000000000000:function:f, whose
code stays: it runs nodejs22.x, and handlers here are Python = put a handler file in the
folder and name it, or set customControl: RETURN_CONTROL\
""")
    [document] = found.agents.values()
    assert document.data["tags"] == {"ours": "yes"}


def test_variables_come_from_files_and_from_the_command(tmp_path: Path) -> None:
    source = """
variable "name" {}
variable "model" {}
variable "stage" { default = "test" }
resource "aws_bedrockagent_agent" "a" {
  agent_name       = "${var.name}-${var.stage}"
  foundation_model = var.model
}
"""
    files = {"main.tf": source, "terraform.tfvars": 'name = "claims"\nstage = "x"\n'}
    folder = write(tmp_path, {**files, "live.auto.tfvars": 'stage = "live"\n'})
    [document] = read_source(folder, parameters={"model": CLAUDE}).agents.values()
    assert (document.name, document.data["foundationModel"]) == ("claims-live", CLAUDE)


EXPRESSIONS: list[tuple[str, Any]] = [
    ('"a\\n\\"b\\u00e9 $${no} %%{no} ${"in"}"', 'a\n"bé ${no} %{no} in'),
    ("[1, -2, 1.5, true, null]", [1, -2, 1.5, True, None]),
    ('{ a = 1, "b c" : [2], (local.k) = 3 }', {"a": 1, "b c": [2], "key": 3}),
    ("local.list[1].name", "two"),
    ("local.list[*].name", ["one", "two"]),
    ('local.map["x"]', "y"),
    ('[for it in local.list : upper(it.name) if it.name != "one"]', ["TWO"]),
    ("{ for k, v in local.map : v => k }", {"y": "x"}),
    (
        '{ for it in ["ab", "c", "ad"] : substr(it, 0, 1) => it... }',
        {"a": ["ab", "ad"], "c": ["c"]},
    ),
    ("{ for it in local.list : it.name => 1... if it.name != local.k }", {"one": [1], "two": [1]}),
    ("can({ for it in local.list : local.k => it.name })", False),
    ('1 + 2 * 3 == 7 && !false ? "yes" : "no"', "yes"),
    ('join(", ", concat(["a"], ["b"]))', "a, b"),
    ('format("%s-%d%%", "a", 5)', "a-5%"),
    ("merge(local.map, { z = 1 })", {"x": "y", "z": 1}),
    ('jsonencode({ a = [1, true], "b" = null })', '{"a":[1,true],"b":null}'),
    ('jsondecode("{\\"a\\": 1}").a', 1),
    ('yamldecode("a: [1]").a[0]', 1),
    ('replace("a.b", ".", "-")', "a-b"),
    ('lookup(local.map, "no", "else")', "else"),
    ('try(local.nothing, "else")', "else"),
    ("try(local.list, [])", [{"name": "one"}, {"name": "two"}]),
    ("try([], local.list)", []),
    ('try(local.map.no, local.list[7], "else")', "else"),
    ('try(null, "else")', None),
    ("[can(local.map.x), can(local.map.no)]", [True, False]),
    ('coalesce(null, "", "b")', "b"),
    ('try(coalesce("", null), coalesce(), "else")', "else"),
    ('[one([]), one(["a"])]', [None, "a"]),
    ('join("\\n", ["a", "b"])', "a\nb"),
    ('split("\\n", "a\\nb")', ["a", "b"]),
    ('"\\n${local.k}\\n"', "\nkey\n"),
    ('templatefile("t.txt", { who = "you" })', 'Hello you, "friend"\n'),
    ("path.module", "."),
    ("terraform.workspace", "default"),
    ("length(local.list)", 2),
    ("<<-EOT\n    a \\n\n      ${local.k}\n    EOT\n", "a \\n\n  key\n"),
]


@pytest.mark.parametrize(("expression", "value"), EXPRESSIONS)
def test_expressions(expression: str, value: Any, tmp_path: Path) -> None:
    source = (
        'locals {\n k = "key"\n list = [{ name = "one" }, { name = "two" }]\n map = { x = "y" }\n'
        f" value = {expression}\n}}\n" + AGENT % "description = jsonencode(local.value)"
    )
    folder = write(tmp_path, {"main.tf": source, "t.txt": 'Hello ${who}, "friend"\n'})
    [document] = read_source(folder).agents.values()
    assert json.loads(document.data["description"]) == value


def test_attributes_that_are_optional_have_the_defaults_of_their_types(tmp_path: Path) -> None:
    module = """
variable "team" {
  type = object({
    about = optional(string, "A team.")
    tools = optional(map(object({
      about   = optional(string)
      enabled = optional(bool, false)
      inputs  = optional(list(object({ name = string, type = optional(string, "string") })), [])
    })), {})
  })
}
resource "aws_bedrockagent_agent" "a" {
  agent_name  = "a"
  description = var.team.about
}
resource "aws_bedrockagent_agent_action_group" "g" {
  for_each           = var.team.tools
  agent_id           = aws_bedrockagent_agent.a.agent_id
  action_group_name  = each.key
  description        = each.value.about
  action_group_state = each.value.enabled ? "ENABLED" : "DISABLED"
  action_group_executor { custom_control = "RETURN_CONTROL" }
  function_schema {
    member_functions {
      functions {
        name = each.key
        dynamic "parameters" {
          for_each = each.value.inputs
          content {
            map_block_key = parameters.value.name
            type          = parameters.value.type
          }
        }
      }
    }
  }
}
"""
    source = """
module "team" {
  source = "./team"
  team   = { about = null, tools = { dig = { inputs = [{ name = "depth" }] } } }
}
"""
    found = read_source(write(tmp_path, {"main.tf": source, "team/main.tf": module}))
    [document] = found.agents.values()
    [group] = document.data["actionGroups"]
    assert document.data["description"] == "A team."
    assert group["actionGroupState"] == "DISABLED"
    assert "description" not in group
    [function] = group["functionSchema"]["functions"]
    assert function["parameters"] == {"depth": {"type": "string"}}
    assert document.notes == []


def test_instances_have_their_own_parts(tmp_path: Path) -> None:
    source = """
resource "aws_bedrockagent_agent" "a" {
  for_each   = { eu = "Europe", us = "America" }
  agent_name = each.key
  instruction = "You know ${each.value}."
}
resource "aws_bedrockagent_agent_action_group" "g" {
  for_each          = aws_bedrockagent_agent.a
  agent_id          = each.value.agent_id
  action_group_name = "g-${each.key}"
  action_group_executor { custom_control = "RETURN_CONTROL" }
}
resource "aws_bedrockagent_agent" "numbered" {
  count      = 2
  agent_name = "n${count.index}"
}
resource "aws_bedrockagent_agent" "none" {
  count      = 0
  agent_name = "none"
}
"""
    found = read_source(write(tmp_path, {"main.tf": source}))
    groups = {
        one.name: [it["actionGroupName"] for it in one.parts("actionGroups")]
        for one in found.agents.values()
    }
    assert groups == {"eu": ["g-eu"], "us": ["g-us"], "n0": [], "n1": []}


def test_a_registrys_lambda_module_brings_its_code(tmp_path: Path) -> None:
    source = """
module "fn" {
  source                = "terraform-aws-modules/lambda/aws"
  function_name         = "finder"
  handler               = "src/app.find"
  runtime               = "python3.12"
  source_path           = "${path.module}/code"
  environment_variables = { DEPTH = 3 }
}
resource "aws_bedrockagent_agent" "a" { agent_name = "a" }
resource "aws_bedrockagent_agent_action_group" "g" {
  agent_id          = aws_bedrockagent_agent.a.agent_id
  action_group_name = "g"
  action_group_executor { lambda = module.fn.lambda_function_arn }
}
"""
    code = {"code/src/app.py": "def find(event, context):\n    return {}\n", "code/src/b.py": ""}
    [document] = read_source(write(tmp_path, {"main.tf": source, **code})).agents.values()
    [group] = document.data["actionGroups"]
    spec = "functions/finder/src_app_entry.py:find"
    assert group["actionGroupExecutor"] == {"lambda": spec}
    assert group["environment"] == {"DEPTH": "3"}
    # Lambda imports from the outermost folder, and so does the file that was made.
    assert document.code["functions/finder/src_app_entry.py"] == "from src.app import find\n"
    assert {"functions/finder/src/app.py", "functions/finder/src/b.py"} <= document.code.keys()


LAMBDA = """
module "table" { source = "terraform-aws-modules/dynamodb-table/aws" }
resource "aws_s3_bucket" "b" { bucket = "books" }
module "fn" {
  source                = "terraform-aws-modules/lambda/aws"
  function_name         = "finder"
  handler               = "app.find"
  runtime               = "python3.12"
  environment_variables = {
    TABLE  = module.table.dynamodb_table_id
    BUCKET = aws_s3_bucket.b.id
    KEY    = var.key
  }
  %s
}
variable "key" { sensitive = true }
resource "aws_bedrockagent_agent" "a" { agent_name = "a" }
resource "aws_bedrockagent_agent_action_group" "g" {
  agent_id          = aws_bedrockagent_agent.a.agent_id
  action_group_name = "g"
  action_group_executor { lambda = module.fn.lambda_function_arn }
}
"""


@pytest.mark.parametrize(
    "paths",
    [
        'source_path = ["./code"]',
        'source_path = [{ path = "${path.module}/code", pip_requirements = true }]',
    ],
)
def test_variables_that_are_not_known_are_named(paths: str, tmp_path: Path) -> None:
    code = {"code/app.py": "def find(event, context):\n    return {}\n"}
    folder = write(tmp_path, {"main.tf": LAMBDA % paths, **code})
    [document] = read_source(folder).agents.values()
    [group] = document.data["actionGroups"]
    assert group["actionGroupExecutor"]["lambda"] == "functions/finder/app.py:find"
    assert group["environment"] == {"BUCKET": "books"}
    [one] = document.notes
    assert one.message == "finder reads KEY, TABLE: the sources do not tell what they are"
    assert (one.file, one.line) == (str(folder / "main.tf"), 4)


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        ('local_existing_package = "build/finder.zip"', "the archive 'build/finder.zip'"),
        ('source_path = ["./code", "./more"]', "its code is in several folders"),
    ],
)
def test_a_registrys_lambda_module_says_why_its_code_stays(
    paths: str, reason: str, tmp_path: Path
) -> None:
    [document] = read_source(write(tmp_path, {"main.tf": LAMBDA % paths})).agents.values()
    [one] = document.notes
    assert one.code == "code" and reason in one.message


REGISTRY = """
module "bases" {
  source       = "aws-ia/bedrock/aws"
  create_agent = false
}
module "desk" {
  source     = "aws-ia/bedrock/aws"
  agent_name = "desk"
}
"""


def test_agents_of_a_registrys_module_are_missed_aloud(tmp_path: Path) -> None:
    folder = write(tmp_path, {"main.tf": REGISTRY})
    for path in (folder, folder / "main.tf"):
        with pytest.raises(DefinitionError, match=r"module\.desk: what a module") as caught:
            read_source(path)
        assert "terraform show -json" in caught.value.reason
        assert (caught.value.file, caught.value.line) == (str(folder / "main.tf"), 6)
    (folder / "agent.tf").write_text(AGENT % "")
    found = read_source(folder)
    assert len(found.agents) == 1
    [one] = found.notes
    assert one.message == (
        "module.desk: what a module that is not here (aws-ia/bedrock/aws) makes is not read"
    )
    assert (one.file, one.line) == (str(folder / "main.tf"), 6)


def test_parts_whose_names_are_not_known_do_not_hold_up_the_agent(tmp_path: Path) -> None:
    source = """
resource "aws_bedrockagent_agent" "a" { agent_name = "a" }
resource "aws_bedrockagent_agent_action_group" "g" {
  for_each          = var.groups
  agent_id          = aws_bedrockagent_agent.a.agent_id
  action_group_name = each.key
}
resource "aws_bedrockagent_agent_collaborator" "c" {
  agent_id          = aws_bedrockagent_agent.a.agent_id
  collaborator_name = var.groups.first
}
variable "groups" {}
"""
    folder = write(tmp_path, {"main.tf": source})
    [document] = read_source(folder).agents.values()
    assert not document.data.get("actionGroups") and not document.data.get("agentCollaborators")
    assert [(it.message, it.line) for it in document.notes] == [
        (
            "aws_bedrockagent_agent_action_group.g is left out: action_group_name (each.value) "
            "comes from a for_each that is not known",
            6,
        ),
        (
            "aws_bedrockagent_agent_collaborator.c is left out: collaborator_name "
            "(var.groups.first) has no default",
            10,
        ),
    ]


def test_a_part_that_names_nothing_here_has_its_own_place(tmp_path: Path) -> None:
    source = """
resource "aws_bedrockagent_agent" "a" { agent_name = "a" }
resource "aws_bedrockagent_agent_action_group" "g" {
  agent_id          = aws_bedrockagent_agent.a.agent_id
  action_group_name = "g"
  action_group_executor { lambda = aws_lambda_function.of_another_folder.arn }
  function_schema {
    member_functions {
      functions { name = "f" }
    }
  }
}
"""
    folder = write(tmp_path, {"main.tf": source})
    [document] = read_source(folder).agents.values()
    [one] = document.notes
    assert (one.file, one.line) == (str(folder / "main.tf"), 3)


def test_a_schema_in_s3_comes_from_its_object(tmp_path: Path) -> None:
    source = """
resource "aws_s3_bucket" "b" { bucket = "schemas" }
resource "aws_s3_object" "s" {
  bucket = aws_s3_bucket.b.id
  key    = "pets.yaml"
  source = "${path.module}/pets.yaml"
}
resource "aws_bedrockagent_agent" "a" { agent_name = "a" }
resource "aws_bedrockagent_agent_action_group" "g" {
  agent_id          = aws_bedrockagent_agent.a.agent_id
  action_group_name = "g"
  action_group_executor { custom_control = "RETURN_CONTROL" }
  api_schema {
    s3 {
      s3_bucket_name = aws_s3_bucket.b.id
      s3_object_key  = aws_s3_object.s.key
    }
  }
}
"""
    schema = "openapi: 3.0.0\npaths: {}\n"
    [document] = read_source(
        write(tmp_path, {"main.tf": source, "pets.yaml": schema})
    ).agents.values()
    assert document.data["actionGroups"][0]["apiSchema"] == {"payload": schema}


def test_the_other_provider_has_whole_agents(tmp_path: Path) -> None:
    source = """
resource "awscc_bedrock_agent" "led" { agent_name = "led" }
resource "awscc_bedrock_agent_alias" "led" {
  agent_alias_name = "live"
  agent_id         = awscc_bedrock_agent.led.agent_id
}
resource "awscc_bedrock_agent" "a" {
  agent_name    = "a"
  action_groups = [{
    action_group_name     = "g"
    action_group_executor = { custom_control = "RETURN_CONTROL" }
    function_schema       = { functions = [{ name = "f", description = "Does it." }] }
  }]
  agent_collaboration = "SUPERVISOR"
  agent_collaborators = [{
    collaborator_name         = "led"
    collaboration_instruction = "All else."
    agent_descriptor          = { alias_arn = awscc_bedrock_agent_alias.led.agent_alias_arn }
  }]
}
"""
    found = read_source(write(tmp_path, {"main.tf": source}))
    [boss] = found.find_top_level().values()
    assert boss.team["led"].name == "led"
    assert boss.data["actionGroups"] == [
        {
            "actionGroupName": "g",
            "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
            "functionSchema": {"functions": [{"name": "f", "description": "Does it."}]},
        }
    ]


def test_of_one_agent_in_several_forms_one_is_taken(tmp_path: Path) -> None:
    folder = copy_project("tfstate", tmp_path)
    copy_project("sam", folder)
    main = Path(__file__).parent / "projects" / "terraform" / "main.tf"
    write(folder / "old", {"main.tf": AGENT % ""})
    write(folder / "dumps", {"agent.json": json.dumps({"agent": {"agentName": "library"}})})
    write(folder / "node_modules" / "x", {"main.tf": main.read_text()})
    found = read_source(folder)
    assert found.format == "CloudFormation, Terraform, Terraform's sources, GetAgent"
    assert [it.name for it in found.agents.values()] == ["library", "garden", "ferry", "a"]
    assert show_notes(found, folder) == snapshot("""\
terraform.tfstate:None
library is here, too; it was taken from sam/template.yaml = import this file alone to take
it from here
terraform.tfstate:None
garden is here, too; it was taken from sam/template.yaml = import this file alone to take
it from here
terraform.tfstate:None
ferry is here, too; it was taken from sam/template.yaml = import this file alone to take
it from here
dumps/agent.json:None
library is here, too; it was taken from sam/template.yaml = import this file alone to take
it from here\
""")


def test_answers_of_the_api_find_their_agents(tmp_path: Path) -> None:
    def answer(name: str, id: str) -> dict[str, str]:
        agent = {"agentName": name, "agentId": id, "instruction": "You help with everything here."}
        group = {"agentId": id, "actionGroupName": f"{name}-own", "functionSchema": {}}
        group["actionGroupExecutor"] = {"customControl": "RETURN_CONTROL"}
        return {
            f"dumps/{name}.json": json.dumps({"agent": agent}),
            f"dumps/{name}-group.json": json.dumps({"agentActionGroup": group}),
        }

    files = {**answer("one", "AAAAAAAAAA"), **answer("two", "BBBBBBBBBB")}
    found = read_source(write(tmp_path, {**files, "package.json": '{"agentName": 3}'}))
    groups = [
        (one.name, [it["actionGroupName"] for it in one.parts("actionGroups")])
        for one in found.agents.values()
    ]
    assert groups == [("one", ["one-own"]), ("two", ["two-own"])]


def test_a_template_may_be_called_as_the_file_of_an_agent_here_is(tmp_path: Path) -> None:
    template = {"Type": "AWS::Bedrock::Agent", "Properties": {"AgentName": "deployed"}}
    files = {
        "stack/agent.yaml": json.dumps({"Resources": {"Agent": template}}),
        "here/agent.yaml": "agentName: here\ninstruction: You know what AWS::Bedrock::Agent is.\n",
    }
    found = read_source(write(tmp_path, files))
    assert [it.name for it in found.agents.values()] == ["deployed"]
    assert found.notes == []


def test_what_cannot_be_read_does_not_hold_up_the_rest(tmp_path: Path) -> None:
    files = {
        "good/main.tf": AGENT % "",
        "bad/main.tf": 'resource "aws_bedrockagent_agent" "b" {\n  agent_name = \n}\n',
        "worse.yaml": "Resources: {A: {Type: AWS::Bedrock::Agent, Properties: [",
    }
    found = read_source(write(tmp_path, files))
    assert [it.name for it in found.agents.values()] == ["a"]
    assert show_notes(found, tmp_path) == snapshot("""\
worse.yaml:1
not read: this is not YAML: expected the node content, but found '<stream end>' while
parsing a flow node = mend it and import again, if agents of it are missing here
bad/main.tf:2
not read: this is not Terraform's language = mend it and import again, if agents of it are
missing here\
""")
    with pytest.raises(DefinitionError, match="this is not Terraform's language"):
        read_source(tmp_path / "bad")
    with pytest.raises(ValidationError, match="holds no agent"):
        read_source(write(tmp_path / "empty", {"main.tf": "", "a.json": "{}"}))


def test_without_the_extra_there_is_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hcl2", None)
    write(tmp_path, {"main.tf": AGENT % ""})
    with pytest.raises(DependencyFailed, match=r"bedrock-orchestrator\[terraform\]"):
        read_source(tmp_path / "main.tf")
    with pytest.raises(DefinitionError, match=r"bedrock-orchestrator\[terraform\]"):
        read_source(tmp_path)
    dump = '{"agent": {"agentName": "b", "instruction": "You help."}}'
    (one,) = read_source(write(tmp_path, {"more/agent.json": dump})).notes
    assert one.suggestion == "install it and import again"
    # The JSON of plans and states needs nothing.
    assert len(read_source(copy_project("plan", tmp_path / "plans")).agents) == 3


def test_an_agent_that_is_wrong_does_not_hold_up_the_rest(tmp_path: Path) -> None:
    source = (
        AGENT % ""
        + """
resource "aws_bedrockagent_agent" "wrong" {
  agent_name          = "wrong"
  agent_collaboration = "PERHAPS"
}
"""
    )
    found = read_source(write(tmp_path, {"main.tf": source}))
    assert [it.name for it in found.agents.values()] == ["a"]
    assert "main.tf:7\nnot read: the agent 'wrong' is not transferred" in show_notes(
        found, tmp_path
    )


def test_functions_of_nearly_one_name_have_folders_of_their_own(tmp_path: Path) -> None:
    source = AGENT % ""
    for number, name in enumerate(("do it", "do.it")):
        source += f"""
resource "aws_lambda_function" "f{number}" {{
  function_name = "{name}"
  filename      = "code{number}.py"
  handler       = "code{number}.handler"
  runtime       = "python3.13"
}}
resource "aws_bedrockagent_agent_action_group" "g{number}" {{
  agent_id          = aws_bedrockagent_agent.a.agent_id
  action_group_name = "g{number}"
  action_group_executor {{ lambda = aws_lambda_function.f{number}.arn }}
}}
"""
    code = {f"code{number}.py": "def handler(event, context): ..." for number in (0, 1)}
    [document] = read_source(write(tmp_path, {"main.tf": source, **code})).agents.values()
    assert len(document.code) == 2
    assert len({it.rpartition("/")[0] for it in document.code}) == 2
