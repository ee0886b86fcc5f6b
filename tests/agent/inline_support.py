"""What the tests of inline agents share."""

from __future__ import annotations

from typing import Any

from orchestrator import Agent
from orchestrator.testing import ScriptedModel

TOOL_USE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
XML = "anthropic.claude-3-sonnet-20240229-v1:0"
RAW = "anthropic.claude-v2"
INSTRUCTION = "You help employees with their vacations, and with nothing else."
FUNCTIONS = {
    "functions": [
        {
            "name": "days_left",
            "description": "How many days are left.",
            "parameters": {
                "employee_id": {"type": "string", "description": "Who.", "required": True}
            },
        }
    ]
}


def called(name: str = "vacations__days_left", **arguments: Any) -> list[dict[str, Any]]:
    """A reply that calls a tool."""
    if name == "vacations__days_left":
        arguments = {"employee_id": "e-1"}
    use = {"toolUseId": "t-1", "name": name, "input": arguments}
    return [{"text": "<thinking>I call.</thinking>"}, {"toolUse": use}]


def scripted(*script: Any, model_id: str = TOOL_USE) -> ScriptedModel:
    return ScriptedModel(list(script), model_id)


def plain(model: ScriptedModel, **options: Any) -> Agent:
    """An agent without actions."""
    return Agent("plain", INSTRUCTION, model, **options)


def group(executor: Any, **changes: Any) -> dict[str, Any]:
    """An action group as a request has it."""
    return {
        "actionGroupName": "vacations",
        "actionGroupExecutor": executor,
        "functionSchema": FUNCTIONS,
        **changes,
    }


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """A Lambda handler that knows what is left."""
    body = {"TEXT": {"body": f"{event['parameters'][0]['value']} has 12 days"}}
    response = {
        "actionGroup": event["actionGroup"],
        "function": event["function"],
        "functionResponse": {"responseBody": body},
    }
    return {"messageVersion": "1.0", "response": response}


def last(model: ScriptedModel) -> list[dict[str, Any]]:
    """The last prompt's messages."""
    return list(model.requests[-1].messages)


def texts(model: ScriptedModel) -> str:
    """All texts of the last prompt."""
    return str(model.requests[-1].system) + str(last(model))
