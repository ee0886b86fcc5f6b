"""What a check is, and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from orchestrator.agent.evaluation.trace_reading import Call
from orchestrator.models.base import Usage


@dataclass
class Outcome:
    """What an agent did in one turn of a case; checks written in Python are given it.

    Attributes:
        said: What the user said: the turn's question, and what answered the agent's questions.
        answer: What the user read last.
        stop_reason: As in `Reply`; empty when the turn failed.
        calls: Calls of actions that were made: a function's `name` or `VERB /path`, `arguments`.
        waiting: Calls that were handed over and got no result.
        results: What actions, searches and collaborators gave back.
        asked: Whether the agent asked the user, with `AMAZON.UserInput`.
        citations: Bedrock's citations of the answer.
        seconds: How long it took.
        usage: Tokens and model calls.
        cost: In US dollars; `None` where no price is known.
        steps: What happened, one after the other: `kind` and `text`.
        error: Why the turn failed; empty when it did not.
        known: All that the user and the results have said in this case so far, and the arguments
            of calls that the case expected.
        stated: The agent's texts of this turn, without those that only asked the user.
    """

    said: list[str] = field(default_factory=list)
    answer: str = ""
    stop_reason: str = ""
    calls: list[Call] = field(default_factory=list)
    waiting: list[Call] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    asked: bool = False
    citations: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    steps: list[dict[str, str]] = field(default_factory=list)
    error: str = ""
    known: list[str] = field(default_factory=list)
    stated: str = ""


class Verdict(NamedTuple):
    """What came of one check."""

    passed: bool
    expected: str
    actual: str


class Judge(Protocol):
    """Says by a rubric whether an answer is good."""

    def grade(self, rubric: str, outcome: Outcome) -> Verdict:
        """The verdict.

        Raises:
            OrchestratorError: The model that judges failed, or gave no verdict.
        """


@dataclass(frozen=True)
class Judging:
    """What a check looks at, besides its own value."""

    outcome: Outcome
    expect: Mapping[str, Any]  # all checks of the turn, as they were read
    judge: Judge | None = None


@dataclass(frozen=True)
class Check:
    """A kind of check.

    Attributes:
        read: From what a file says, and the file's folder, to what `judge` takes. Raises
            `ValueError` when the check cannot be made.
        judge: The verdicts. What it raises is an error of the case, and no failure of the agent.
        form: How it is written, for messages.
    """

    read: Callable[[Any, Path], Any]
    judge: Callable[[Any, Judging], Iterator[Verdict]]
    form: str


def shorten(text: str, limit: int = 600) -> str:
    """A text, cut to `limit` characters."""
    return text if len(text) <= limit else f"{text[:limit]}…"
