"""What a run tells while it goes, and what it comes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.engine.trace.reply import Reply
from orchestrator.flows.listener import Listener
from orchestrator.flows.steps import AskUser, Pause
from orchestrator.models.usage import Usage


def waits_for(pause: Pause | AskUser | None) -> str:
    """What a run waits for, by where its script does; by itself, it waits for an action."""
    if pause is None:
        return "call"
    return "user" if isinstance(pause, AskUser) else "breakpoint"


class FlowResult:
    """What a run came to.

    Attributes:
        output: PPE: the script's result. PL: the value of the last statement, or the message of
            `@exit`. While it waits, that of the last statement so far.
        variables: Every name that the run knows, and its value.
        messages: The messages of the last dialogue, in Converse's shape (PPE).
        paused: The state to go on with, JSON data, when the run waits; else `None`.
        waits_for: `breakpoint`, `user` or, for the result of an action that its caller carries out
            or confirms, `call` while it waits; else empty. `reply.return_control` has the calls.
        question: What the user is asked, while it waits for the user.
        line: The line where it waits; else 0.
        statement: The statement there: in `step` mode, the next one.
        warnings: What was told to be doubtful in this part of the run: the `text` and `line` of
            each.
        reply: The turn behind it: `trace`, `usage`.
    """

    def __init__(self, listener: Listener, reply: Reply, paused: dict[str, Any] | None) -> None:
        self.reply = reply
        self.paused = paused
        self.waits_for = self.question = self.statement = ""
        self.line = 0
        self.messages: Sequence[Mapping[str, Any]] = ()
        self.warnings = [
            {"text": str(one.members.get("text", "")), "line": one.place.line}
            for one in listener.warnings
        ]
        outcome, pause = listener.outcome, listener.pause
        if outcome is not None:
            self.output, self.variables = outcome.output, dict(outcome.variables)
            self.messages = outcome.messages
        elif pause is None:  # an action waits, or a model has asked the user with one
            self.waits_for = "" if paused is None else waits_for(pause)
            self.output, self.variables = reply.text, dict[str, Any]()
        else:
            self.waits_for = waits_for(pause)
            self.question = pause.text if isinstance(pause, AskUser) else ""
            self.line, self.statement = pause.place.line, pause.place.statement
            self.output, self.variables = pause.output, dict(pause.variables)

    @property
    def trace(self) -> list[dict[str, Any]]:
        """Trace parts, as `InvokeAgent` tells them."""
        return self.reply.trace

    @property
    def usage(self) -> Usage:
        """Tokens of this part of the run."""
        return self.reply.usage

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON data."""
        told = {"output": self.output, "variables": self.variables, "usage": self.usage._asdict()}
        if self.warnings:
            told["warnings"] = self.warnings
        if self.messages:
            told["messages"] = list(self.messages)
        if self.paused is not None:
            told |= {"waits_for": self.waits_for, "line": self.line, "statement": self.statement}
            told |= {"question": self.question} if self.waits_for == "user" else {}
            told["state"] = self.paused
        return told

    def __repr__(self) -> str:
        return f"FlowResult(output={self.output!r}, waits_for={self.waits_for!r})"


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """Something that happened in a run.

    Attributes:
        type: What: `run_start`, `statement_start`, `token`, `tool_call`, `tool_result`,
            `role_switch`, `variable_set`, `breakpoint`, `exit`, `warning`, `error`, `run_end`.
        seq: Its number in the run, from 1; `token`s of a model have that of the event before.
        line: The line in the script, from 1; 0 where there is none.
        statement: The first line of the statement there.
        members: More of it, such as `{"text": ...}`, `{"name": ..., "value": ...}`.
        result: What the run came to: of the last event.
    """

    type: str
    seq: int
    line: int
    statement: str = ""
    members: Mapping[str, Any] = field(default_factory=dict)
    result: FlowResult | None = field(default=None, compare=False, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """The event as JSON data, without its result."""
        told = {"type": self.type, "seq": self.seq, "line": self.line}
        return {**told, "statement": self.statement, **self.members}
