"""Models, agents and programs that several tests of scripts use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from orchestrator import ActionGroup, Agent, ReturnControl
from orchestrator.flows import Flow
from orchestrator.testing import ScriptedModel

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
PLAIN = "mistral.mistral-7b-instruct-v0:2"
"""A model that cannot be made to call a tool."""


def scripted(*replies: Any, model_id: str = CLAUDE) -> ScriptedModel:
    return ScriptedModel(list(replies), model_id)


def program(*lines: str) -> Flow:
    return Flow.from_text("\n".join(lines), "pl")


def script(*lines: str) -> Flow:
    return Flow.from_text("\n".join(lines), "ppe")


def get_days(employee: str) -> dict[str, Any]:
    """The vacation days that an employee has left.

    Args:
        employee: The employee's id.
    """
    return {"left": {"7": 12, "8": 3}[employee], "of": employee}


def agent(
    flow: Any, *replies: Any, groups: Sequence[ActionGroup] | None = None, **more: Any
) -> Any:
    """An agent whose turns a script orchestrates, and its model."""
    model = scripted(*replies)
    own = [ActionGroup("vacations", [get_days])] if groups is None else groups
    made = Agent("hr", "You help.", model, action_groups=own, orchestration=flow, **more)
    return made, model


def handed_over(name: str = "pay") -> ActionGroup:
    """A group whose calls the caller carries out."""
    functions = [{"name": name, "description": "Pays.", "parameters": {"to": {"type": "string"}}}]
    return ActionGroup("bank", executor=ReturnControl(), functions=functions)


def texts(request: Any) -> list[str]:
    """What the messages of a request say."""
    return [block.get("text", "") for one in request.messages for block in one["content"]]


def statements(trace: Sequence[Any]) -> list[str]:
    """What a trace tells of statements."""
    told = [part["trace"].get("customOrchestrationTrace") for part in trace]
    return [one["event"]["text"] for one in told if one]


def as_stored(state: Any) -> Any:
    """A state as it comes back from a file."""
    return json.loads(json.dumps(state))
