"""haystack: a chat generator component under its `Agent`; the caller keeps the messages."""

from __future__ import annotations

from typing import Any

from haystack import component
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage, StreamingChunk, ToolCall
from haystack.tools import Tool

from bench import script
from bench.peers.peer import Stream, Turn


@component
class _Generator:
    def __init__(self, steps: int = 1, pieces: list[str] | None = None) -> None:
        self._steps = steps
        self._pieces = pieces

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage],
        tools: Any = None,
        streaming_callback: Any = None,
        generation_kwargs: Any = None,
    ) -> dict[str, Any]:
        return {"replies": [self._reply(messages)]}

    @component.output_types(replies=list[ChatMessage])
    async def run_async(
        self,
        messages: list[ChatMessage],
        tools: Any = None,
        streaming_callback: Any = None,
        generation_kwargs: Any = None,
    ) -> dict[str, Any]:
        if self._pieces is None:
            return {"replies": [self._reply(messages)]}
        said = []
        for number, piece in enumerate(self._pieces):
            chunk = StreamingChunk(piece, index=0, start=number == 0)
            said.append(chunk)
            await streaming_callback(chunk)
        text = "".join(chunk.content for chunk in said)
        return {"replies": [ChatMessage.from_assistant(text, meta={"finish_reason": "stop"})]}

    def _reply(self, messages: list[ChatMessage]) -> ChatMessage:
        result = messages[-1].tool_call_result
        step = script.next_step(result.origin.id if result else None)
        if step == self._steps:
            return ChatMessage.from_assistant(script.ANSWER, meta={"finish_reason": "stop"})
        call = ToolCall("get", {"city": f"Paris {step}"}, id=str(step))
        meta = {"finish_reason": "tool_calls"}
        return ChatMessage.from_assistant(script.THOUGHT, tool_calls=[call], meta=meta)


def _messages() -> list[ChatMessage]:
    # A `system_prompt` is a template, which the agent compiles at each turn.
    return [ChatMessage.from_system(script.INSTRUCTION), ChatMessage.from_user(script.QUESTION)]


class Peer:
    def _agent(self, generator: Any, steps: int) -> Agent:
        tool = Tool(
            name="get",
            description="The weather of a city.",
            parameters=script.SCHEMA,
            function=script.get,
            async_function=script.aget,
        )
        agent = Agent(
            chat_generator=generator,
            tools=[tool],
            max_agent_steps=steps + 1,
        )
        agent.warm_up()
        return agent

    def turns(self, steps: int, count: int) -> list[Turn]:
        agent = self._agent(_Generator(steps), steps)

        async def turn() -> str:
            found = await agent.run_async(_messages())
            return found["last_message"].text or ""

        return [turn] * count

    def streams(self, length: int, count: int) -> list[Stream]:
        agent = self._agent(_Generator(pieces=script.tokens(length)), 1)

        async def stream() -> int:
            seen = [0]

            async def count_chunk(chunk: StreamingChunk) -> None:
                seen[0] += bool(chunk.content)

            await agent.run_async(_messages(), streaming_callback=count_chunk)
            return seen[0]

        return [stream] * count
