"""strands: a subclass of its `Model`, and a new `Agent` a session, which keeps the history."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models import Model

from bench import script
from bench.peers.peer import Stream, Turn

_USAGE = {"inputTokens": 100, "outputTokens": 20, "totalTokens": 120}


class _Model(Model):
    def __init__(self, steps: int = 1, pieces: list[str] | None = None) -> None:
        self._steps = steps
        self._pieces = pieces

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {"model_id": script.MODEL_ID}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        yield {"messageStart": {"role": "assistant"}}
        if self._pieces is not None:
            reply: list[dict[str, Any]] = []
            for event in _text(self._pieces):
                yield event
        else:
            reply = script.answer(messages, self._steps, "get")
        for block in reply:
            for event in _tool(block["toolUse"]) if "toolUse" in block else _text([block["text"]]):
                yield event
        yield {"messageStop": {"stopReason": "tool_use" if len(reply) > 1 else "end_turn"}}
        yield {"metadata": {"usage": _USAGE, "metrics": {"latencyMs": 1}}}


def _text(pieces: list[str]) -> Any:
    yield {"contentBlockStart": {"start": {}}}
    for piece in pieces:
        yield {"contentBlockDelta": {"delta": {"text": piece}}}
    yield {"contentBlockStop": {}}


def _tool(call: dict[str, Any]) -> Any:
    start = {"name": call["name"], "toolUseId": call["toolUseId"]}
    yield {"contentBlockStart": {"start": {"toolUse": start}}}
    yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(call["input"])}}}}
    yield {"contentBlockStop": {}}


_get = tool(name="get")(script.aget)


class Peer:
    def _agents(self, model: _Model, count: int) -> list[Agent]:
        return [
            Agent(
                model,
                tools=[_get],
                system_prompt=script.INSTRUCTION,
                callback_handler=None,
                conversation_manager=NullConversationManager(),
            )
            for _ in range(count)
        ]

    def turns(self, steps: int, count: int) -> list[Turn]:
        async def turn(agent: Agent) -> str:
            return str(await agent.invoke_async(script.QUESTION))

        return [partial(turn, agent) for agent in self._agents(_Model(steps), count)]

    def streams(self, length: int, count: int) -> list[Stream]:
        async def stream(agent: Agent) -> int:
            seen = 0
            async for event in agent.stream_async(script.QUESTION):
                seen += "data" in event
            return seen

        model = _Model(pieces=script.tokens(length))
        return [partial(stream, agent) for agent in self._agents(model, count)]
