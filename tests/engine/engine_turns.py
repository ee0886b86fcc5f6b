"""What the tests of turns share: agents that hand calls over, and what replies and prompts say."""

from __future__ import annotations

from typing import Any

from whole_agents import INSTRUCTION

from orchestrator import ActionGroup, Agent, Reply, ReturnControl
from orchestrator.models import Model
from orchestrator.testing import FakeClock

CLOCK = FakeClock()
HOUSE = [
    {
        "name": "open_door",
        "description": "Opens a door.",
        "parameters": {"door": {"type": "string", "description": "Which.", "required": True}},
    },
    {
        "name": "light",
        "description": "Switches the light.",
        "parameters": {"on": {"type": "boolean", "description": "On or off.", "required": True}},
    },
]
_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
CLAIMS = {
    "openapi": "3.0.0",
    "info": {"title": "claims", "version": "1"},
    "paths": {
        "/claims/{id}": {
            "get": {
                "operationId": "get_claim",
                "description": "One claim.",
                "parameters": [_ID],
                "responses": {"200": {"description": "The claim."}},
            },
            "post": {
                "operationId": "remind",
                "description": "Sends a reminder.",
                "parameters": [_ID],
                "requestBody": {"content": {"application/json": {"schema": _TEXT}}},
                "responses": {"200": {"description": "Done."}},
            },
        }
    },
}


def roc_agent(model: Model, *groups: ActionGroup, **options: Any) -> Agent:
    """An agent whose `house` and `claims` are carried out by the caller."""
    handed_over = [
        ActionGroup("house", functions=HOUSE, executor=ReturnControl()),
        ActionGroup("claims", api_schema=CLAIMS, executor=ReturnControl()),
    ]
    return Agent("house", INSTRUCTION, model, action_groups=[*handed_over, *groups], **options)


def told(reply: Reply) -> dict[str, Any]:
    """A reply's members, without what it cost."""
    return {key: value for key, value in reply.as_dict().items() if key != "usage"}


def results_of(request: Any) -> list[str]:
    """The texts of the results in a prompt's last message."""
    found = []
    for block in request.messages[-1]["content"]:
        if "toolResult" in block:
            found += [inner["text"] for inner in block["toolResult"]["content"]]
        elif "text" in block:
            found += _written_results(block["text"])
    return found


def _written_results(text: str) -> list[str]:
    found = []
    tag = "stdout" if "<stdout>" in text else "error"
    for piece in text.split(f"<{tag}>")[1:]:
        found.append(piece.partition(f"</{tag}>")[0].strip())
    return found
