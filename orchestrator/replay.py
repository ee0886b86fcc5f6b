"""A turn that is fed the outcomes in its journal.

Going on with a turn, reading its trace and taking it into the history are the same thing: the
turn's generator runs from its beginning, and every effect whose outcome is recorded is answered
from the journal, without I/O and without rendering.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.actions.base import Call
from orchestrator.effects import (
    AwaitResults,
    CallModel,
    Dispatch,
    Effect,
    Live,
    Result,
    Retrieve,
)
from orchestrator.errors import DependencyFailed, OrchestratorError, SessionConflict
from orchestrator.message import Message
from orchestrator.prompts import Bound
from orchestrator.sessions import Record, TurnLog
from orchestrator.stages import Plan
from orchestrator.turn import Start, Turn

__all__ = ["Replay", "changed_agent"]

_KINDS: dict[type, str] = {
    CallModel: "model",
    Dispatch: "action",
    AwaitResults: "returned",
    Retrieve: "retrieved",
}
_OUTCOMES = frozenset(_KINDS.values())
_UNBOUND: tuple[Mapping[str, str], None] = ({}, None)


class Replay:
    """A turn and what its journal answers.

    Attributes:
        turn: The turn.
        steps: The effects so far with their outcomes; traces are made from them.
        history: Messages of the turns before; later turns may be appended, and are not shown.
    """

    __slots__ = ("_before", "_bound", "_feed", "_generator", "_intents", "history", "steps", "turn")

    def __init__(self, plan: Plan, log: TurnLog, history: Sequence[Message]) -> None:
        start = log.start
        self.turn = Turn(plan, Start(start["id"], start["question"], start["prompt_attributes"]))
        self.history = history
        self._before = len(history)
        self.steps: list[tuple[Effect, Any]] = []
        self._bound: dict[str, tuple[Mapping[str, str], Bound | None]] = {}
        self._generator = self.turn.run()
        self._feed: list[Record] = []
        self._intents: set[str] = set()
        if len(log.records) > 1:
            self._feed = [record for record in log.records if record["kind"] in _OUTCOMES]
            self._feed.reverse()
            self._intents = {
                call["key"]
                for record in log.records
                if record["kind"] == "intent"
                for call in record["calls"]
            }

    def send(self, outcome: Any) -> Live | Result:
        """Runs the turn on to its next effect without an outcome, or to its result.

        Raises:
            SessionConflict: The journal was written by another version of the agent.
            DependencyFailed: Something in the journal cannot be understood.
        """
        fed = False
        try:
            while True:
                effect = self._generator.send(outcome)
                outcome = self._recorded(effect) if self._feed else None
                fed = outcome is not None
                if outcome is None and not isinstance(effect, AwaitResults):
                    return effect
                self.steps.append((effect, outcome))
        except StopIteration as stop:
            result: Result = stop.value
            return result
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            if not fed:
                raise
            raise DependencyFailed(
                "the session's journal has a record that cannot be understood "
                f"({type(error).__name__}); delete the session, or use another session id"
            ) from error

    @property
    def interrupted(self) -> bool:
        """Whether the journal may know of calls of the turn's next step."""
        return bool(self._intents or self._feed)

    @property
    def resumed_at(self) -> int:
        """The last step whose results the caller brought: those before it were told; 0 if none."""
        last = 0
        for index, (effect, outcome) in enumerate(self.steps):
            if isinstance(effect, AwaitResults) and outcome is not None:
                last = index
        return last

    def throw(self, error: OrchestratorError) -> Result:
        """Tells the turn that its effect failed, and takes its result."""
        try:
            self._generator.throw(error)
        except StopIteration as stop:
            result: Result = stop.value
            return result
        raise AssertionError("a turn must not go on after an effect failed")

    def prompt(self, effect: CallModel) -> tuple[Bound, list[Message]]:
        """The bound prompt of a model call, and all its messages."""
        stage = effect.stage
        attributes, bound = self._bound.get(stage.stage, _UNBOUND)
        if bound is None or attributes is not effect.attributes:
            values = stage.values(self.turn.start.question, effect.attributes)
            values.update(effect.values)
            history = self.history
            if len(history) != self._before:  # a trace that is read later; turns have ended since
                history = history[: self._before]
            bound = stage.template.bind(values, history)
            self._bound[stage.stage] = (effect.attributes, bound)
        scratchpad = effect.scratchpad
        if len(scratchpad) != effect.upto:
            scratchpad = scratchpad[: effect.upto]
        return bound, bound.messages(scratchpad)

    def known_actions(self, effect: Dispatch) -> dict[str, Record]:
        """What the journal knows of calls that were being carried out when a process stopped.

        Returns:
            Outcomes by call id.
        """
        known: dict[str, Record] = {}
        if not self._feed:
            return known
        ids = {call.id for call in effect.calls}
        while self._feed and self._feed[-1].get("id") in ids:
            record = self._feed.pop()
            known[record["id"]] = record
        return known

    def lost_actions(self, effect: Dispatch, known: Mapping[str, Record], at: int) -> list[Record]:
        """Records of the calls that were begun and have no known outcome: nobody knows it.

        A call of an idempotent operation is not one of them: it may be carried out again, with
        the same idempotency key.
        """
        if not self._intents:
            return []
        return [
            _unknown(call, at)
            for call in effect.calls
            if call.key in self._intents and call.id not in known and not call.operation.idempotent
        ]

    def give_up(self, effect: Dispatch, at: int) -> None:
        """Tells the turn what is known of the calls that it was stopped in, for its transcript."""
        known = self.known_actions(effect)
        if known or any(call.key in self._intents for call in effect.calls):
            self.send([known.get(call.id) or _unknown(call, at) for call in effect.calls])

    def _recorded(self, effect: Effect) -> Any:
        record = self._feed[-1]
        if not _answers(record, effect):
            raise changed_agent(f"goes on with a {record['kind']!r} record")
        if isinstance(effect, Dispatch):
            return self._recorded_actions(effect)
        return self._feed.pop()

    def _recorded_actions(self, effect: Dispatch) -> list[Record] | None:
        count = len(effect.calls)
        by_id = {record.get("id"): record for record in self._feed[-count:]}
        found = [by_id[call.id] for call in effect.calls if call.id in by_id]
        if len(found) < count:
            return None  # the driver asks `known_actions`
        del self._feed[-count:]
        return found


def changed_agent(how: str) -> SessionConflict:
    """The error of a turn that this version of its agent cannot go on with.

    Args:
        how: What its journal does that shows it.
    """
    return SessionConflict(
        f"the session's open turn was begun with another version of this agent (its journal {how}"
        "): finish it with that version, give it up by another question, or end the session"
    )


def _answers(record: Record, effect: Effect) -> bool:
    if record["kind"] != _KINDS[type(effect)]:
        return False
    return not isinstance(effect, CallModel) or record["stage"] == effect.stage.stage


def _unknown(call: Call, at: int) -> Record:
    return {
        "kind": "action",
        "id": call.id,
        "text": f"nobody knows whether {call.operation.xml_name!r} (idempotency key {call.key!r}) "
        "took effect: the process stopped while it ran. It was not run again; look at the system "
        "that it acts on",
        "state": "FAILURE",
        "error": "ActionOutcomeUnknown",
        "times": (at, at),
    }
