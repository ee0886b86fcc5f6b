"""The exact prompt of a stage, as `Agent.render` shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from orchestrator.engine.collaboration import routing_values
from orchestrator.engine.plan import StagePlan
from orchestrator.engine.prompt_history import Talk
from orchestrator.message import Message, Text
from orchestrator.prompts.placeholders import (
    KNOWLEDGE_BASE_RESPONSE_GENERATION,
    MEMORY_SUMMARIZATION,
    ROUTING_CLASSIFIER,
)
from orchestrator.sessions import Session


@dataclass(frozen=True, slots=True)
class Prompt(Sequence[Message]):
    """The exact prompt of a stage, as `Agent.render` shows it: a sequence of its messages."""

    stage: str  # the prompt type
    model_id: str  # whose prompt it is
    system: Text  # the system text, with `.spans`
    messages: list[Message]  # the messages, each with `.spans`
    tools: Sequence[Mapping[str, Any]]  # Converse tool specifications
    inference: Mapping[str, Any]  # Bedrock's inference configuration

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        """The messages at `index`."""
        return self.messages[index]

    def __len__(self) -> int:
        """How many messages there are."""
        return len(self.messages)


def preview_values(stage: StagePlan, question: str, session: Session) -> dict[str, str]:
    """The values of a stage outside the loop, as far as they are known before the turn."""
    talk = Talk(session, len(session.talk), None)
    if stage.stage == ROUTING_CLASSIFIER:
        return routing_values(stage.dialect, question, session.last_agent, talk)
    if stage.stage == MEMORY_SUMMARIZATION:
        return {"conversation": talk.conversation(stage.dialect, [("user", question)])}
    if stage.stage == KNOWLEDGE_BASE_RESPONSE_GENERATION:
        return {"query": question}
    return {}
