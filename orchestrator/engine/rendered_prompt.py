"""The exact prompt of a model call, with the origin of every character."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from orchestrator.message import Message, Text


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

    def as_dict(self) -> dict[str, Any]:
        """The prompt as JSON members; spans count characters, and name the content block."""
        return {
            "stage": self.stage,
            "model_id": self.model_id,
            "system": str(self.system),
            "system_spans": [span._asdict() for span in self.system.spans],
            "messages": [
                {**message, "spans": [span._asdict() for span in message.spans]}
                for message in self.messages
            ],
            "tools": list(self.tools),
            "inference": dict(self.inference),
        }
