"""The messages of a running script: added, rendered once, merged when they are sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.flows.ppe.texts import Text
from orchestrator.flows.steps import Place
from orchestrator.message import Message


@dataclass(slots=True, eq=False)
class DialogueMessage:
    """A message."""

    role: str  # who says it
    text: Text | None  # the author's text; `None` when a model said it
    place: Place
    done: str = ""  # as much of it as is rendered and substituted
    next: int = 0  # the part of the text that comes next
    # The variables of the loops that it is in
    scope: Mapping[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)  # what was substituted in it, by variable
    drawn: bool = False  # whether something was substituted
    busy: bool = False  # whether it is being rendered
    to: tuple[str, ...] = ()  # to whom it is said, in a group chat
    audience: frozenset[str] | None = None  # who may read it there; `None` for everybody
    implicit: bool = False  # whether it is the answer of somebody to whom something was said

    @property
    def ready(self) -> bool:
        """Whether nothing is left to render."""
        return self.text is None or self.next >= len(self.text.parts)

    @property
    def pending_names(self) -> frozenset[str]:
        """The variables that are still to be substituted in it."""
        if self.text is None or self.busy:
            return frozenset()
        left = self.text.parts[self.next :]
        return frozenset(
            name for part in left if part.substitution for name in part.substitution.names
        )


class Dialogue:
    """The messages of a script.

    Attributes:
        prologue: Those above the first separator; every dialogue has them.
        messages: Those of the dialogue that goes on.
        separated: Whether a separator was passed.
    """

    def __init__(self) -> None:
        self.prologue: list[DialogueMessage] = []
        self.messages: list[DialogueMessage] = []
        self.separated = False

    @property
    def all(self) -> list[DialogueMessage]:
        """All messages that a model is sent."""
        return [*self.prologue, *self.messages]

    @property
    def last(self) -> DialogueMessage | None:
        """The last message."""
        return next(iter(reversed(self.all)), None)

    def separate(self) -> None:
        """Begins a new dialogue."""
        if not self.separated:
            self.prologue, self.separated = self.messages, True
        self.messages = []


def merge_messages(messages: Sequence[tuple[str, str]]) -> tuple[str, list[Message]]:
    """Messages as they are sent: the system text, and the others, neighbours of one role merged."""
    system = "\n".join(text for role, text in messages if role == "system")
    merged: list[tuple[str, str]] = []
    for role, text in messages:
        if role == "system":
            continue
        if merged and merged[-1][0] == role and role in ("user", "assistant"):
            merged[-1] = role, f"{merged[-1][1]}\n\n{text}"
        else:
            merged.append((role, text))
    return system, [Message(role, [{"text": text}]) for role, text in merged]
