"""A call that waits for the user: for values, or for a yes. It goes on in the session's next turn.

The turn that asks ends with an `Answer` that has the call; its end's record in the journal has it,
and the next turn's first record, so that this turn goes on with it in any process. Of a call that
lacks values the model is told, and fills them in; a call that the user agrees to is made as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.actions.base import Operation
from orchestrator.engine.changes import only_reads, split_words
from orchestrator.engine.decisions import Act
from orchestrator.engine.results import Answer
from orchestrator.engine.state import Slot, Turn
from orchestrator.engine.toolbox import tool_name

_WAITS = "Not carried out: it waits for the user's yes."
_DECLINED = "Not carried out: the user said no."
UNDONE = (_WAITS, _DECLINED)
"""What the model reads in place of the result of a call that was not carried out."""

_LEFT_OUT = "All right, I will not do that."

# Characters of a question that a user reads to its end. A call with more to say is handed over to
# the caller, who sees its values as they are.
_LONGEST_QUESTION = 600


def ask_user_first(turn: Turn, slots: Sequence[Slot]) -> Answer | None:
    """The question that a reply's calls have to wait for, if one of them does."""
    for slot in slots:
        if slot.unknown:
            from orchestrator.engine.questions import ask_for_values

            pending = _build_pending(turn, slot.operation, slot)
            return _ask(turn, slot, ask_for_values(slot.unknown), pending)
    # What an orchestration of the author's own calls, and when, is the author's wish.
    if not turn.dialect.asks_first or turn.plan.features.orchestration is not None:
        return None
    for slot in slots:
        call = slot.call
        if call is None or not _needs_consent(turn, slot):
            continue
        pending = {**_build_pending(turn, call.operation, slot), "confirms": True}
        if _is_declined(turn, pending):
            turn.add_step([{**slot.as_result(), "text": _DECLINED, "error": False}])
            return Answer(_LEFT_OUT)
        from orchestrator.engine.questions import ask_for_consent

        question = ask_for_consent(call.operation, call.arguments)
        if turn.start.is_led or len(question) > _LONGEST_QUESTION:
            # What a supervisor's model tells its user of a question, or the user it, is not known.
            slot.waits = slot.waits or "USER_CONFIRMATION"
            continue
        return _ask(turn, slot, question, pending)
    return None


def _ask(turn: Turn, slot: Slot, question: str, pending: dict[str, Any]) -> Answer:
    # The model reads in later turns what it was that the user was asked for. It reads the call in
    # the form in which it wrote it, and no result of the others, which were not carried out.
    from orchestrator.engine.questions import describe_missing

    text = describe_missing(slot.unknown) if slot.unknown else _WAITS
    turn.add_step([{**slot.as_result(), "text": text, "error": False}])
    return Answer(question, "ask_user", pending=pending)


def _build_pending(turn: Turn, operation: Operation | None, slot: Slot) -> dict[str, Any]:
    if operation is None:
        raise AssertionError("only a call of an operation lacks values or consent")
    name = tool_name(operation, turn.dialect.protocol)
    return {"name": name, "arguments": dict(slot.values or {})}


def _needs_consent(turn: Turn, slot: Slot) -> bool:
    call = slot.call
    if call is None or slot.waits.startswith("USER_CONFIRMATION") or turn.consented == slot.id:
        return False
    operation = call.operation
    return not (operation.confirmation_waived or only_reads(operation))


def _is_declined(turn: Turn, pending: Mapping[str, Any]) -> bool:
    """Whether the user was just asked about this very call, and his answer begins with a no."""
    if turn.start.pending != pending:
        return False
    from orchestrator.engine.consent import begins_with_no

    return begins_with_no(turn.question)


def take_consent(turn: Turn) -> Act | None:
    """The call that the user was asked about, if his input is a yes; it is the turn's first step.

    After a plain no the call is not offered to the model any more.
    """
    pending = turn.start.pending
    if pending is None or not pending.get("confirms") or turn.start.is_led:
        return None
    operation = _find_operation(turn, pending["name"])
    if operation is None:
        return None
    from orchestrator.engine.consent import is_no, is_yes

    if is_yes(turn.question, split_words(operation.name)):
        turn.consented = f"{turn.start.request_id}-consent"
        use = {"toolUseId": turn.consented, "name": pending["name"], "input": pending["arguments"]}
        turn.take_reply([{"toolUse": use}])
        return Act([_build_item(operation, pending["arguments"], turn.consented)], [], "")
    if is_no(turn.question):
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
