"""Models, agents and programs that several tests of scripts use."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from orchestrator import ActionGroup, Agent, Flow, ReturnControl
from orchestrator.models.base import Model, ModelReply, ModelRequest, Usage
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


class Echo(Model):
    """Says the same whenever it is asked the same, whoever is asked first.

    Attributes:
        asked: The texts that it was asked, in order.
        most: How many were asked at the same time.
    """

    def __init__(self, answer: Callable[[str], str | Exception] = "<{}>".format) -> None:
        self.model_id = CLAUDE
        self.asked: list[str] = []
        self.most = self._now = 0
        self._answer = answer
        self._lock = threading.Lock()

    def complete(self, request: ModelRequest) -> ModelReply:
        text = "\n".join(texts(request))
        with self._lock:
            self.asked.append(text)
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            said = self._answer(text)
        finally:
            with self._lock:
                self._now -= 1
        if isinstance(said, Exception):
            raise said
        return ModelReply([{"text": said}], "end_turn", Usage(5, 5, calls=1))

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        await asyncio.sleep(0)
        return self.complete(request)

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        reply = self.complete(request)
        yield reply.text
        yield reply
