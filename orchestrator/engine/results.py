"""How a turn ends: one of four results, a closed union."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.errors import OrchestratorError, ValidationError


@dataclass(slots=True, eq=False, repr=False)
class Answer:
    """The turn ended with a text for the user: an answer, or a question (`ask_user`)."""

    text: str  # what the user reads
    # `end_turn`, `ask_user`, or `max_tokens` when the model was cut off
    stop_reason: str = "end_turn"
    citations: list[dict[str, Any]] = field(default_factory=list)  # Bedrock's citations
    # The call that a question (`ask_user`) is about; see `engine/pending_calls.py`
    pending: dict[str, Any] | None = None


@dataclass(slots=True, eq=False, repr=False)
class Refusal:
    """The input or the reply was refused: by pre-processing, a guardrail, or the provider."""

    text: str
    stop_reason: str = "refused"


@dataclass(slots=True)
class ControlReturn:
    """The turn waits for the caller to carry out calls; `Agent.invoke(results=...)` goes on."""

    invocation_id: str  # names this hand-over
    # The calls, in Bedrock's shape: each has a `functionInvocationInput` or `apiInvocationInput`
    invocation_inputs: list[dict[str, Any]]
    # The collaborator's branch that waits; empty for the agent itself
    branch: str = field(default="", repr=False)
    # The idempotency keys of the calls, when nobody knows whether they took effect: then they wait
    # for a decision, and not for results (`orchestrator.engine.undecided_calls`)
    undecided: Sequence[str] = field(default=(), repr=False)

    def of_collaborator(self, name: str, branch: str) -> ControlReturn:
        """The same hand-over, as the supervisor of the collaborator `name` passes it on."""
        named = [
            {kind: {"collaboratorName": name, **call}}
            for kind, call in map(_member, self.invocation_inputs)
        ]
        return replace(self, invocation_inputs=named, branch=self.branch or branch)

    def answer(self, results: Mapping[str, Any] | str | bool) -> dict[str, Any]:
        """Makes the results that `Agent.invoke(results=...)` and boto3's `sessionState` take.

        Args:
            results: What each call gave, by function name or API path: a text or JSON data, and
                for a call that asks for confirmation `False` to deny it or `True` to confirm it
                (one that the caller carries out itself is confirmed by its result). Several calls
                of one name take a list of as many results, in the calls' order. A single text or
                bool answers a single call.

        Raises:
            ValidationError: A call has no result, or a result has no call.
        """
        calls = [_member(item) for item in self.invocation_inputs]
        names = [_name(call) for _, call in calls]
        if isinstance(results, (str, bool)):
            if len(calls) != 1:
                raise ValidationError(
                    f"{len(calls)} calls wait for results: give a mapping from their names "
                    f"({', '.join(map(repr, names))})"
                )
            results = {names[0]: results}
        unknown, missing = set(results) - set(names), set(names) - set(results)
        if unknown or missing:
            raise ValidationError(
                f"the results do not fit the calls that wait ({', '.join(map(repr, names))}); "
                f"unknown: {sorted(unknown)}, missing: {sorted(missing)}"
            )
        values = {name: iter(_values(name, names.count(name), results[name])) for name in results}
        return {
            "invocationId": self.invocation_id,
            "returnControlInvocationResults": [
                build_result(kind, call, next(values[name]))
                for name, (kind, call) in zip(names, calls, strict=True)
            ],
        }


UNDECIDED = "undecided"
"""The stop reason of a turn that waits for a decision."""


@dataclass(slots=True, eq=False, repr=False)
class Failure:
    """The turn could not be finished."""

    error: OrchestratorError  # why; `Agent.invoke` raises it
    code: str = ""  # short reason for the trace
    begun: bool = False  # whether it ended what had been begun


Result = Answer | Refusal | ControlReturn | Failure


def _member(item: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    (kind, call), *_ = item.items()
    return kind, call


def _name(call: Mapping[str, Any]) -> str:
    return str(call.get("function") or call["apiPath"])


def _values(name: str, count: int, value: Any) -> list[Any]:
    if count == 1:
        return [value]
    if not isinstance(value, list) or len(value) != count:
        raise ValidationError(
            f"{count} calls of {name!r} wait for results: give a list of {count}, in their order"
        )
    return value


def build_result(kind: str, call: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """A call's result in Bedrock's shape; `kind` is the member that the call was handed over in."""
    made: dict[str, Any] = {"actionGroup": call["actionGroup"]}
    api = kind == "apiInvocationInput"
    for name in ("apiPath", "httpMethod") if api else ("function",):
        made[name] = call[name]
    waits = call.get("actionInvocationType", "RESULT")
    if waits == "USER_CONFIRMATION" and not isinstance(value, bool):
        raise ValidationError(
            f"the call of {_name(call)!r} only asks for confirmation: answer it with True or False"
        )
    if waits != "RESULT":
        made["confirmationState"] = "DENY" if value is False else "CONFIRM"
    if waits == "RESULT" or (waits != "USER_CONFIRMATION" and value is not False):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        made["responseBody"] = {"application/json" if api else "TEXT": {"body": text}}
    return {"apiResult" if api else "functionResult": made}
