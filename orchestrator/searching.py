"""Knowledge bases in a turn: searches, and answers that are made of what they found."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.calls import Slot
from orchestrator.citations import cite, source_ids
from orchestrator.effects import Answer, Effect, Result, Retrieve
from orchestrator.reading import refused, was_cut
from orchestrator.sessions.journal import Record

if TYPE_CHECKING:
    from orchestrator.stages import StagePlan
    from orchestrator.turn import Turn

__all__ = ["answer_from_knowledge", "search"]


def search(turn: Turn, slots: Sequence[Slot], number: int) -> Generator[Effect, Any, None]:
    """Carries out the searches of a reply; their texts are then what the model reads."""
    stage = turn.plan.knowledge_response
    for index, slot in enumerate(slots):
        base, query = slot.search or ("", "")
        found = yield from _retrieve(turn, base, query, number, f"search-{number}-{index}")
        if stage is None:
            slot.text = _results(turn, found)
        else:
            outcome = yield from _generate(turn, stage, query, found, number)
            slot.text = _generated(turn, outcome)
        turn.add_response(slot)


def answer_from_knowledge(turn: Turn) -> Generator[Effect, Any, Result]:
    """The turn of an agent that has one knowledge base and nothing else (`aws_compat`).

    As the service: the user's input is searched for as it is, and the answer is made of what was
    found. The agent's instruction is not used (recorded).
    """
    (base,) = turn.plan.knowledge_bases
    found = yield from _retrieve(turn, base, turn.question, 0, "search-0-0")
    stage = turn.plan.stages["KNOWLEDGE_BASE_RESPONSE_GENERATION"]
    outcome = yield from _generate(turn, stage, turn.question, found, 0, live=turn.streams)
    turn.number = 1
    if refusal := refused(outcome):
        return refusal
    parts = _parts(outcome)
    text = "\n".join(part.get("text") or "" for part in parts)
    return Answer(text, citations=cite(parts, turn.sources))


def _retrieve(
    turn: Turn, base: str, query: str, number: int, id: str
) -> Generator[Effect, Any, Mapping[str, dict[str, Any]]]:
    configuration = turn.start.retrieval.get(base)
    outcome = yield Retrieve(base, query, number, id, configuration)
    found = source_ids(outcome["references"], turn.sources)
    turn.sources.update(found)
    return found


def _results(turn: Turn, found: Mapping[str, dict[str, Any]]) -> str:
    results = [
        {"content": reference["content"].get("text", ""), "source": source}
        for source, reference in found.items()
    ]
    return turn.dialect.partial("search_results", results=results)


def _generate(
    turn: Turn,
    stage: StagePlan,
    query: str,
    found: Mapping[str, dict[str, Any]],
    number: int,
    *,
    live: bool = False,
) -> Generator[Effect, Any, Record]:
    values = {"query": query, "search_results": _results(turn, found)}
    outcome = yield from turn.ask(stage, values, number=number, live=live)
    if cut := was_cut(outcome):
        raise cut
    return outcome


def _generated(turn: Turn, outcome: Record) -> str:
    if refusal := refused(outcome):
        return refusal.text
    told = [
        {
            "text": part.get("text") or "",
            "sources": [one.get("sourceId") or "" for one in part.get("references") or ()],
        }
        for part in _parts(outcome)
    ]
    return turn.dialect.partial("answer_parts", parts=told)


def _parts(outcome: Record) -> list[dict[str, Any]]:
    parsed = outcome["response"].get("knowledgeBaseResponseGenerationParsedResponse") or {}
    generated = parsed.get("generatedResponse") or {}
    parts: list[dict[str, Any]] = generated.get("generatedResponseParts") or []
    return parts
