"""What an invocation gives back: a reply, or the events of a stream that ends in one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from orchestrator.effects import ReturnControl
from orchestrator.usage import Usage

__all__ = ["Event", "Files", "Reply", "ReturnControl", "TextDelta", "TracePart", "TurnEnd"]


@dataclass(slots=True)
class Reply:
    """The end of an invocation.

    Attributes:
        text: What the user reads: the answer, a question to the user, or a refusal. Empty when
            control was returned.
        stop_reason: `end_turn`, `ask_user`, `refused`, `return_control`, `max_tokens`,
            `guardrail_intervened`, `content_filtered`; of a failed turn, the limit's name or a
            reason code.
        session_id: The session.
        citations: Bedrock's citations of the answer.
        return_control: The calls that wait for the caller, or `None`.
        usage: Tokens of this invocation.
        files: Files that the turn made.
        notes: Leniencies that were needed to understand models and actions.
    """

    text: str
    stop_reason: str
    session_id: str
    citations: list[dict[str, Any]] = field(default_factory=list)
    return_control: ReturnControl | None = None
    usage: Usage = field(default_factory=Usage)
    files: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _make_trace: Callable[[], list[dict[str, Any]]] = field(default=list, repr=False)
    _trace: list[dict[str, Any]] | None = field(default=None, repr=False)

    @property
    def trace(self) -> list[dict[str, Any]]:
        """The trace parts, equal in shape to those of `InvokeAgent`; made when first read."""
        if self._trace is None:
            self._trace = self._make_trace()
        return self._trace

    def __str__(self) -> str:
        return self.text

    def as_dict(self) -> dict[str, Any]:
        """The reply as JSON members, trace included."""
        control = self.return_control
        return {
            "text": self.text,
            "stop_reason": self.stop_reason,
            "session_id": self.session_id,
            "citations": self.citations,
            "return_control": control
            and {
                "invocationId": control.invocation_id,
                "invocationInputs": control.invocation_inputs,
            },
            "usage": self.usage._asdict(),
            "files": self.files,
            "notes": self.notes,
            "trace": self.trace,
        }


@dataclass(slots=True)
class TextDelta:
    """The next piece of the answer. The pieces, joined, are the reply's text."""

    text: str


@dataclass(slots=True)
class TracePart:
    """The next trace part."""

    part: dict[str, Any]


@dataclass(slots=True)
class Files:
    """Files that the turn made, in Bedrock's shape."""

    files: list[dict[str, Any]]


@dataclass(slots=True)
class TurnEnd:
    """The last event: the whole reply."""

    reply: Reply


Event = TextDelta | TracePart | ReturnControl | Files | TurnEnd
