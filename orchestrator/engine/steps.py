"""What a step of the loop does with the calls in a reply: check, carry out, hand over."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from orchestrator.actions import Catalog
from orchestrator.actions.base import ActionResult, Call, Operation, Parameter
from orchestrator.actions.results import limit_size
from orchestrator.engine.calls import invocation_input, match_results, merge_changes, result_text
from orchestrator.engine.changes import only_reads
from orchestrator.engine.collaboration import collaborate, prepare_message, take_answer
from orchestrator.engine.decisions import Act
from orchestrator.engine.effects import AwaitResults, Dispatch, Effect, WaitingCall
from orchestrator.engine.guardrail_checks import guard_attributes, guard_results
from orchestrator.engine.pending_calls import ask_user_first
from orchestrator.engine.results import Answer, ControlReturn, Result
from orchestrator.engine.retrieval import prepare_search, search
from orchestrator.engine.state import Slot, Turn
from orchestrator.engine.toolbox import tool_name
from orchestrator.errors import (
    ActionOutcomeUnknown,
    DependencyFailed,
    OrchestratorError,
    error_class,
)
from orchestrator.parsers.calls import build_action
from orchestrator.prompts import Dialect
from orchestrator.sessions.journal import Record

_REPEATED = "This call was already made. It is not made again; its result is given once more."
_FAILED = "The action failed."
_LATE = "The action did not answer in time; whether it took effect is not known."
_STOPPED = "The turn was stopped before the action answered; whether it took effect is not known."


def act(turn: Turn, decided: Act, number: int) -> Generator[Effect, Any, Result | None]:
    """Carries out the calls of a reply, and takes their results into the scratchpad.

    Gives the result that ends the turn with this step, or `None` when the turn goes on.

    Raises:
        DependencyFailed: An action failed.
        LimitExceeded: There are more calls than the turn may make.
    """
    slots = _slots(turn, decided, number)
    may_ask = turn.dialect.unknown_value or turn.dialect.asks_first
    asked = ask_user_first(turn, slots) if may_ask else None
    if asked is not None:
        return asked
    ours, calls = _begin_calls(turn, slots)
    turn.begun = slots
    if ours:
        _take_outcomes(turn, ours, (yield Dispatch(calls, number)))
    if len(ours) < len(slots):
        handed_over = yield from _run_other_slots(turn, slots, number)
        if handed_over is not None:
            return handed_over
    if turn.plan.features.guard_results:
        yield from guard_results(turn, slots, number)
    answer = None
    if turn.plan.collaborators:
        answer = take_answer(turn, slots)
        _take_payloads(turn, slots)
    if slots:
        _finish_step(turn, slots)
    turn.begun = ()
    if turn.plan.guardrail is not None and turn.prompt_attributes is not turn.guarded:
        refusal = yield from guard_attributes(turn, number)
        if refusal is not None:
            return refusal
    return Answer(decided.question, "ask_user") if decided.question else answer


def _begin_calls(turn: Turn, slots: list[Slot]) -> tuple[list[Slot], list[Call]]:
    # Counts the calls, and gives those that the engine carries out itself.
    ours, calls, count = [], [], 0
    for slot in slots:
        if slot.text is None:
            count += 1
            if slot.call is not None and not slot.waits:
                ours.append(slot)
                calls.append(slot.call)
    turn.spend_actions(count)
    return ours, calls


def _take_payloads(turn: Turn, slots: list[Slot]) -> None:
    for slot in slots:
        if slot.branch is not None and slot.payloads:
            note = turn.payloads.take(slot.payloads, slot.branch.collaborator.name)
            slot.text = f"{slot.text}\n\n{note}" if note else slot.text


def _slots(turn: Turn, decided: Act, number: int) -> list[Slot]:
    slots = (_prepare_uses if decided.uses else _prepare_parsed)(turn, decided, number)
    for slot in slots:
        if slot.error:
            turn.add_reprompt(number, slot.text or "")
    if turn.done:
        _stop_repetitions(turn, slots, turn.done)
    return slots


def _prepare_uses(turn: Turn, decided: Act, number: int) -> list[Slot]:
    # As `prepare` does, for native calls: their values need not be taken out of the parser's shape.
    catalog, dialect, slots = turn.plan.catalog, turn.dialect, []
    for index, use in enumerate(decided.uses):
        id, key = _name_call(number, index), f"{turn.start.request_id}:{number}:{index}"
        operation = catalog.tools.get(use["name"])
        if operation is None:
            slots.append(prepare(catalog, build_action(use), dialect, id, key))
            continue
        slot = Slot(use["toolUseId"], operation.xml_name)
        _check_values(slot, catalog, operation, use["input"], dialect, id, key)
        slots.append(slot)
    return slots


def _prepare_parsed(turn: Turn, decided: Act, number: int) -> list[Slot]:
    catalog, dialect, slots = turn.plan.catalog, turn.dialect, []
    for index, item in enumerate(decided.actions):
        key = f"{turn.start.request_id}:{number}:{index}"
        slots.append(prepare(catalog, item, dialect, _name_call(number, index), key))
    for index, item in enumerate(decided.searches):
        known = turn.plan.knowledge_bases
        slots.append(prepare_search(known, item, dialect, f"search-{number}-{index}"))
    for index, item in enumerate(decided.messages):
        slots.append(prepare_message(turn, item, f"{number}.{index}"))
    return slots


@lru_cache(maxsize=1024)
def _name_call(number: int, index: int) -> str:
    # All turns name their calls alike: the records that live sessions keep share the names.
    return f"call-{number}-{index}"


def _stop_repetitions(turn: Turn, slots: list[Slot], done: dict[tuple[str, str], str]) -> None:
    # Small models repeat a call instead of answering. One that only reads is made again, any other
    # gets the result that it had; then the model has to do something else.
    for slot in slots:
        if slot.call is None or (same := identity(slot.call)) not in done:
            continue
        turn.excluded |= {tool_name(slot.call.operation, turn.dialect.protocol)}
        if not only_reads(slot.call.operation):
            turn.add_reprompt(turn.number, _REPEATED)
            slot.call, slot.waits = None, ""
            slot.text, slot.checked = done[same], True


def _finish_step(turn: Turn, slots: list[Slot]) -> None:
    results = []
    for slot in slots:
        results.append(slot.as_result())
    turn.add_step(results)
    done = turn.done
    if done is None:
        return
    calls = [(slot.call, slot.text or "") for slot in slots if slot.call is not None]
    if any(not only_reads(call.operation) for call, _ in calls):
        done.clear()  # what was read before may be otherwise now
    done.update((identity(call), text) for call, text in calls)


def _take_outcomes(turn: Turn, slots: list[Slot], outcomes: list[Record]) -> None:
    failure: OrchestratorError | None = None
    before = turn.prompt_attributes
    responds = turn.plan.post_processing is not None
    if len(outcomes) != len(slots):
        raise ValueError(f"{len(outcomes)} outcomes of {len(slots)} calls")
    for index, outcome in enumerate(outcomes):  # a strict `zip` is slow to make
        slot = slots[index]
        slot.text = outcome["text"]
        if state := outcome.get("state"):
            slot.error = True
            if state == "FAILURE":
                failed = _build_failure(slot, outcome)
                failure = failure or failed
                slot.reject(_describe_failure(failed, outcome))
        if responds:
            turn.add_response(slot)
        if "prompt_attributes" in outcome:
            given = outcome["prompt_attributes"]
            turn.prompt_attributes = merge_changes(before, turn.prompt_attributes, given)
        if "retrieval" in outcome:
            turn.start.retrieval = {**(turn.start.retrieval or {}), **outcome["retrieval"]}
    if failure is not None:
        raise failure


def _run_other_slots(
    turn: Turn, slots: list[Slot], number: int
) -> Generator[Effect, Any, ControlReturn | None]:
    yield from search(turn, [slot for slot in slots if slot.search], number)
    teamwork = [slot for slot in slots if slot.branch is not None]
    handed_over = yield from collaborate(turn, teamwork, number)
    if handed_over is not None:
        return handed_over
    waiting = [slot for slot in slots if slot.waits]
    return (yield from _return_control(turn, waiting, number)) if waiting else None


def _return_control(
    turn: Turn, slots: list[Slot], number: int
) -> Generator[Effect, Any, ControlReturn | None]:
    agent_id = turn.plan.agent_id
    waiting = [WaitingCall(one.call, one.waits, agent_id) for one in slots if one.call is not None]
    # Made from the request's random id, so that the same turn makes the same id again.
    import uuid

    id = str(uuid.uuid5(uuid.UUID(turn.start.request_id), f"control-{number}"))
    outcome = yield AwaitResults(id, waiting, number)
    if outcome is None:
        return ControlReturn(id, [invocation_input(one, agent_id) for one in waiting])
    turn.prompt_attributes = outcome.get("prompt_attributes", turn.prompt_attributes)
    results = match_results(waiting, outcome["results"])
    for slot, result in zip(slots, results, strict=True):
        _take_result(turn, slot, result)
    # Not before all are taken: the caller has carried out the others.
    _check_failures(slots, results)
    confirmed = [slot for slot in slots if slot.text is None]
    if confirmed:
        calls = [slot.call for slot in confirmed if slot.call is not None]
        _take_outcomes(turn, confirmed, (yield Dispatch(calls, number)))
    return None


def _take_result(turn: Turn, slot: Slot, result: Mapping[str, Any]) -> None:
    if result.get("confirmationState") == "DENY":
        slot.reject("The user did not confirm this call; it was not carried out.")
        return
    if _is_failure(result):
        slot.reject(_FAILED)
        return
    if slot.waits == "USER_CONFIRMATION":
        return  # confirmed: it is carried out here
    given = ActionResult(result_text(result), result.get("responseState") or "")
    taken = limit_size(given, turn.plan.limits.result_bytes, repeatable=False)
    slot.text, slot.error = taken.text, taken.state == "REPROMPT"
    turn.add_response(slot)


def _is_failure(result: Mapping[str, Any]) -> bool:
    denied = result.get("confirmationState") == "DENY"  # then nothing was carried out
    return result.get("responseState") == "FAILURE" and not denied


def _check_failures(slots: Sequence[Slot], results: Sequence[Mapping[str, Any]]) -> None:
    for slot, result in zip(slots, results, strict=True):
        if _is_failure(result):
            name = slot.name
            raise DependencyFailed(f"the caller reported that {name!r} failed", resource=name)


def _describe_failure(error: OrchestratorError, outcome: Record) -> str:
    # For the model; the error's own text is for the developer.
    if not isinstance(error, ActionOutcomeUnknown):
        return _FAILED
    return _STOPPED if "stopped" in outcome else _LATE


def _build_failure(slot: Slot, outcome: Record) -> OrchestratorError:
    kind = error_class(outcome.get("error", ""))
    message = outcome["text"] or f"{slot.name!r} reported a failure"
    if issubclass(kind, DependencyFailed):
        return kind(message, resource=slot.name)
    return DependencyFailed(message, resource=slot.name)


def prepare(catalog: Catalog, item: Mapping[str, Any], dialect: Dialect, id: str, key: str) -> Slot:
    """Finds and validates one action call; mistakes become results that the model can mend.

    `item` is a member of the parser's `actionGroupInvocations`. `id` names the call in the turn,
    because the model's own ids may come twice; `key` is its idempotency key.
    """
    group = item.get("actionGroupName") or ""
    name = item.get("functionName") or item.get("apiName") or ""
    verb = item.get("verb") or ""
    operation = catalog.find_invocation(item)
    slot = Slot(item.get("id") or id, operation.xml_name if operation else "")
    if operation is None:
        mark = "__" if dialect.protocol == "tool_use" else "::"
        slot.name = mark.join([part for part in (verb, group, name) if part])
        slot.reject(catalog.unknown(slot.name, dialect.protocol))
        return slot
    given = {}
    for parameter, value in (item.get("actionGroupInput") or {}).items():
        given[parameter] = value.get("value")
    _check_values(slot, catalog, operation, given, dialect, id, key)
    return slot


def _check_values(
    slot: Slot,
    catalog: Catalog,
    operation: Operation,
    values: Mapping[str, Any],
    dialect: Dialect,
    id: str,
    key: str,
) -> None:
    slot.values = values
    if dialect.unknown_value:
        slot.unknown = _find_unknown(operation, values, dialect.unknown_value)
        if slot.unknown:
            slot.operation = operation
            return
    check, slot.waits, _ = catalog.find_compiled(operation)
    arguments, problems = check(values, dialect.protocol)
    if problems:
        slot.waits = ""
        slot.reject(" ".join(problems))
    else:
        slot.call = Call(id, operation, arguments, key)


def _find_unknown(
    operation: Operation, values: Mapping[str, Any], mark: str
) -> Sequence[Parameter]:
    return [one for one in operation.parameters if values.get(one.name) == mark]


def identity(call: Call) -> tuple[str, str]:
    """What makes two calls the same: the operation and its arguments."""
    return call.operation.xml_name, json.dumps(call.arguments, sort_keys=True, default=str)
