"""A call that waits for the user: for values, or for a yes. It goes on in the session's next turn.

The turn that asks ends with an `Answer` that has the call; its end's record in the journal has it,
and the next turn's first record, so that this turn goes on with it in any process. Of a call that
lacks values the model is told, and fills them in; a call that the user agrees to is made as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.actions.base import Operation
from orchestrator.engine.consent import is_no, is_yes
from orchestrator.engine.decisions import Act
from orchestrator.engine.questions import ask_for_consent, ask_for_values, describe_missing
from orchestrator.engine.results import Answer
from orchestrator.engine.state import Slot, Turn
from orchestrator.engine.toolbox import tool_name
from orchestrator.engine.wishes import is_wished, names_all_values, only_reads, split_words

_WAITS = "Not carried out: it waits for the user's yes."

# How many of the user's last inputs count when it is asked whether he said a value.
_RECENT = 3


def ask_user_first(turn: Turn, decided: Act, slots: Sequence[Slot]) -> Answer | None:
    """The question that a reply's calls have to wait for, if one of them does."""
    if not (turn.dialect.unknown_value or turn.dialect.asks_first):
        return None
    for item, slot in zip(decided.actions, slots, strict=False):
        if slot.unknown:
            pending = _build_pending(turn, slot.operation, item)
            return _ask(turn, slot, ask_for_values(slot.unknown), pending)
    if not turn.dialect.asks_first:
        return None
    for item, slot in zip(decided.actions, slots, strict=False):
        call = slot.call
        if call is not None and _needs_consent(turn, slot):
            pending = {**_build_pending(turn, call.operation, item), "confirms": True}
            return _ask(turn, slot, ask_for_consent(call.operation, call.arguments), pending)
    return None


def _ask(turn: Turn, slot: Slot, question: str, pending: dict[str, Any]) -> Answer:
    # The model reads in later turns what it was that the user was asked for. It reads the call in
    # the form in which it wrote it, and no result of the others, which were not carried out.
    text = describe_missing(slot.unknown) if slot.unknown else _WAITS
    turn.add_step([{**slot.as_result(), "text": text, "error": False}])
    return Answer(question, "ask_user", pending=pending)


def _build_pending(
    turn: Turn, operation: Operation | None, item: Mapping[str, Any]
) -> dict[str, Any]:
    if operation is None:
        raise AssertionError("only a call of an operation lacks values or consent")
    values = item.get("actionGroupInput") or {}
    pending: dict[str, Any] = {
        "name": tool_name(operation, turn.dialect.protocol),
        "arguments": {name: value.get("value") for name, value in values.items()},
    }
    if is_wished(turn.question, operation) or _goes_on(turn, pending["name"], wished=True):
        pending["wished"] = True
    return pending


def _goes_on(turn: Turn, name: str, *, wished: bool = False) -> bool:
    """Whether a call goes on with the one that the user was asked values for."""
    before = turn.start.pending
    return (
        before is not None
        and before["name"] == name
        and "confirms" not in before
        and (not wished or "wished" in before)
    )


def _needs_consent(turn: Turn, slot: Slot) -> bool:
    call = slot.call
    if call is None or slot.waits.startswith("USER_CONFIRMATION"):
        return False
    operation = call.operation
    if operation.require_confirmation is not None or only_reads(operation):
        return False
    if turn.consented == slot.id:
        return False
    name = tool_name(operation, turn.dialect.protocol)
    wished = is_wished(turn.question, operation) or _goes_on(turn, name, wished=True)
    return not (wished and names_all_values(call.arguments, _collect_inputs(turn)))


def _collect_inputs(turn: Turn) -> list[str]:
    inputs = [
        "".join([block["text"] for block in one["content"] if "text" in block])
        for one in turn.start.earlier()
        if one["role"] == "user"
    ]
    return [*inputs[1 - _RECENT :], turn.question]


def take_consent(turn: Turn) -> Act | None:
    """The call that the user was asked about, if his input is a yes; it is the turn's first step.

    After a plain no the call is not offered to the model any more.
    """
    pending = turn.start.pending
    if pending is None or not pending.get("confirms"):
        return None
    operation = _find_operation(turn, pending["name"])
    if operation is None:
        return None
    named = {*split_words(operation.name)}
    known = [*named, *map(str, pending["arguments"].values())]
    orders = is_wished(turn.question, operation)
    if is_yes(turn.question, known, orders=orders):
        turn.consented = f"{turn.start.request_id}-consent"
        use = {"toolUseId": turn.consented, "name": pending["name"], "input": pending["arguments"]}
        turn.take_reply([{"toolUse": use}])
        return Act([_build_item(operation, pending["arguments"], turn.consented)], [], "")
    if is_no(turn.question) and not orders:
        turn.excluded |= {pending["name"]}
    return None


def find_missing_call(turn: Turn) -> tuple[str, Mapping[str, Any]] | None:
    """The call that lacked values when the user was last asked, for the model to go on with."""
    pending = turn.start.pending
    if pending is None or pending.get("confirms"):
        return None
    name = pending["name"]
    return (name, pending["arguments"]) if _find_operation(turn, name) is not None else None


def _find_operation(turn: Turn, name: str) -> Operation | None:
    # The agent may have changed since.
    protocol = turn.dialect.protocol
    known = turn.plan.catalog.operations
    return next((one for one in known if tool_name(one, protocol) == name), None)


def _build_item(operation: Operation, arguments: Mapping[str, Any], id: str) -> dict[str, Any]:
    """A call in the parsers' own shape (`actionGroupInvocations`)."""
    item: dict[str, Any] = {
        "id": id,
        "actionGroupName": operation.group,
        "actionGroupInput": {name: {"value": value} for name, value in arguments.items()},
    }
    if operation.verb:
        return {**item, "verb": operation.verb, "apiName": operation.path}
    return {**item, "functionName": operation.name}
