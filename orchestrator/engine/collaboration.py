"""A supervisor's part of a turn: routing, and work for its collaborators."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from sys import maxsize
from typing import Any

from orchestrator.engine.decisions import (
    find_parts,
    find_refusal,
    read_cited_text,
    realign_citations,
    source_ids,
)
from orchestrator.engine.effects import ROUTE, Branch, Branches, Effect
from orchestrator.engine.guardrail_checks import INTERVENED, guard_results
from orchestrator.engine.payloads import expand_payloads, readable
from orchestrator.engine.plan import Plan, StagePlan
from orchestrator.engine.prompt_history import Talk
from orchestrator.engine.results import Answer, ControlReturn, Failure, Refusal, Result
from orchestrator.engine.state import Slot, Turn
from orchestrator.engine.toolbox import message_name
from orchestrator.errors import LimitExceeded, rebuild_error
from orchestrator.limits import Limits
from orchestrator.message import Message
from orchestrator.prompts import Dialect
from orchestrator.prompts.steps import EMPTY, text_blocks
from orchestrator.sessions.journal import Record

_BOUNDLESS = Limits(model_calls=maxsize, tokens=maxsize, actions=maxsize)

_UNFINISHED = "This agent did not finish its work. What it had done before is not undone."


def route(turn: Turn) -> Generator[Effect, Any, Result | None]:
    """Has the routing classifier choose a collaborator, and that one answer the user's input.

    `None` when the supervisor has to answer it itself.
    """
    stage = turn.plan.routing
    if stage is None:
        return None
    chosen = yield from _choose_collaborator(turn, stage)
    if chosen is None or isinstance(chosen, Refusal):
        return chosen
    name, message = chosen
    branch = branch_of(turn, ROUTE, name, message)
    (ended,) = yield Branches([branch], 0, live=turn.streams, routed=True)
    if "control" in ended:
        return _get_return_control(ended)
    _account(turn, ended)
    result = _as_result(ended)
    if isinstance(result, Answer) and turn.plan.post_processing is not None:
        return (yield from _as_draft(turn, name, result))
    return result


def _choose_collaborator(
    turn: Turn, stage: StagePlan
) -> Generator[Effect, Any, tuple[str, str] | Refusal | None]:
    # The collaborator's name and its message; none when the supervisor has to see to it itself.
    again: list[Message] = []
    for _ in range(turn.limits.reprompts + 1):
        values = partial(routing_values, stage.dialect, turn.question, turn.start.last_agent)
        outcome = yield from turn.ask(stage, of_past=values, again=again)
        if refusal := find_refusal(outcome):
            return refusal
        parsed = outcome["response"].get("routingClassifierParsedResponse") or {}
        error = parsed.get("parsingErrorDetails")
        if not error:
            return _read_choice(turn, parsed.get("responseDetails") or {})
        said = text_blocks(outcome["content"]) or [{"text": EMPTY}]
        correction = [{"text": error["repromptResponse"]}]
        again = [*again, Message("assistant", said), Message("user", correction)]
    return None


def _as_draft(turn: Turn, name: str, answer: Answer) -> Generator[Effect, Any, Answer | Refusal]:
    # What a collaborator answered, as post-processing may read it.
    slot = Slot(ROUTE, name)
    slot.text = readable(answer.text)
    if turn.plan.features.guard_results:
        yield from guard_results(turn, [slot], 0)
        if slot.error:
            return Refusal(slot.text, INTERVENED)
        answer.text, answer.citations = slot.text, realign_citations(answer.citations, slot.text)
    turn.add_response(slot)
    return answer


def _account(turn: Turn, outcome: Record) -> None:
    turn.count(outcome)
    # What the caller gave while the collaborator waited is given to all that follows.
    turn.prompt_attributes = outcome.get("prompt_attributes", turn.prompt_attributes)


def routing_values(dialect: Dialect, question: str, last_agent: str, talk: Talk) -> dict[str, str]:
    """Placeholder values of the routing classifier; `last_agent` answered last, empty for none."""
    values = {
        "conversation": talk.conversation(dialect, [("user", question)], talk.turns),
        "last_user_request": dialect.partial("last_user_request", question=question),
    }
    if last_agent:
        name = "last_most_specialized_agent_guideline"
        values[name] = dialect.partial(name, agent=last_agent)
    return values


def _read_choice(turn: Turn, details: Mapping[str, Any]) -> tuple[str, str] | None:
    chosen = details.get("agentCollaboratorInvocation") or {}
    name: str = chosen.get("agentCollaboratorName") or ""
    if details.get("type") == "LAST_AGENT":
        name = turn.start.last_agent
    if name not in turn.plan.collaborators:
        return None
    # A custom parser may say what to send (AWS: parser Lambda, `input.text`).
    return name, (chosen.get("input") or {}).get("text") or turn.question


def branch_of(turn: Turn, id: str, name: str, message: str) -> Branch:
    """A collaborator's work on a message."""
    collaborator, above = turn.plan.collaborators[name], turn.start
    path = f"{above.path}/{id}" if above.path else id
    team = f"{above.team}/{name}" if above.team else name
    limits = turn.budget(collaborator.agent.limits if collaborator.agent else turn.plan.limits)
    return Branch(path, collaborator, message, turn.prompt_attributes, limits, team)


def prepare_message(turn: Turn, item: Mapping[str, Any], id: str) -> Slot:
    """A message of the model to another agent; a mistake becomes a result it can mend."""
    name = item.get("agentCollaboratorName") or ""
    text = str((item.get("input") or {}).get("text") or "")
    slot = Slot(item.get("id") or id, message_name(turn.dialect.protocol))
    found = _find_collaborator(turn.plan, name)
    if found is None:
        there = ", ".join(turn.plan.collaborators) or "none"
        slot.reject(f"{name!r} is not an agent that you can send messages to; there are: {there}.")
    elif not text.strip():
        slot.reject(f"Missing the argument content in the {slot.name} call.")
    elif not turn.payloads.fit(text):
        slot.reject(
            f"With the payloads that it refers to, the message would have more than "
            f"{turn.payloads.most} bytes. Refer to fewer of them, and to each only once."
        )
    else:
        slot.branch = branch_of(turn, id, found, text)
    return slot


def _find_collaborator(plan: Plan, name: str) -> str | None:
    if name in plan.collaborators:
        return name
    folded = name.strip().casefold()
    return next((one for one in plan.collaborators if one.casefold() == folded), None)


def collaborate(
    turn: Turn, slots: Sequence[Slot], number: int
) -> Generator[Effect, Any, ControlReturn | None]:
    """Has collaborators work on their messages, several at the same time."""
    branches = [slot.branch for slot in slots if slot.branch is not None]
    if not branches:
        return None
    _share(turn, branches)
    for branch in branches:  # not before it is known that there are no more than may work
        branch.message = expand_payloads(branch.message, turn.payloads)
    outcomes = yield Branches(branches, number)
    waiting = next((one for one in outcomes if "control" in one), None)
    if waiting is not None:
        return _get_return_control(waiting)
    failed: Failure | None = None
    for slot, outcome in zip(slots, outcomes, strict=True):
        _account(turn, outcome)
        ended = _as_result(outcome)
        if isinstance(ended, Failure):
            failed = failed or ended
            slot.text, slot.checked = _UNFINISHED, True  # for the turns to come
            continue
        slot.payloads = outcome["text"]
        if _hands_on(turn):
            slot.text, slot.answer = outcome["text"], ended
        else:
            slot.text = _render_answer(turn, outcome)
        turn.add_response(slot)
    if failed is not None:
        raise failed.error
    return None


def _hands_on(turn: Turn) -> bool:
    # A small model that says an answer again makes up facts, refuses, or asks the same agent until
    # no step is left. But one that has something else to call may need the answer for that.
    plan = turn.plan
    return turn.dialect.hands_on and not plan.catalog.operations and not plan.knowledge_bases


def take_answer(turn: Turn, slots: Sequence[Slot]) -> Answer | Refusal | None:
    """The answer of the one collaborator that was asked in a step, if it ends the turn.

    After an empty one no collaborator is asked in the turn any more.
    """
    if len(slots) != 1 or slots[0].answer is None:
        return None
    slot, answer = slots[0], slots[0].answer
    text = slot.text or ""  # as the guardrail lets it be read
    if not text.strip() or text == EMPTY:
        turn.excluded |= {slot.name}
        return None
    if isinstance(answer, Answer) and text != answer.text:
        answer.text, answer.citations = text, realign_citations(answer.citations, text)
    return answer


def _share(turn: Turn, branches: Sequence[Branch]) -> None:
    # What is left is not spent twice: the reply's other calls have had their part, and agents at
    # work at the same time have theirs.
    left, count = turn.budget(_BOUNDLESS), len(branches)
    if left.model_calls < count:
        raise LimitExceeded(
            f"the turn may make {left.model_calls} more model calls, too few for the {count} "
            "agents that are to work at the same time; raise the limit 'model_calls'",
            limit="model_calls",
        )
    for branch in branches:
        own = branch.limits
        branch.limits = replace(
            own,
            model_calls=min(own.model_calls, left.model_calls // count),
            tokens=min(own.tokens, max(left.tokens // count, 1)),
            actions=min(own.actions, left.actions // count),
        )


def _render_answer(turn: Turn, outcome: Record) -> str:
    # With sources, an answer goes in parts, so that the supervisor can go on citing them.
    citations = outcome.get("citations") or []
    answer = str(outcome["text"])
    if not citations:
        return answer
    parts: list[dict[str, Any]] = []
    position = 0
    cited = list(map(read_cited_text, citations))
    for citation, text, (start, stands) in zip(
        citations, cited, find_parts(cited, answer), strict=True
    ):
        found = source_ids(citation["retrievedReferences"], turn.sources)
        turn.sources.update(found)
        if stands:  # what is between the parts is said, too, without a source
            parts.append({"text": answer[position:start].strip(), "sources": []})
            position = start + len(text)
        parts.append({"text": text, "sources": list(found)})
    parts.append({"text": answer[position:].strip(), "sources": []})
    return turn.dialect.partial("answer_parts", parts=[one for one in parts if one["text"]])


def _as_result(outcome: Record) -> Answer | Refusal | Failure:
    kind = outcome["result"]
    if kind == "failure":
        error = rebuild_error(outcome["error"], outcome["message"], outcome["stop_reason"])
        return Failure(error, outcome["stop_reason"])
    if kind == "refusal":
        return Refusal(outcome["text"], outcome["stop_reason"])
    return Answer(outcome["text"], outcome["stop_reason"], outcome.get("citations") or [])


def _get_return_control(outcome: Record) -> ControlReturn:
    control: ControlReturn = outcome["control"]
    return control
