"""The guardrail's part of a turn: the input, the answer and, when asked for, results."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.engine.attachments import text_to_check, with_text
from orchestrator.engine.decisions import REFUSAL, realign_citations
from orchestrator.engine.effects import Effect, Guard
from orchestrator.engine.results import Answer, Refusal, Result
from orchestrator.engine.state import Slot, Turn
from orchestrator.message import text_of
from orchestrator.sessions import HISTORY_GUARD

ANSWER_GUARD = "guardrail-post-0"
"""The id of the check that ends a turn."""

MEMORY_GUARD = "guardrail-memory-"
"""How the ids of the checks of a session's summary begin; traces leave summaries out."""

INTERVENED = "guardrail_intervened"
"""The stop reason of a turn that a guardrail ended."""


def guard_input(turn: Turn) -> Generator[Effect, Any, Refusal | None]:
    """Has the user's input checked; what was masked stays masked for the whole turn.

    The input is the question, the prompt session attributes, the conversation history that the
    caller gave, and the text of each file that the model reads. Images and documents go through as
    they are.
    """
    outcome = yield Guard(turn.question, "INPUT", 0, "guardrail-pre-0")
    if outcome["blocked"]:
        return Refusal(outcome["text"], INTERVENED)
    if outcome["action"] == "INTERVENED":
        turn.question = outcome["text"]
    refusal = yield from guard_attributes(turn, 0)
    if refusal is None and turn.start.history:
        refusal = yield from _guard_history(turn.start.history)
    if refusal is None and turn.attachments:
        refusal = yield from _guard_files(turn)
    return refusal


def guard_attributes(turn: Turn, number: int) -> Generator[Effect, Any, Refusal | None]:
    """Has the prompt session attributes checked that were not, and keeps them masked.

    Whoever gave them: prompts are made of them. Actions get the same values as prompts, because
    they give them back, and so into the next prompt.
    """
    known, now = turn.guarded, turn.prompt_attributes
    for index, (name, text) in enumerate(list(now.items())):
        if not text.strip() or known.get(name) == text:
            continue
        outcome = yield Guard(text, "INPUT", number, f"guardrail-attribute-{number}-{index}")
        if outcome["blocked"]:
            return Refusal(outcome["text"], INTERVENED)
        if outcome["action"] == "INTERVENED":
            now = {**now, name: outcome["text"]}
    turn.prompt_attributes = turn.guarded = now
    return None


def _guard_history(
    history: Sequence[Mapping[str, Any]],
) -> Generator[Effect, Any, Refusal | None]:
    # What is masked of it, the session keeps masked (`Session.retell`).
    for index, message in enumerate(history):
        text = text_of(message["content"])
        outcome = yield Guard(text, "INPUT", 0, f"{HISTORY_GUARD}{index}")
        if outcome["blocked"]:
            return Refusal(outcome["text"], INTERVENED)
    return None


def guard_summary(
    topics: Sequence[Mapping[str, Any]],
) -> Generator[Effect, Any, list[Mapping[str, Any]]]:
    """Has a session's summary checked, before it is kept for later sessions to read.

    Gives its topics, masked; none when anything in them is blocked.
    """
    from orchestrator.memory.summaries import summary_text

    kept: list[Mapping[str, Any]] = []
    for index, topic in enumerate(topics):
        name, said = str(topic.get("topic") or ""), str(topic.get("summary") or "")
        shown = summary_text([{"topic": name, "summary": said}])
        outcome = yield Guard(shown, "OUTPUT", 0, f"{MEMORY_GUARD}{index}")
        if outcome["blocked"]:
            return []
        if outcome["action"] == "INTERVENED":
            masked, head = outcome["text"], f"{name}: " if name else ""
            if masked.startswith(head):
                topic = {"topic": name, "summary": masked[len(head) :]}
            else:
                topic = {"topic": "", "summary": masked}
        kept.append(topic)
    return kept


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
            result.citations = realign_citations(result.citations, result.text)
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


def _replace_response(turn: Turn, slot: Slot, text: str) -> None:
    # Post-processing must not read it either.
    for response in turn.responses:
        if response == {"name": slot.name, "text": slot.text}:
            response["text"] = text
