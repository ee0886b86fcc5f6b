"""Requests for the tests of backends."""

from __future__ import annotations

from typing import Any

from orchestrator.message import Message
from orchestrator.models import ModelRequest

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
NOVA = "us.amazon.nova-lite-v1:0"
TOOLS = (
    {
        "toolSpec": {
            "name": "GET__claims__list",
            "description": "Lists claims.",
            "inputSchema": {"json": {"type": "object", "properties": {"city": {"type": "string"}}}},
        }
    },
)


def user(*texts: str) -> Message:
    return Message("user", [{"text": text} for text in texts])


def assistant(*texts: str) -> Message:
    return Message("assistant", [{"text": text} for text in texts])


def step(number: int, result: str = "3 claims") -> list[Message]:
    call = {"toolUseId": f"t{number}", "name": "GET__claims__list", "input": {"city": "Rome"}}
    answer = {"toolUseId": f"t{number}", "content": [{"text": result}], "status": "success"}
    return [
        Message("assistant", [{"text": "I look."}, {"toolUse": call}]),
        Message("user", [{"toolResult": answer}]),
    ]


def ask(*messages: Message, system: str = "Be brief.", **members: Any) -> ModelRequest:
    return ModelRequest("ORCHESTRATION", system, messages or (user("Hello"),), **members)
