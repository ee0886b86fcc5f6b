"""Importing whole projects: agents that others wrote as infrastructure code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from town import KINDS, TEMPLATE, copy_project, describe, hold_turns
from transfer_support import CLAUDE

from orchestrator.cli.lint import lint_agent
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
                "instruction": "You tell passengers when the ferry goes, which depends on the tide.",
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
                            "basePromptTemplate": '{"system":"$instruction$","messages":[{"role":"user","content":[{"text":"$question$"}]},{"role":"assistant","content":[{"text":"$agent_scratchpad$"}]}]}',
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
                "instruction": "You are the desk of a small library. You tell readers what they have borrowed and until when.",
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
            "garden": "[{'name': 'bed', 'type': 'string', 'value': 'B'}, {'name': 'minutes', 'type': 'integer', 'value': '5'}]",
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
