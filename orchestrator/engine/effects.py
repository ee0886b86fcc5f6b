"""What a turn asks for, and how it ends: plain values between the loop and its driver.

A turn *yields* effects and is *sent* their outcomes, which are the journal's records (see
`orchestrator.sessions.journal`). It ends in one of four results, a closed union.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.actions.base import Call
from orchestrator.errors import OrchestratorError, ValidationError
from orchestrator.message import Message

if TYPE_CHECKING:
    from collections.abc import Generator

    from orchestrator.engine.budget import Budget
    from orchestrator.engine.plan import Member, StagePlan
    from orchestrator.engine.prompt_history import Talk
    from orchestrator.engine.run.replay import Replay
    from orchestrator.engine.turn import Turn
    from orchestrator.limits import Limits
    from orchestrator.prompts import BoundPrompt
    from orchestrator.sessions.journal import Record

__all__ = [
    "LIVE",
    "ROUTE",
    "Answer",
    "AwaitResults",
    "Branch",
    "CallModel",
    "Collaborate",
    "Converse",
    "Dispatch",
    "Effect",
    "Failure",
    "Guard",
    "Iterate",
    "Live",
    "Orchestrate",
    "Outside",
    "Refusal",
    "Result",
    "Retrieve",
    "ReturnControl",
    "WaitingCall",
]


ROUTE = "route"
"""The last part of a branch's id when a routed turn consists of it."""


@dataclass(slots=True)
class CallModel:
    """Ask a stage's model. The outcome is a `model` record.

    Attributes:
        stage: The stage, with its compiled template, model, parser and settings.
        number: Counts the orchestration steps of the turn from 0; it ends the trace id.
        values: Placeholder values that are not the same in every turn.
        scratchpad: Messages of the steps so far; the turn appends to this list later on.
        upto: How many of them belong to this call.
        attributes: Prompt session attributes, as the last action left them.
        live: Whether the answer may be shown while it streams.
        excluded: Tool names that may not be called now.
        of_past: Makes further values of what was said in the session before.
        prompt: The bound prompt and its messages, once they were asked for, if they are few.
    """

    stage: StagePlan
    number: int
    values: Mapping[str, str]
    scratchpad: list[Message]
    upto: int
    attributes: Mapping[str, str]
    live: bool = False
    excluded: frozenset[str] = frozenset()
    of_past: Callable[[Talk], Mapping[str, str]] | None = None
    prompt: tuple[BoundPrompt, list[Message]] | None = None


@dataclass(slots=True)
class Converse(CallModel):
    """Ask a model with a request of an orchestration of one's own. The outcome: a `model` record.

    Attributes:
        system: The system text.
        messages: The messages.
        past: Whether what was said in the session before goes ahead of them.
    """

    system: str = ""
    messages: Sequence[Message] = ()
    past: bool = False


@dataclass(slots=True)
class Dispatch:
    """Carry out calls, several at the same time. The outcome is a list of `action` records.

    Attributes:
        calls: The calls, in the order in which the model made them.
        number: The step that they belong to.
    """

    calls: list[Call]
    number: int


@dataclass(slots=True)
class WaitingCall:
    """A call that waits for the caller.

    Attributes:
        call: The call.
        kind: `"RESULT"`, `"USER_CONFIRMATION"` or `"USER_CONFIRMATION_AND_RESULT"`.
        agent_id: The agent that waits; empty where nobody's results are taken.
    """

    call: Call
    kind: str
    agent_id: str = ""


@dataclass(slots=True)
class AwaitResults:
    """Hand calls to the caller. The outcome is a `returned` record, or `None`: not yet known.

    Attributes:
        invocation_id: Names this hand-over; results must repeat it.
        waiting: The calls.
        number: The step that they belong to.
    """

    invocation_id: str
    waiting: list[WaitingCall]
    number: int


@dataclass(slots=True)
class Retrieve:
    """Search a knowledge base. The outcome is a `retrieved` record.

    Attributes:
        knowledge_base_id: Its id.
        query: What to look for.
        number: The step that it belongs to.
        call_id: Names the search in the turn.
        configuration: Bedrock's `retrievalConfiguration` of this invocation, when it has one.
    """

    knowledge_base_id: str
    query: str
    number: int
    call_id: str
    configuration: Mapping[str, Any] | None = None


@dataclass(slots=True)
class Guard:
    """Have the guardrail check a text. The outcome is a `guarded` record.

    Attributes:
        text: The text.
        source: `INPUT` or `OUTPUT`.
        number: The step that it belongs to.
        id: Ends the trace id: `guardrail-pre-0`.
    """

    text: str
    source: Literal["INPUT", "OUTPUT"]
    number: int
    id: str


@dataclass(slots=True)
class Outside:
    """What an orchestration of one's own may know that a turn does not.

    Attributes:
        session_id: The session.
        attributes: Session attributes, as they are now.
        history: Messages of the turns before.
    """

    session_id: str
    attributes: Mapping[str, str]
    history: Sequence[Message]


@dataclass(slots=True)
class Orchestrate:
    """Have an orchestration of one's own say what to do. The outcome is an `orchestrated` record.

    Attributes:
        state: Where the turn is, such as `MODEL_INVOKED`.
        number: The step that it belongs to.
        ask: Asks it; gives the members of the record besides `kind`, `state` and `times`. May
            block.
    """

    state: str
    number: int
    ask: Callable[[Outside], dict[str, Any]]


@dataclass(slots=True)
class Branch:
    """One collaborator's work on one message, as a turn of its own within the turn.

    Attributes:
        id: Names the branch in the journal: the branches above it, and the call.
        collaborator: Who works.
        message: What the supervisor, or a routed user, wrote.
        attributes: Prompt session attributes, as they are now.
        limits: What of the supervisor's budgets is left.
        team: Names the collaborator in the whole team: the names above it, and its own.
        replay: The collaborator's turn, once it has begun.
        work: What an iteration of a loop does, in place of an agent's whole turn.
        hear: Told what the models of an iteration say, as it streams.
        failed: The error that an iteration ended with in this process.
    """

    id: str
    collaborator: Member
    message: str
    attributes: Mapping[str, str]
    limits: Limits
    team: str
    replay: Replay | None = None
    work: Callable[[Turn], Generator[Effect, Any, Result]] | None = None
    hear: Callable[[str], None] | None = None
    failed: OrchestratorError | None = None

    @property
    def is_routed(self) -> bool:
        """Whether the routing classifier chose the collaborator: it answers the user itself."""
        return self.id == ROUTE or self.id.endswith(f"/{ROUTE}")

    def forward(self, item: Any) -> Any:
        """What a driver passes on of what it is told: of an iteration's texts, only that one came.

        Who listens is told the text at once, in order with all else that the iteration tells.
        """
        if self.hear is None or not isinstance(item, str):
            return item
        self.hear(item)
        return ""

    def has(self, path: str) -> bool:
        """Whether a branch of the journal is this one, or of an agent that its agent leads."""
        return path == self.id or path.startswith(f"{self.id}/")


@dataclass(slots=True)
class Collaborate:
    """Have collaborators work, several at the same time. The outcome is a list of `branch` records.

    One that waits for the caller has, in place of its record, a `control`.

    Attributes:
        branches: Their work, in the order in which the model asked for it.
        number: The step that they belong to.
        live: Whether the answer may be shown while it streams.
        routed: Whether the routing classifier chose the collaborator.
    """

    branches: list[Branch]
    number: int
    live: bool = False
    routed: bool = False


@dataclass(slots=True)
class Iterate(Collaborate):
    """Have iterations of a script's loop run side by side: branches of the agent's own turn.

    The outcome is that of `Collaborate`; an iteration that another's failure stopped before it
    began has a record that no journal has. What an iteration came to is its record's `text`.

    Attributes:
        most: How many run at the same time.
        budget: What all of them may spend together; a loop within an iteration spends of that of
            the loop around it.
        stopped: Whether one has failed: the others stop at their next step.
        begun: The journal's records of each branch, as they were when the first was asked for.
    """

    most: int = 1
    budget: Budget | None = None
    stopped: bool = False
    begun: Mapping[str, list[Record]] | None = None


Live = CallModel | Dispatch | Retrieve | Guard | Collaborate | Orchestrate
"""Effects that a driver carries out."""

LIVE = (CallModel, Dispatch, Retrieve, Guard, Collaborate, Orchestrate)
"""The same, for `isinstance`, which takes much longer with a union."""

Effect = Live | AwaitResults


@dataclass(slots=True)
class Answer:
    """The turn ended with a text for the user: an answer, or a question (`ask_user`).

    Attributes:
        text: What the user reads.
        stop_reason: `end_turn`, `ask_user`, or `max_tokens` when the model was cut off.
        citations: Bedrock's citations.
    """

    text: str
    stop_reason: str = "end_turn"
    citations: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class Refusal:
    """The input or the reply was refused: by pre-processing, a guardrail, or the provider."""

    text: str
    stop_reason: str = "refused"


@dataclass(slots=True)
class ReturnControl:
    """The turn waits for the caller to carry out calls; `Agent.invoke(results=...)` goes on.

    Attributes:
        invocation_id: Names this hand-over.
        invocation_inputs: The calls, in Bedrock's shape: `{"functionInvocationInput": {...}}` or
            `{"apiInvocationInput": {...}}`.
        branch: The collaborator's branch that waits; empty for the agent itself.
    """

    invocation_id: str
    invocation_inputs: list[dict[str, Any]]
    branch: str = field(default="", repr=False)

    def of_collaborator(self, branch: Branch) -> ReturnControl:
        """The same hand-over, as the collaborator's supervisor passes it on."""
        name = branch.collaborator.name
        named = [
            {kind: {"collaboratorName": name, **call}}
            for kind, call in map(_member, self.invocation_inputs)
        ]
        return replace(self, invocation_inputs=named, branch=self.branch or branch.id)

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
                _result(kind, call, next(values[name]))
                for name, (kind, call) in zip(names, calls, strict=True)
            ],
        }


@dataclass(slots=True)
class Failure:
    """The turn could not be finished.

    Attributes:
        error: Why; `Agent.invoke` raises it.
        code: Short reason for the trace.
        begun: Whether it ended what had been begun.
    """

    error: OrchestratorError
    code: str = ""
    begun: bool = False


Result = Answer | Refusal | ReturnControl | Failure


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


def _result(kind: str, call: Mapping[str, Any], value: Any) -> dict[str, Any]:
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
