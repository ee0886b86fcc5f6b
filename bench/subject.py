"""The engine with the scripted model and its tool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from bench import floor, script
from orchestrator import ActionGroup, Agent, Limits, action
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.models.base import Usage

_USAGE = Usage(100, 20, 0, 0, 1)


class Script(Model):
    """Calls the tool `steps` times, then answers."""

    def __init__(self, steps: int = 1, wait: float = 0.0) -> None:
        self.model_id = script.MODEL_ID
        self.steps = steps
        self.wait = wait

    def complete(self, request: ModelRequest) -> ModelReply:
        content = script.answer(request.messages, self.steps, floor.TOOL)
        return ModelReply(content, "tool_use" if len(content) > 1 else "stop_sequence", _USAGE)

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        if self.wait:
            await asyncio.sleep(self.wait)
        return self.complete(request)


class Tokens(Script):
    """Streams an answer of the given tokens; it calls nothing. It may wait before each one."""

    def __init__(self, pieces: Sequence[str], *, waits: bool = False) -> None:
        super().__init__()
        self._waits = waits
        self._pieces = pieces
        self._text = "".join(pieces)

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        yield from self._pieces
        yield ModelReply([{"text": self._text}], "stop_sequence", _USAGE)

    async def astream(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        for piece in self._pieces:
            if self._waits:
                await asyncio.sleep(0)
            yield piece
        yield ModelReply([{"text": self._text}], "stop_sequence", _USAGE)


def engine(
    model: Model, *, asynchronous: bool = False, sessions: Any = None, **limits: Any
) -> Agent:
    """An agent with the tool, in an event loop or not, and limits that no measure reaches."""
    tool = action(name="get")(script.aget if asynchronous else script.get)
    return Agent(
        "weather",
        script.INSTRUCTION,
        model,
        action_groups=[ActionGroup("weather", actions=[tool])],
        sessions=sessions,
        limits=Limits(iterations=1000, model_calls=1000, actions=1000, **limits),
    )
