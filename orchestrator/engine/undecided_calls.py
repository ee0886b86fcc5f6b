"""Turns that wait for a decision: a process stopped in their actions, and nobody knows the outcome.

A message to a remote collaborator is such an action, also when the connection to it broke.

A `suspend` record whose `undecided` names idempotency keys suspends such a turn. Somebody looks at
the system behind the action and decides: it happened, it is to be carried out again, or it is given
up. A `decided` record says so, and the turn goes on. The decision has the shape of Bedrock's
results of a return of control.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.engine.calls import match_results, result_text
from orchestrator.engine.effects import WaitingCall
from orchestrator.engine.results import build_result
from orchestrator.errors import ActionOutcomeUnknown, ValidationError

if TYPE_CHECKING:
    from orchestrator.sessions import Record, TurnLog

KIND = "USER_CONFIRMATION_AND_RESULT"
"""What an undecided call waits for, as Bedrock's `actionInvocationType` says it."""

HAPPENED, REPEAT, GIVE_UP = "happened", "repeat", "give_up"


@dataclass(frozen=True, slots=True)
class UndecidedCall:
    """A call that was begun, and of which nobody knows whether it took effect."""

    key: str  # its idempotency key, which its executor was given
    # `group::function`, or `VERB::group::/path`; of a message to a remote collaborator, the
    # collaborator's name in the team
    name: str
    input: Mapping[str, Any]  # the call as a return of control has it, with its parameters

    @property
    def display_name(self) -> str:
        """Its name as the command line and traces show it: an API's as `group::VERB /path`."""
        api = self.input.get("apiInvocationInput")
        if not api:
            return self.name
        return f"{api.get('actionGroup')}::{api.get('httpMethod')} {api.get('apiPath')}"


@dataclass(frozen=True, slots=True)
class Undecided:
    """A turn that waits until somebody says what became of its calls."""

    session_id: str
    turn_id: str
    question: str
    invocation_id: str  # names what is to be decided; other calls of the turn have another one
    calls: tuple[UndecidedCall, ...]
    at: int  # since when it waits, in nanoseconds since 1970

    def answer(
        self,
        *,
        happened: Mapping[str, Any] | None = None,
        repeat: Iterable[str] = (),
        give_up: Iterable[str] = (),
    ) -> dict[str, Any]:
        """Makes of a decision the results that `invoke` and `submit` take, and Bedrock's API.

        Each call is decided once, by its idempotency key, or by its name where no other call has
        it.

        Args:
            happened: The calls that took effect, with what each gave: a text, or JSON data.
            repeat: The calls that did not take effect, and are carried out now, with the same key.
            give_up: The calls that are left as they are; the turn then ends with
                `ActionOutcomeUnknown`.

        Raises:
            ValidationError: A call is not decided, or twice, or there is none of a name.
        """
        decided: dict[str, tuple[str, Any]] = {}
        for name, value in (happened or {}).items():
            self._add(decided, name, (HAPPENED, value))
        for decision, names in ((REPEAT, repeat), (GIVE_UP, give_up)):
            for name in (names,) if isinstance(names, str) else names:
                self._add(decided, name, (decision, None))
        if missing := [one.key for one in self.calls if one.key not in decided]:
            raise ValidationError(
                f"nothing was decided of {', '.join(map(repr, missing))}; say of each call whether "
                "it happened, is to be repeated, or is given up"
            )
        return {
            "invocationId": self.invocation_id,
            "returnControlInvocationResults": [
                _build_decision(one.input, *decided[one.key]) for one in self.calls
            ],
        }

    def _add(self, decided: dict[str, tuple[str, Any]], name: str, decision: Any) -> None:
        keys = [one.key for one in self.calls if name in (one.key, one.name, one.display_name)]
        if len(keys) != 1:
            raise ValidationError(
                f"{name!r} is {'the name of several calls' if keys else 'no undecided call'}; the "
                f"keys are {', '.join(repr(one.key) for one in self.calls)}"
            )
        if keys[0] in decided:
            raise ValidationError(f"the call {keys[0]!r} was decided twice")
        decided[keys[0]] = decision

    @classmethod
    def from_dict(cls, members: Mapping[str, Any]) -> Undecided:
        """What `as_dict` has made JSON members of."""
        calls = tuple(UndecidedCall(**call) for call in members["calls"])
        return cls(**{**members, "calls": calls})

    def as_dict(self) -> dict[str, Any]:
        """What waits as JSON members."""
        return {
            "session_id": self.session_id,
            "turn_id": self.turn_id,
            "question": self.question,
            "invocation_id": self.invocation_id,
            "calls": [
                {"key": one.key, "name": one.name, "input": dict(one.input)} for one in self.calls
            ],
            "at": self.at,
        }


def find_undecided(log: TurnLog | None, session_id: str) -> Undecided | None:
    """What a turn waits for somebody to decide; `None` when it does not."""
    waits = None if log is None else log.decision_request
    return None if log is None or waits is None else _read_undecided(log, waits, session_id)


def _read_undecided(log: TurnLog, waits: Record, session_id: str) -> Undecided:
    names = {
        call["key"]: call["name"]
        for record in log.records
        if record["kind"] == "intent"
        for call in record["calls"]
    }
    calls = tuple(
        UndecidedCall(key, names.get(key, ""), given)
        for key, given in zip(waits["undecided"], waits["inputs"], strict=False)
    )
    start = log.start
    return Undecided(
        session_id, start["id"], start["question"], waits["invocation_id"], calls, waits["at"]
    )


def build_undecided_error(log: TurnLog, session_id: str) -> ActionOutcomeUnknown:
    """The error of whoever asks in a session whose turn waits, or has waited, for a decision."""
    # Somebody may have decided since the turn was suspended.
    waits = next(record for record in reversed(log.records) if record.get("undecided"))
    undecided = _read_undecided(log, waits, session_id)
    calls = ", ".join(
        f"{one.display_name!r} (idempotency key {one.key!r})" for one in undecided.calls
    )
    error = ActionOutcomeUnknown(
        f"nobody knows whether {calls} took effect: the process stopped while it ran, or its "
        f"answer was lost. Nothing is carried out again by itself, and turn {undecided.turn_id} of "
        f"session {session_id!r} waits: look at the system that it acts on, then decide with "
        "`agent.decide(...)`, "
        f"`orchestrator sessions decide {session_id}`, or results for the invocation id "
        f"{undecided.invocation_id!r}",
        resource=undecided.calls[0].name if undecided.calls else "",
    )
    error.undecided = undecided
    return error


def build_given_up_error(log: TurnLog, session_id: str) -> ActionOutcomeUnknown:
    """The error of a turn whose undecided calls a changed agent has given up."""
    calls = ", ".join(repr(key) for key in (log.decision_request or {}).get("undecided", ()))
    return ActionOutcomeUnknown(
        f"turn {log.start['id']} of session {session_id!r} was given up, and has ended: nobody "
        f"knows whether its calls of the idempotency keys {calls} took effect. The session goes "
        "on with the next question"
    )


def read_decisions(
    waiting: Sequence[WaitingCall], results: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What a caller has decided of undecided calls, as members of a `decided` record.

    Raises:
        ValidationError: A call has no decision, or a decision has no call.
    """
    found = match_results(waiting, results, _check_decision)
    return [
        {"key": one.call.key, **_read_decision(result)}
        for one, result in zip(waiting, found, strict=True)
    ]


def is_given_up(result: object) -> bool:
    """Whether a result says that its call is left as it is."""
    if not isinstance(result, Mapping):
        return False
    return result.get("responseState") == "FAILURE" or result.get("confirmationState") == "DENY"


def _read_decision(result: Mapping[str, Any]) -> dict[str, Any]:
    if is_given_up(result):
        return {"decision": GIVE_UP}
    state = result.get("responseState") or ""
    if not result.get("responseBody"):
        return {"decision": REPEAT}
    return {"decision": HAPPENED, "text": result_text(result), "state": state}


def _check_decision(waiting: WaitingCall, result: Mapping[str, Any]) -> None:
    name, said = waiting.call.operation.xml_name, result.get("confirmationState")
    has_body, state = bool(result.get("responseBody")), result.get("responseState")
    gives_up = said == "DENY" or state == "FAILURE"
    if gives_up and (has_body or said == "CONFIRM"):
        raise ValidationError(
            f"the result of {name!r} says two things: either what the call gave, in "
            "'responseBody', or that it is given up, by 'DENY' or 'FAILURE'"
        )
    if not gives_up and not has_body and (said != "CONFIRM" or state):
        raise ValidationError(
            f"nobody knows whether {name!r} took effect: its result needs a 'responseBody' with "
            "what it gave if it did, 'confirmationState': 'CONFIRM' to carry it out again, or "
            "'responseState': 'FAILURE' to give it up"
        )


def _build_decision(given: Mapping[str, Any], decision: str, value: Any) -> dict[str, Any]:
    ((kind, call),) = given.items()
    if decision == HAPPENED:
        return build_result(kind, {**call, "actionInvocationType": "RESULT"}, value)
    made = build_result(kind, {**call, "actionInvocationType": "USER_CONFIRMATION"}, True)
    if decision == GIVE_UP:
        ((_, member),) = made.items()
        del member["confirmationState"]
        member["responseState"] = "FAILURE"
    return made
