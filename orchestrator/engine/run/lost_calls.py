"""The calls of a step that are still to be carried out, and what became of those that were begun.

A call whose intent is in the journal and whose outcome is not was begun by a process that has
stopped. Somebody's decision about it counts, then what its executor knows of it. Of any other
nobody knows whether it took effect: its turn is suspended until somebody says so. So it is with a
message to a remote collaborator, also when its answer was lost in a process that lives.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.actions.base import ActionResult, Call
from orchestrator.engine.effects import Branch, Dispatch, WaitingCall
from orchestrator.engine.results import Answer, ControlReturn
from orchestrator.engine.run.invocation import Run
from orchestrator.engine.run.outcomes import build_lost_branch, build_remote_record
from orchestrator.engine.run.turn_records import action_record, build_unknown_record
from orchestrator.errors import ActionOutcomeUnknown
from orchestrator.sessions import Record, TurnLog


class OutcomesUndecided(Exception):
    """Suspends a turn in its calls; no failure of it.

    Attributes:
        control: The calls that somebody is to decide about.
    """

    def __init__(self, control: ControlReturn) -> None:
        super().__init__()
        self.control = control


def find_pending_calls(run: Run, effect: Dispatch) -> tuple[dict[str, Record], list[Call]]:
    """What a stopped process left behind, by call id; and the calls to carry out, now intended.

    Raises:
        OutcomesUndecided: Nobody knows what became of some, and somebody is to decide.
    """
    known: dict[str, Record] = {}
    calls = effect.calls
    feed = run.replay.feed
    if feed.is_interrupted:
        known = feed.take_known(effect)
        if lost := feed.find_lost_calls(effect, known):
            _settle_lost_calls(run, lost, known)
        calls = [call for call in effect.calls if call.id not in known]
    if calls:
        run.intend(calls)
    return known, calls


def record_outcome(run: Run, known: dict[str, Record], record: Record) -> None:
    """Takes an action's outcome, and writes it down at once."""
    known[record["id"]] = record
    run.record_action(record)


def _settle_lost_calls(run: Run, calls: Sequence[Call], known: dict[str, Record]) -> None:
    from orchestrator.engine.undecided_calls import HAPPENED, REPEAT

    unknown: list[Call] = []
    given_up: list[Call] = []
    for call in calls:
        began, decided = run.now(), run.replay.feed.find_decision(call)
        if decided is None:
            found = _ask_executor(run, call)
        elif decided["decision"] == HAPPENED:
            found = _read_result(run, decided)
        else:  # `False`: it is carried out
            found = False if decided["decision"] == REPEAT else None
        if isinstance(found, ActionResult):
            record_outcome(run, known, action_record(call, found, began, run.now()))
        elif found is None:
            (unknown if decided is None else given_up).append(call)
    if unknown and run.suspends_on_unknown:
        raise OutcomesUndecided(hand_over_undecided(run, unknown))
    for call in (*unknown, *given_up):
        record_outcome(run, known, build_unknown_record(call, run.now()))


def _ask_executor(run: Run, call: Call) -> ActionResult | bool | None:
    executor = run.plan.catalog.executor(call.operation)
    return executor.find_outcome(call, run.plan.limits.result_bytes)


def _read_result(run: Run, decided: Record) -> ActionResult:
    from orchestrator.actions.results import limit_size

    result = ActionResult(decided.get("text", ""), decided.get("state", ""))
    return limit_size(result, run.plan.limits.result_bytes, repeatable=False)


def find_sent_message(run: Run, branch: Branch) -> Record | None:
    """What became of a message that a remote collaborator was sent before; `None` to send it."""
    from orchestrator.engine.undecided_calls import HAPPENED, REPEAT

    call = run.replay.build_message_call(branch)
    if not run.replay.feed.has_intent(call.key):
        return None
    decided = run.replay.feed.find_decision(call) or {}
    if decided.get("decision") == REPEAT:
        return None
    if decided.get("decision") == HAPPENED:
        answer = Answer(_read_result(run, decided).text)
        return build_remote_record(run, branch, answer, {}, run.now())
    return build_lost_branch(run, branch)


def is_undecided(run: Run, branch: Branch, record: Record) -> bool:
    """Whether somebody is to decide what became of a message, of which this is the outcome."""
    from orchestrator.engine.undecided_calls import GIVE_UP

    if record.get("error") != ActionOutcomeUnknown.__name__ or not run.suspends_on_unknown:
        return False
    decided = run.replay.feed.find_decision(run.replay.build_message_call(branch)) or {}
    return decided.get("decision") != GIVE_UP


def hand_over_undecided(run: Run, calls: Sequence[Call]) -> ControlReturn:
    """The calls that somebody is to decide about, as a return of control has them."""
    from orchestrator.engine.calls import invocation_input
    from orchestrator.engine.undecided_calls import KIND

    agent_id = run.plan.agent_id
    inputs = [invocation_input(WaitingCall(call, KIND, agent_id), agent_id) for call in calls]
    id = _build_invocation_id(run.log, run.replay.path)
    return ControlReturn(id, inputs, undecided=[call.key for call in calls])


# The same again for the same turn, and another one after each decision.
def _build_invocation_id(log: TurnLog, path: str) -> str:
    from uuid import UUID, uuid5

    count = sum(record["kind"] == "decided" for record in log.records)
    return str(uuid5(UUID(log.start["id"]), f"undecided-{path}-{count}"))
