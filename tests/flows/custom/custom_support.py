"""What the tests of orchestrations share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from botocore_shapes import problems
from whole_agents import CLAUDE_35, Calls, agent

from orchestrator import Agent
from orchestrator.flows.custom import LambdaOrchestration
from orchestrator.testing import ScriptedModel

HANDLERS = Path(__file__).with_name("handlers")
LOOK = [
    {"text": "I look."},
    {"toolUse": {"toolUseId": "t1", "name": "vacations__get_days", "input": {"employee": "7"}}},
]


def model(*script: Any) -> ScriptedModel:
    return ScriptedModel(list(script), CLAUDE_35)


def handled(file: str, script: list[Any], **options: Any) -> tuple[Agent, ScriptedModel, Calls]:
    """An agent whose orchestration is a handler file."""
    calls, asked = Calls(), model(*script)
    orchestration = LambdaOrchestration(file, HANDLERS)
    return agent(asked, calls.groups(), orchestration=orchestration, **options), asked, calls


def replying(*replies: Any) -> tuple[LambdaOrchestration, list[dict[str, Any]]]:
    """An orchestration that returns these, and the events that it got."""
    events: list[dict[str, Any]] = []
    left = list(replies)

    def orchestrate(event: dict[str, Any]) -> Any:
        events.append(event)
        return left.pop(0)

    return LambdaOrchestration(orchestrate), events


def says(event: str, payload: Any, **context: Any) -> dict[str, Any]:
    """A reply of the contract."""
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return {"version": "1.0", "actionEvent": event, "output": {"text": text}, "context": context}


def asks(text: str, **members: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": [{"text": text}]}]
    return says("INVOKE_MODEL", {"messages": messages, **members})


def calls(name: str, **given: Any) -> dict[str, Any]:
    use = {"toolUseId": "own-1", "name": name, "input": given}
    return says("INVOKE_TOOL", {"toolUse": use})


def finishes(text: str) -> dict[str, Any]:
    return says("FINISH", text)


def told(reply: Any) -> list[str]:
    """The trace's members in order, its shapes checked: `custom` is an event's text."""
    found = []
    for part in reply.trace:
        assert problems(part) == []
        ((kind, trace),) = part["trace"].items()
        if kind == "customOrchestrationTrace":
            found.append(f"custom {trace['event']['text']}")
        elif kind in ("failureTrace", "guardrailTrace"):
            found.append(kind)
        else:
            ((member, value),) = trace.items()
            found.append(f"{member} {value['type']}" if member == "observation" else member)
    return found


Handler = Callable[[dict[str, Any]], Any]
