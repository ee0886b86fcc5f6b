"""Knowledge bases in a turn: searches, and answers that are made of what they found."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.engine.decisions import REFUSAL, cite, find_refusal, find_truncation, source_ids
from orchestrator.engine.effects import Effect, Guard, Retrieve
from orchestrator.engine.entities import decode_copied, find_copied
from orchestrator.engine.guardrail_checks import INTERVENED
from orchestrator.engine.results import Answer, Refusal, Result
from orchestrator.engine.state import Slot, Turn
from orchestrator.engine.toolbox import search_name
from orchestrator.errors import ValidationError
from orchestrator.prompts import Dialect
from orchestrator.sessions.journal import Record

if TYPE_CHECKING:
    from orchestrator.engine.plan import StagePlan


def search(turn: Turn, slots: Sequence[Slot], number: int) -> Generator[Effect, Any, None]:
    """Carries out the searches of a reply; their texts are then what the model reads."""
    stage = turn.plan.knowledge_response
    for index, slot in enumerate(slots):
        base, query = slot.search or ("", "")
        known = frozenset(turn.sources)
        found = yield from _retrieve(turn, base, query, number, f"search-{number}-{index}")
        if stage is None:
            slot.text = _results(turn.dialect, found)
        else:
            results, blocked = yield from _check_results(turn, stage, found, number, index)
            if blocked:
                slot.reject(results)
                for id in found.keys() - known:  # nobody has read it, so nobody cites it
                    del turn.sources[id]
            else:
                outcome = yield from _generate(turn, stage, query, results, number)
                slot.text = _render_answer(turn, outcome)
        turn.add_response(slot)


def answer_from_knowledge(turn: Turn) -> Generator[Effect, Any, Result]:
    """The turn of an agent that has one knowledge base and nothing else (`aws_compat`).

    As the service: the user's input is searched for as it is, and the answer is made of what was
    found. The agent's instruction is not used (recorded).
    """
    (base,) = turn.plan.knowledge_bases
    found = yield from _retrieve(turn, base, turn.question, 0, "search-0-0")
    stage = turn.plan.stages["KNOWLEDGE_BASE_RESPONSE_GENERATION"]
    results, blocked = yield from _check_results(turn, stage, found, 0, 0)
    if blocked:
        return Refusal(results, INTERVENED)
    outcome = yield from _generate(turn, stage, turn.question, results, 0, live=turn.streams)
    turn.number = 1
    if refusal := find_refusal(outcome):
        return refusal
    copied = find_copied(turn)
    parts = [
        {**part, "text": decode_copied(part.get("text") or "", copied)} for part in _parts(outcome)
    ]
    text = " ".join(part["text"] for part in parts)  # as parts are joined as they stream
    answer = Answer(text or REFUSAL, citations=cite(parts, turn.sources, text))
    cite_for_model(turn, answer)
    return answer


def cite_for_model(turn: Turn, answer: Answer) -> None:
    """Finds the sources of an answer whose model cannot name them."""
    if turn.dialect.engine_cites and turn.sources and not answer.citations:
        from orchestrator.engine.attribution import attribute

        parts = attribute(answer.text, turn.question, turn.sources)
        answer.citations = cite(parts, turn.sources, answer.text)


def _retrieve(
    turn: Turn, base: str, query: str, number: int, id: str
) -> Generator[Effect, Any, Mapping[str, dict[str, Any]]]:
    configuration = (turn.start.retrieval or {}).get(base)
    outcome = yield Retrieve(base, query, number, id, configuration)
    found = source_ids(outcome["references"], turn.sources)
    turn.sources.update(found)
    return found


def _results(dialect: Dialect, found: Mapping[str, dict[str, Any]]) -> str:
    results = [
        {"content": reference["content"].get("text", ""), "source": source}
        for source, reference in found.items()
    ]
    return dialect.partial("search_results", results=results)


def _check_results(
    turn: Turn, stage: StagePlan, found: Mapping[str, dict[str, Any]], number: int, index: int
) -> Generator[Effect, Any, tuple[str, bool]]:
    """What a stage reads of what was found, and whether a guardrail blocked it."""
    # The best passage stands last, next to what the model is to do (recorded).
    results = _results(stage.dialect, dict(reversed([*found.items()])))
    if not turn.plan.features.guard_results:
        return results, False
    outcome = yield Guard(results, "OUTPUT", number, f"guardrail-found-{number}-{index}")
    if outcome["action"] == "INTERVENED":
        results = outcome["text"]
    return results, outcome["blocked"]


def _generate(
    turn: Turn,
    stage: StagePlan,
    query: str,
    results: str,
    number: int,
    *,
    live: bool = False,
) -> Generator[Effect, Any, Record]:
    values = {"query": query, "search_results": results}
    outcome = yield from turn.ask(stage, values, number=number, live=live)
    if cut := find_truncation(outcome):
        raise cut
    return outcome


def _render_answer(turn: Turn, outcome: Record) -> str:
    if refusal := find_refusal(outcome):
        return refusal.text
    rendered = [
        {
            "text": part.get("text") or "",
            "sources": [one.get("sourceId") or "" for one in part.get("references") or ()],
        }
        for part in _parts(outcome)
    ]
    return turn.dialect.partial("answer_parts", parts=rendered)


def _parts(outcome: Record) -> list[dict[str, Any]]:
    parsed = outcome["response"].get("knowledgeBaseResponseGenerationParsedResponse") or {}
    generated = parsed.get("generatedResponse") or {}
    parts: list[dict[str, Any]] = generated.get("generatedResponseParts") or []
    return parts


def prepare_search(
    known: Collection[str], item: Mapping[str, Any], dialect: Dialect, id: str
) -> Slot:
    """Checks one search, a member of the parser's `agentKnowledgeBases`."""
    base = item.get("knowledgeBaseId") or ""
    query = (item.get("searchQuery") or {}).get("value") or ""
    slot = Slot(item.get("id") or id, search_name(base, dialect.protocol))
    if base not in known:
        there = ", ".join(known) or "none"
        slot.reject(f"{base!r} is not a knowledge base; there are: {there}.")
    elif mistake := _query_mistake(str(query)):
        slot.reject(mistake)
    else:
        slot.search = (base, str(query))
    return slot


def _query_mistake(query: str) -> str:
    # Checked here, since what a knowledge base refuses is its configuration, too: that is not the
    # model's to mend.
    from orchestrator.knowledge.settings import check_query

    try:
        check_query(query)
    except ValidationError as error:
        return f"Nothing was searched: {error.message}."
    return ""
