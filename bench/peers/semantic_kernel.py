"""semantic-kernel: a `ChatCompletionClientBase` under `ChatCompletionAgent`, a thread a session."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import PrivateAttr
from semantic_kernel.agents import ChatCompletionAgent, ChatHistoryAgentThread
from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.contents import (
    ChatHistory,
    ChatMessageContent,
    FunctionCallContent,
    FunctionResultContent,
    StreamingChatMessageContent,
    TextContent,
)
from semantic_kernel.functions import KernelPlugin, kernel_function

from bench import script
from bench.peers.peer import Stream, Turn


class _Client(ChatCompletionClientBase):
    SUPPORTS_FUNCTION_CALLING: ClassVar[bool] = True
    _steps: int = PrivateAttr(1)
    _pieces: list[str] = PrivateAttr(default_factory=list)

    @classmethod
    def of(cls, steps: int = 1, pieces: list[str] | None = None) -> _Client:
        made = cls(ai_model_id=script.MODEL_ID)
        made._steps, made._pieces = steps, pieces or []
        return made

    async def _inner_get_chat_message_contents(
        self, chat_history: ChatHistory, settings: Any
    ) -> list[ChatMessageContent]:
        last = chat_history.messages[-1].items[-1]
        step = script.next_step(last.id if isinstance(last, FunctionResultContent) else None)
        if step == self._steps:
            return [ChatMessageContent(role="assistant", content=script.ANSWER)]
        arguments = json.dumps({"city": f"Paris {step}"})
        call = FunctionCallContent(id=str(step), name="weather-get", arguments=arguments)
        items = [TextContent(text=script.THOUGHT), call]
        return [ChatMessageContent(role="assistant", items=items)]

    async def _inner_get_streaming_chat_message_contents(
        self, chat_history: ChatHistory, settings: Any, function_invoke_attempt: int = 0
    ) -> AsyncGenerator[list[StreamingChatMessageContent], Any]:
        for piece in self._pieces:
            yield [StreamingChatMessageContent(role="assistant", content=piece, choice_index=0)]

    def _update_function_choice_settings_callback(self) -> Callable[..., None]:
        return lambda *_: None

    def _reset_function_choice_settings(self, settings: Any) -> None: ...


class _Weather:
    @kernel_function(name="get", description="The weather of a city.")
    async def get(self, city: Annotated[str, "The city."]) -> script.Result:
        return await script.aget(city)


class Peer:
    def _agent(self, client: _Client, steps: int) -> ChatCompletionAgent:
        choice = FunctionChoiceBehavior.Auto()
        choice.maximum_auto_invoke_attempts = steps + 1
        return ChatCompletionAgent(
            name="weather",
            instructions=script.INSTRUCTION,
            service=client,
            plugins=[KernelPlugin.from_object("weather", _Weather())],
            function_choice_behavior=choice,
        )

    def turns(self, steps: int, count: int) -> list[Turn]:
        agent = self._agent(_Client.of(steps), steps)

        async def turn(thread: ChatHistoryAgentThread) -> str:
            return str(await agent.get_response(script.QUESTION, thread=thread))

        return [partial(turn, ChatHistoryAgentThread()) for _ in range(count)]

    def streams(self, length: int, count: int) -> list[Stream]:
        agent = self._agent(_Client.of(pieces=script.tokens(length)), 1)

        async def stream(thread: ChatHistoryAgentThread) -> int:
            seen = 0
            async for event in agent.invoke_stream(script.QUESTION, thread=thread):
                seen += bool(event.message.content)
            return seen

        return [partial(stream, ChatHistoryAgentThread()) for _ in range(count)]
