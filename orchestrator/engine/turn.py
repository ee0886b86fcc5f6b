"""One turn of an agent, as a generator of effects: no socket, no clock, no randomness.

It reads like the flow chart of a Bedrock agent: guardrail, pre-processing, routing, then the ReAct
loop (ask the model; carry out its calls, or ask the user, or answer), post-processing, guardrail,
and the session's summary when it ends and is to be remembered. It yields effects and is sent their
outcomes, which are journal records. The same records give the same turn again: that is how a turn
goes on after a return of control or a crash, and how its trace is made.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from orchestrator.engine.collaboration import route
from orchestrator.engine.decisions import (
    REFUSAL,
    Act,
    cite,
    find_refusal,
    find_truncation,
    read_cited_text,
    realign_citations,
)
from orchestrator.engine.effects import CallModel, Effect
from orchestrator.engine.entities import decode_copied, find_copied
from orchestrator.engine.guardrail_checks import guard_answer, guard_input
from orchestrator.engine.payloads import expand_payloads, readable
from orchestrator.engine.pending_calls import UNDONE, find_missing_call, take_consent
from orchestrator.engine.plan import StagePlan
from orchestrator.engine.results import Answer, Failure, Refusal, Result
from orchestrator.engine.retrieval import answer_from_knowledge, cite_for_model
from orchestrator.engine.session_summary import remember
from orchestrator.engine.state import NO_VALUES, Turn, build_limit_error
from orchestrator.engine.steps import act
from orchestrator.errors import ModelOutputError, OrchestratorError
from orchestrator.message import text_of
from orchestrator.parsers.codes import CUSTOM_PARSER, OURS
from orchestrator.parsers.orchestration import usual_answer
from orchestrator.sessions.journal import Record
from orchestrator.sessions.responses import response_of

_USUAL = frozenset({"end_turn", "tool_use", "stop_sequence"})


# What a user reads in place of what was meant for the model.
_APOLOGY = "Sorry, I could not do that."

_MALFORMED = {
    "malformed_tool_use": "The tool call was malformed. Write it again: one tool, with its "
    "parameters as valid JSON.",
    "malformed_model_output": "The reply was malformed. Write it again.",
}


def run_turn(turn: Turn) -> Generator[Effect, Any, Result]:
    """The whole turn, from its beginning to its result."""
    try:
        if turn.start.closing:
            result: Result = Answer("")
        elif turn.plan.guardrail is None:
            # Most agents have the loop alone. Each generator between it and its driver is run
            # through for every effect.
            result = yield from (_react(turn) if turn.plan.only_reacts else _stages(turn))
        else:
            refusal = yield from guard_input(turn)
            result = refusal or (yield from guard_answer(turn, (yield from _stages(turn))))
        if turn.start.remembers():
            yield from remember(turn, result)
        return result
    except OrchestratorError as error:
        return Failure(error, getattr(error, "limit", "") or getattr(error, "code", ""))


def _stages(turn: Turn) -> Generator[Effect, Any, Result]:
    plan = turn.plan
    if plan.pre_processing is not None:
        refusal = yield from _pre_process(turn, plan.pre_processing)
        if refusal is not None:
            return refusal
    result = None if plan.plain else (yield from _run_other_loop(turn))
    if result is None:
        result = yield from _react(turn)
    if isinstance(result, Answer):
        if plan.collaborators:
            _resolve(turn, result)
        if plan.post_processing is not None:
            result = yield from _post_process(turn, plan.post_processing, result)
            if plan.collaborators and isinstance(result, Answer):
                _resolve(turn, result)
    return result


def _resolve(turn: Turn, answer: Answer) -> None:
    # An agent above this one may share the payloads of its answer; the user has no use for
    # their tags.
    make = expand_payloads if turn.start.path else readable
    text = make(answer.text, turn.payloads)
    if text != answer.text:
        answer.text, answer.citations = text, realign_citations(answer.citations, text)


def _run_other_loop(turn: Turn) -> Generator[Effect, Any, Result | None]:
    plan = turn.plan
    if plan.features.orchestration is not None:
        result: Result = yield from plan.features.orchestration.run(turn)
        return result
    if plan.shortcut:
        return (yield from answer_from_knowledge(turn))
    return (yield from route(turn))


def _pre_process(turn: Turn, stage: StagePlan) -> Generator[Effect, Any, Refusal | None]:
    outcome = yield from turn.ask(stage)
    if refusal := find_refusal(outcome):
        return refusal
    if cut := find_truncation(outcome):
        raise cut
    # AWS: "Parser Lambda function", pre-processing: without `isValidInput` the input is refused.
    verdict = outcome["response"].get("preProcessingParsedResponse") or {}
    return None if verdict.get("isValidInput") else Refusal(REFUSAL)


def _react(turn: Turn) -> Generator[Effect, Any, Result]:
    stage = turn.plan.orchestration
    live = turn.streams
    # A small model may take what it was told of a call for what the user is to be told.
    may_repeat = turn.dialect.grounded
    misread = first = 0
    pending = None
    if turn.start.pending is not None:
        agreed = take_consent(turn)
        if agreed is not None:
            ended = yield from act(turn, agreed, 0)
            if ended is not None:
                return ended
            first = 1
        pending = find_missing_call(turn)
    for number in range(first, turn.limits.iterations):
        turn.number = number
        upto = len(turn.scratchpad)
        turn.spend_model_call()
        outcome = yield CallModel(
            stage,
            number,
            NO_VALUES,
            turn.scratchpad,
            upto,
            turn.prompt_attributes,
            live,
            turn.excluded,
            None,
            pending,
            _collect_unsaid(turn) if may_repeat else (),
        )
        pending = None
        turn.add_tokens(outcome)
        # The step's messages are made of this reply when its results are known.
        turn.last_reply = outcome
        decision = decide(outcome, turn.sources)
        if isinstance(decision, Act):
            misread = 0
            ended = yield from act(turn, decision, number)
            if ended is not None:
                return ended
        elif isinstance(decision, (Answer, Refusal)):
            if may_repeat or turn.reprompts or turn.sources:
                _finish(turn, decision)
            return decision
        elif isinstance(decision, Reprompt):
            misread += 1
            turn.add_reprompt(number, decision.text)
            _check_misread(turn, misread, decision)
            turn.add_step([decision.as_result()])
        else:
            assert_never(decision)
    raise build_limit_error("iterations", turn.limits.iterations, "steps of the ReAct loop")


def _finish(turn: Turn, result: Answer | Refusal) -> None:
    if turn.dialect.grounded:
        _hide_unsaid(turn, result)
    if isinstance(result, Answer) and (turn.reprompts or turn.sources):
        _decode(turn, result)
        cite_for_model(turn, result)


def _decode(turn: Turn, answer: Answer) -> None:
    copied = find_copied(turn)
    text = decode_copied(answer.text, copied)
    if text != answer.text:
        turn.forget_reply()
        cited = [_decode_citation(citation, copied) for citation in answer.citations]
        answer.text, answer.citations = text, realign_citations(cited, text)


def _decode_citation(citation: Mapping[str, Any], copied: Mapping[str, str]) -> dict[str, Any]:
    part = {"text": decode_copied(read_cited_text(citation), copied)}
    return {**citation, "generatedResponsePart": {"textResponsePart": part}}


def _collect_unsaid(turn: Turn) -> tuple[str, ...]:
    # Also of earlier turns, which it reads again.
    undone = UNDONE if turn.dialect.asks_first else ()
    return (*undone, *(text for _, text in turn.reprompts))


def _hide_unsaid(turn: Turn, result: Answer | Refusal) -> None:
    if any(text and text in result.text for text in _collect_unsaid(turn)):
        turn.forget_reply()
        result.text = _APOLOGY


def _post_process(
    turn: Turn, stage: StagePlan, answer: Answer
) -> Generator[Effect, Any, Answer | Refusal]:
    if answer.stop_reason != "end_turn":
        return answer
    responses = stage.dialect.partial("responses", responses=turn.responses)
    # `$latest_response$` is the answer without its tags: the template brings its own.
    values = {"latest_response": answer.text, "responses": responses, "bot_response": responses}
    outcome = yield from turn.ask(stage, values)
    if refusal := find_refusal(outcome):
        return refusal
    if not find_truncation(outcome):  # else the draft stays: it is whole
        parsed = outcome["response"].get("postProcessingParsedResponse") or {}
        text = decode_copied(parsed.get("responseText") or "", find_copied(turn))
        if text and text != answer.text:
            turn.forget_reply()
            answer.text, answer.citations = text, realign_citations(answer.citations, text)
    return answer


def _check_misread(turn: Turn, misread: int, problem: Reprompt) -> None:
    if misread > turn.limits.reprompts:
        raise ModelOutputError(
            f"the model's reply could not be understood {misread} times in a row "
            f"({problem.code}); see the trace, or run `orchestrator parse` on the reply",
            code=problem.code,
            raw=problem.name,
        )


@dataclass(slots=True, eq=False, repr=False)
class Reprompt:
    """The reply could not be understood; the text tells the model how to do better."""

    text: str
    code: str
    name: str

    def as_result(self) -> dict[str, Any]:
        """The mistake, as `step_messages` takes it."""
        # A custom parser means its tags, as the texts of ours do.
        markup = self.code == CUSTOM_PARSER or self.text in OURS
        return {"id": "", "name": self.name, "text": self.text, "error": True, "markup": markup}


Decision = Act | Reprompt | Answer | Refusal
"""What to do next; with an answer or a refusal, the turn's loop ends."""


def decide(record: Record, sources: Mapping[str, dict[str, Any]]) -> Decision:
    """What a `model` record of the ORCHESTRATION stage means.

    Every stop reason of Converse is handled (botocore: `StopReason`). `sources` has what the turn
    retrieved, by source id, for the answer's citations.

    Raises:
        ModelOutputError: The reply was cut off where it can't be used.
    """
    if "response" in record or record["stop"] not in _USUAL:
        return _decide_parsed(record, sources)
    # A reply as models usually write it: the parser has made sure of that. What it returns would
    # be made here only to be taken apart again.
    uses = []
    for block in record["content"]:
        if "toolUse" in block:
            uses.append(block["toolUse"])
    return Act((), (), "", (), uses) if uses else Answer(usual_answer(record["content"]))


def _decide_parsed(record: Record, sources: Mapping[str, dict[str, Any]]) -> Decision:
    stop = record["stop"]
    parsed = response_of(record)["orchestrationParsedResponse"]
    details = parsed.get("responseDetails") or {}
    kind = details.get("invocationType")
    if stop not in _USUAL:
        unusual = _handle_unusual_stop(record, stop)
        if unusual is not None:
            return unusual
        if kind != "FINISH" and (cut := find_truncation(record)):
            raise cut
    error = parsed.get("parsingErrorDetails")
    if error:
        raw = record.get("raw") or text_of(record["content"])
        return Reprompt(error["repromptResponse"], record.get("code", ""), raw)
    if kind == "FINISH":
        final = details["agentFinalResponse"]
        answer = Answer(final["responseText"], "max_tokens" if stop == "max_tokens" else "end_turn")
        if cited := final.get("citations"):
            said = cited.get("generatedResponseParts") or ()
            answer.citations = cite(said, sources, answer.text)
        return answer
    if kind and len(details) == 2 and "actionGroupInvocations" in details:  # and nothing else
        return Act(details["actionGroupInvocations"] or [], [], "")
    ask = details.get("agentAskUser")
    return Act(
        details.get("actionGroupInvocations") or _single(details, "actionGroupInvocation"),
        details.get("agentKnowledgeBases") or _single(details, "agentKnowledgeBase"),
        ask["responseText"] if ask else "",
        details.get("agentCollaboratorInvocations", ()),
    )


def _single(details: Mapping[str, Any], member: str) -> list[dict[str, Any]]:
    # Version 2.0 of the contract has lists (`...s`), version 1.0 a single member.
    one = details.get(member)
    return [one] if one else []


def _handle_unusual_stop(record: Record, stop: str) -> Decision | None:
    if refusal := find_refusal(record):
        return refusal
    if stop == "model_context_window_exceeded" and (cut := find_truncation(record)):
        raise cut
    if stop in _MALFORMED and record.get("code"):
        # Some models' calls come under this stop reason and can be understood all the same.
        return Reprompt(_MALFORMED[stop], stop, text_of(record["content"]))
    return None
