"""Results that a caller gives, checked before they are written down.

Wrong ones must not end the turn that waits for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.engine.calls import invocation_input, match_results
from orchestrator.engine.effects import WaitingCall
from orchestrator.engine.plan import Plan
from orchestrator.engine.run.journal_feed import WAYS_OUT, build_version_conflict
from orchestrator.engine.run.replay import Replay
from orchestrator.errors import SessionConflict
from orchestrator.sessions import Record, Session, TurnLog

_WAYS_OF_DECISION = "decide its calls with that version, give all of them up, or end the session"


def check_results(
    plan: Plan, session: Session, log: TurnLog, results: Sequence[Mapping[str, Any]]
) -> None:
    """Checks that results are of the calls that a turn has handed over.

    Raises:
        SessionConflict: This version of the agent does not hand those calls over.
        ValidationError: A call has no result, or a result no call.
    """
    suspended = log.suspend_record or {}
    effect = Replay(plan, log, session).find_awaited_results(suspended.get("waits", ""))
    if effect is None:
        raise build_version_conflict("waits for results that this version does not ask for")
    _check_same_agent(plan, log, suspended, effect.waiting)
    match_results(effect.waiting, results)


def read_turn_decisions(
    plan: Plan, session: Session, log: TurnLog, results: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What was decided of a turn's undecided calls, as members of a `decided` record.

    Raises:
        SessionConflict: This version of the agent does not make those calls. It can give them up
            all the same (`gives_all_up`).
        ValidationError: A call has no decision, or a decision no call.
    """
    from orchestrator.engine.undecided_calls import KIND, read_decisions

    suspended = log.decision_request or {}
    replay = Replay(plan, log, session)
    try:
        found, agent_id = replay.find_interrupted_calls(suspended.get("waits", ""))
        calls = [call for call in found if call.key in suspended["undecided"]]
        if len(calls) != len(suspended["undecided"]):
            raise build_version_conflict("has begun calls that this version does not make")
        waiting = [WaitingCall(call, KIND, agent_id) for call in calls]
        _check_same_agent(plan, log, suspended, waiting)
    except SessionConflict as error:
        # Another question does not give up what nobody has decided.
        raise SessionConflict(error.message.replace(WAYS_OUT, _WAYS_OF_DECISION)) from error
    return read_decisions(waiting, results)


def gives_all_up(log: TurnLog, results: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a decision leaves each of a turn's undecided calls as it is."""
    from orchestrator.engine.undecided_calls import is_given_up

    undecided = (log.decision_request or {}).get("undecided", ())
    members = [value for result in results for value in result.values()]
    return len(members) == len(undecided) and all(map(is_given_up, members))


# The results are of calls that another definition described to the model, and to whoever confirmed
# or carried them out.
def _check_same_agent(
    plan: Plan, log: TurnLog, suspended: Record, waiting: Sequence[WaitingCall]
) -> None:
    asked = [
        {name: value for name, value in call.items() if name != "collaboratorName"}
        for one in suspended["inputs"]
        for call in one.values()
    ]
    asks = [call for one in waiting for call in invocation_input(one, one.agent_id).values()]
    if asked != asks:
        raise build_version_conflict("handed over calls that this version describes otherwise")
    if log.start.get("plan", plan.digest) != plan.digest:
        raise build_version_conflict("was written with other prompts, models or tools")
