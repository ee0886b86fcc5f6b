"""The guardrail's part of a turn: the input, the answer and, when asked for, results."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchestrator.calls import Slot
from orchestrator.citations import still_cited
from orchestrator.effects import Answer, Effect, Guard, Refusal, Result

if TYPE_CHECKING:
    from orchestrator.turn import Turn

__all__ = ["ANSWER_GUARD", "INTERVENED", "guard_answer", "guard_input", "guard_results"]

ANSWER_GUARD = "guardrail-post-0"
"""The id of the check that ends a turn."""

INTERVENED = "guardrail_intervened"
"""The stop reason of a turn that a guardrail ended."""


def guard_input(turn: Turn) -> Generator[Effect, Any, Refusal | None]:
    """Has the user's input checked; what was masked stays masked for the whole turn."""
    outcome = yield Guard(turn.question, "INPUT", 0, "guardrail-pre-0")
    if outcome["blocked"]:
        return Refusal(outcome["text"], INTERVENED)
    if outcome["action"] == "INTERVENED":
        turn.question = outcome["text"]
    return None


def guard_answer(turn: Turn, result: Result) -> Generator[Effect, Any, Result]:
    """Has what the user is about to read checked: answers, and questions to the user."""
    if not isinstance(result, Answer) or not result.text:
        return result
    outcome = yield Guard(result.text, "OUTPUT", turn.number, ANSWER_GUARD)
    if outcome["blocked"]:
        return Refusal(outcome["text"], INTERVENED)
    if outcome["action"] == "INTERVENED":
        text = outcome["text"]
        turn.forget_reply()
        return replace(result, text=text, citations=still_cited(result.citations, text))
    return result


def guard_results(turn: Turn, slots: Sequence[Slot], number: int) -> Generator[Effect, Any, None]:
    """Has what actions and searches returned checked, before the model reads it."""
    for index, slot in enumerate(slots):
        if not slot.text or slot.error:
            continue
        outcome = yield Guard(slot.text, "OUTPUT", number, f"guardrail-result-{number}-{index}")
        if outcome["action"] == "INTERVENED":
            _replace_response(turn, slot, outcome["text"])
            slot.text = outcome["text"]
            slot.error = outcome["blocked"]


def _replace_response(turn: Turn, slot: Slot, text: str) -> None:
    # Post-processing must not read it either.
    for response in turn.responses:
        if response == {"name": slot.name, "text": slot.text}:
            response["text"] = text
