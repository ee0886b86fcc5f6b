"""What the tests of memory in turns share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import botocore_shapes
from whole_agents import INSTRUCTION, NATIVE, answer

from orchestrator import Agent, Sessions
from orchestrator.engine.plan import Memory
from orchestrator.memory import InMemoryMemory, MemoryStore
from orchestrator.models.base import Model, ModelReply, ModelRequest, Usage
from orchestrator.testing import FakeClock

TTL = 1800
DAY = 86_400


class Talker(Model):
    """Answers `Noted.`, and sums sessions up by what their last user said: all in one topic.

    Attributes:
        requests: What was asked, by stage.
        broken: Raised instead of a summary, while there is one.
    """

    def __init__(self, model_id: str = NATIVE.model_id) -> None:
        self.model_id = model_id
        self.requests: dict[str, list[ModelRequest]] = {}
        self.broken: BaseException | None = None
        self.summary = ""

    def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.setdefault(request.stage, []).append(request)
        if request.stage != "MEMORY_SUMMARIZATION":
            return ModelReply([{"text": answer("Noted.")}], "end_turn", Usage(1, 1, calls=1))
        if self.broken is not None:
            raise self.broken
        said = re.findall(r"topic-(\w+)", told(request))
        text = self.summary or "".join(
            f"<topic name='{one}'>said {one}</topic>" for one in dict.fromkeys(said)
        )
        return ModelReply(
            [{"text": f"<summary>{text}</summary>"}], "end_turn", Usage(1, 1, calls=1)
        )

    def prompts(self, stage: str = "ORCHESTRATION") -> list[str]:
        return [told(request) for request in self.requests.get(stage, ())]


def told(request: ModelRequest) -> str:
    """All texts of a prompt."""
    texts = [str(request.system)]
    texts += [block.get("text", "") for message in request.messages for block in message["content"]]
    return "\n".join(texts)


def remembering(
    model: Model,
    *,
    clock: FakeClock | None = None,
    store: MemoryStore | None = None,
    sessions: Any = None,
    memory: Mapping[str, Any] | None = None,
    **options: Any,
) -> Agent:
    kept = Memory(store if store is not None else InMemoryMemory(), **(memory or {}))
    options = {"name": "hr", **options}
    return Agent(
        options.pop("name"),
        INSTRUCTION,
        model,
        memory=kept,
        sessions=sessions or Sessions(clock=clock or FakeClock()),
        idle_session_ttl=TTL,
        **options,
    )


def remembered(agent: Agent, memory_id: str) -> list[tuple[str, str]]:
    """What is remembered: session and text, newest first, each in Bedrock's shape."""
    found = []
    for one in agent.memories(memory_id):
        assert botocore_shapes.problems(one, "Memory") == []
        summary = one["sessionSummary"]
        assert summary["memoryId"] == memory_id
        found.append((summary["sessionId"], summary["summaryText"]))
    return found
