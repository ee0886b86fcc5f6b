"""The guardrail's part of a turn: the input, the answer and, when asked for, results."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchestrator.attachments import text_to_check, with_text
from orchestrator.calls import Slot
from orchestrator.citations import still_cited
from orchestrator.effects import Answer, Effect, Guard, Refusal, Result
from orchestrator.reading import REFUSAL

if TYPE_CHECKING:
    from orchestrator.turn import Turn

__all__ = ["ANSWER_GUARD", "INTERVENED", "guard_answer", "guard_input", "guard_results", "keep_back"]

ANSWER_GUARD = "guardrail-post-0"
"""The id of the check that ends a turn."""

INTERVENED = "guardrail_intervened"
"""The stop reason of a turn that a guardrail ended."""

_UNCHECKED = "There was a result, which was not kept."


def guard_input(turn: Turn) -> Generator[Effect, Any, Refusal | None]:
    """Has the user's input checked; what was masked stays masked for the whole turn.

    The input is the question, and the text of each file that the model reads. Images and
    documents go through as they are.
    """
    outcome = yield Guard(turn.question, "INPUT", 0, "guardrail-pre-0")
    if outcome["blocked"]:
        return Refusal(outcome["text"], INTERVENED)
    if outcome["action"] == "INTERVENED":
        turn.question = outcome["text"]
    return (yield from _guard_files(turn)) if turn.attachments else None


def _guard_files(turn: Turn) -> Generator[Effect, Any, Refusal | None]:
    files = list(turn.attachments)
    for index, file in enumerate(files):
        text = text_to_check(file)
        if not text.strip():
            continue
        outcome = yield Guard(text, "INPUT", 0, f"guardrail-file-{index}")
        if outcome["blocked"]:
            return Refusal(outcome["text"], INTERVENED)
        if outcome["action"] == "INTERVENED":
            files[index] = with_text(file, outcome["text"])
    turn.attachments = files
    return None


def guard_answer(turn: Turn, result: Result) -> Generator[Effect, Any, Result]:
    """Has what the user is about to read checked: answers, questions, and refusals of others."""
    if not isinstance(result, Answer | Refusal) or result.text in ("", REFUSAL):
        return result
    outcome = yield Guard(result.text, "OUTPUT", turn.number, ANSWER_GUARD)
    if outcome["action"] == "INTERVENED":
        turn.forget_reply()
    if outcome["blocked"]:
        return Refusal(outcome["text"], INTERVENED)
    if outcome["action"] == "INTERVENED":
        result = replace(result, text=outcome["text"])
        if isinstance(result, Answer):
            result.citations = still_cited(result.citations, result.text)
    return result


def guard_results(turn: Turn, slots: Sequence[Slot], number: int) -> Generator[Effect, Any, None]:
    """Has what actions and searches returned checked, before the model reads it.

    That is what handlers and callers ask the model to mend (`REPROMPT`), too.
    """
    for index, slot in enumerate(slots):
        if not slot.text or slot.checked:
            continue
        outcome = yield Guard(slot.text, "OUTPUT", number, f"guardrail-result-{number}-{index}")
        slot.checked = True
        if outcome["action"] == "INTERVENED":
            _replace_response(turn, slot, outcome["text"])
            slot.text = outcome["text"]
            slot.error = slot.error or outcome["blocked"]
            slot.payloads = "" if outcome["blocked"] else outcome["text"]


def keep_back(slots: Sequence[Slot]) -> None:
    """Keeps results from later turns that this one ended too early to have checked."""
    for slot in slots:
        if slot.text and not slot.checked:
            slot.text, slot.checked = _UNCHECKED, True


def _replace_response(turn: Turn, slot: Slot, text: str) -> None:
    # Post-processing must not read it either.
    for response in turn.responses:
        if response == {"name": slot.name, "text": slot.text}:
            response["text"] = text
