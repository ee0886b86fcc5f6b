"""agent-squad: `AgentSquad.route_request`, the `client=` that its agent documents, its own store.

Its tools return text, so the tool encodes its dict itself.
"""

from __future__ import annotations

import json
from functools import partial
from itertools import count as counter
from typing import Any

from agent_squad.agents import BedrockLLMAgent, BedrockLLMAgentOptions
from agent_squad.classifiers import Classifier, ClassifierResult
from agent_squad.orchestrator import AgentSquad
from agent_squad.utils import AgentTool, AgentTools

from bench import script
from bench.peers.peer import Stream, Turn


class _Client:
    """What boto3's client would be: it is called synchronously."""

    def __init__(self, steps: int = 1, pieces: list[str] | None = None) -> None:
        self._steps = steps
        self._pieces = pieces or []

    def converse(self, *, messages: list[Any], **_: Any) -> dict[str, Any]:
        content = script.answer(messages, self._steps, "get")
        return {"output": {"message": {"role": "assistant", "content": content}}}

    def converse_stream(self, **_: Any) -> dict[str, Any]:
        return {"stream": script.events(self._pieces)}


class _OnlyAgent(Classifier):
    """Chooses the only agent without asking a model."""

    async def process_request(self, input_text: str, chat_history: Any) -> ClassifierResult:
        return ClassifierResult(selected_agent=self.default_agent, confidence=1.0)


async def _get(city: str) -> str:
    return json.dumps(await script.aget(city))


class Peer:
    def __init__(self) -> None:
        self._ids = counter()

    def _squad(self, client: _Client, streaming: bool, steps: int) -> partial[Any]:
        tool = AgentTool("get", "The weather of a city.", script.SCHEMA["properties"], func=_get)
        options = BedrockLLMAgentOptions(
            name="weather",
            description=script.INSTRUCTION,
            client=client,
            streaming=streaming,
            tool_config={"tool": AgentTools([tool]), "toolMaxRecursions": steps + 1},
        )
        agent = BedrockLLMAgent(options)
        classifier = _OnlyAgent()
        classifier.default_agent = agent
        squad = AgentSquad(classifier=classifier, default_agent=agent)
        squad.add_agent(agent)
        return partial(squad.route_request, script.QUESTION, stream_response=streaming)

    def turns(self, steps: int, count: int) -> list[Turn]:
        ask = self._squad(_Client(steps), False, steps)

        async def turn(session: str) -> str:
            answer = await ask(user_id="user", session_id=session)
            return answer.output.content[-1]["text"]

        return [partial(turn, f"s-{next(self._ids)}") for _ in range(count)]

    def streams(self, length: int, count: int) -> list[Stream]:
        ask = self._squad(_Client(pieces=script.tokens(length)), True, 1)

        async def stream(session: str) -> int:
            seen = 0
            answer = await ask(user_id="user", session_id=session)
            async for event in answer.output:
                seen += bool(event.text)
            return seen

        return [partial(stream, f"s-{next(self._ids)}") for _ in range(count)]
