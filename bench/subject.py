"""The same scripted conversation for the floor and for the engine.

The model is stateless and O(1): it looks at the last message only. The tool-call id carries the
number of the step, so that a turn has exactly as many calls as the question asks for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from orchestrator import ActionGroup, Agent, Limits, action
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.models.base import Usage

MODEL_ID = "anthropic.claude-3-5-sonnet-20240620-v1:0"
INSTRUCTION = "You tell people the weather of the cities that they ask about."
_USAGE = Usage(100, 20, 0, 0, 1)


class Script(Model):
    """Calls the tool `steps` times, then answers."""

    def __init__(self, steps: int = 1, wait: float = 0.0) -> None:
        self.model_id = MODEL_ID
        self.steps = steps
        self.wait = wait

    def answer(self, messages: Sequence[Any]) -> list[dict[str, Any]]:
        block = messages[-1]["content"][-1]
        result = block.get("toolResult")
        step = int(result["toolUseId"]) + 1 if result else 0
        if step == self.steps:
            return [{"text": "<thinking>I have it.</thinking><answer>It is sunny in Paris."}]
        call = {"toolUseId": str(step), "name": "weather__get", "input": {"city": f"Paris {step}"}}
        return [{"text": "<thinking>I look it up.</thinking>"}, {"toolUse": call}]

    async def aanswer(self, messages: Sequence[Any]) -> list[dict[str, Any]]:
        if self.wait:
            await asyncio.sleep(self.wait)
        return self.answer(messages)

    def complete(self, request: ModelRequest) -> ModelReply:
        content = self.answer(request.messages)
        return ModelReply(content, "tool_use" if len(content) > 1 else "stop_sequence", _USAGE)

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        if self.wait:
            await asyncio.sleep(self.wait)
        return self.complete(request)


def get(city: str) -> str:
    """The weather of a city.

    Args:
        city: The city.
    """
    return f"sunny in {city}"


async def aget(city: str) -> str:
    """The weather of a city.

    Args:
        city: The city.
    """
    return f"sunny in {city}"


def engine(
    model: Model, *, asynchronous: bool = False, sessions: Any = None, **limits: Any
) -> Agent:
    """The engine with the same model and tool."""
    tool = action(name="get")(aget if asynchronous else get)
    return Agent(
        "weather",
        INSTRUCTION,
        model,
        action_groups=[ActionGroup("weather", actions=[tool])],
        sessions=sessions,
        limits=Limits(iterations=1000, model_calls=1000, actions=1000, **limits),
    )


TOOLS = {"weather__get": get}
ATOOLS = {"weather__get": aget}
