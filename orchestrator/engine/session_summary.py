"""The end of a session that is to be remembered: its summary."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any

from orchestrator.engine.decisions import find_refusal
from orchestrator.engine.effects import Effect
from orchestrator.engine.guardrail_checks import guard_summary
from orchestrator.engine.prompt_history import Talk
from orchestrator.engine.results import Answer, Refusal, Result
from orchestrator.engine.state import Turn
from orchestrator.errors import OrchestratorError
from orchestrator.prompts import Dialect
from orchestrator.sessions.journal import Record, Said


def remember(turn: Turn, result: Result) -> Generator[Effect, Any, None]:
    """Has the session summarised, this turn included; the record of it is what is remembered.

    A summary that fails does not take the answer away that the user already has: the session then
    stays open, and is summarised later (`Agent.remember`).
    """
    stage = turn.plan.memory_stage
    if stage is None or not isinstance(result, Answer | Refusal):
        return  # a turn that waits, or failed, does not end its session
    said: list[Said] = []
    if turn.question:
        said = [("user", turn.question), ("assistant", result.text)]
    values = partial(_values, turn, stage.dialect, said)
    try:
        outcome = yield from turn.ask(stage, of_past=values)
        topics = [] if find_refusal(outcome) else _topics(outcome)
        if topics and turn.plan.guardrail is not None:
            topics = yield from guard_summary(topics)
        turn.topics = topics
    except OrchestratorError as error:
        if turn.start.closing:
            raise
        turn.unremembered = error


def _topics(outcome: Record) -> list[Mapping[str, Any]]:
    parsed = outcome["response"].get("memorySummarizationParsedResponse") or {}
    return list(parsed.get("topicwiseSummaries") or ())


def _values(turn: Turn, dialect: Dialect, last: Sequence[Said], talk: Talk) -> dict[str, str]:
    return {
        "conversation": talk.conversation(dialect, last),
        "past_conversation_summary": dialect.partial(
            "past_conversation_summary", sessions=list(turn.start.summaries)
        ),
    }
