"""The exact prompt of a stage, as `Agent.render` shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from orchestrator.message import Message, Text

__all__ = ["Prompt"]


@dataclass(frozen=True, slots=True)
class Prompt(Sequence[Message]):
    """The exact prompt of a stage, as `Agent.render` shows it: a sequence of its messages.

    Attributes:
        stage: The prompt type.
        model_id: Whose prompt it is.
        system: The system text, with `.spans`.
        messages: The messages, each with `.spans`.
        tools: Converse tool specifications.
        inference: Bedrock's inference configuration.
    """

    stage: str
    model_id: str
    system: Text
    messages: list[Message]
    tools: Sequence[Mapping[str, Any]]
    inference: Mapping[str, Any]

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
