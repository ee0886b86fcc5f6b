"""What a turn asks for: plain values between the loop and its driver.

A turn *yields* effects and is *sent* their outcomes, which are the journal's records (see
`orchestrator.sessions.journal`). It ends in one of four results (`orchestrator.engine.results`).
What lives while an effect is carried out is not in it: the driver has it, by the branch's id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.actions.base import Call
from orchestrator.message import Message

if TYPE_CHECKING:
    from orchestrator.engine.plan import Member, StagePlan
    from orchestrator.engine.prompt_history import Talk
    from orchestrator.limits import Limits

ROUTE = "route"
"""The last part of a branch's id when a routed turn consists of it."""


@dataclass(slots=True, eq=False, repr=False)
class CallModel:
    """Ask a stage's model. The outcome is a `model` record."""

    stage: StagePlan
    number: int  # counts the orchestration steps of the turn from 0; it ends the trace id
    values: Mapping[str, str]  # placeholder values that are not the same in every turn
    # Messages of the steps so far; the turn appends to this list later on
    scratchpad: list[Message]
    upto: int  # how many of them belong to this call
    attributes: Mapping[str, str]
    live: bool = False  # whether the answer may be shown while it streams
    excluded: frozenset[str] = frozenset()  # tool names that may not be called now
    # Makes further values of what was said in the session before
    of_past: Callable[[Talk], Mapping[str, str]] | None = None
    # The tool name and arguments of the call that the user was last asked values for
    pending: tuple[str, Mapping[str, Any]] | None = None
    unsaid: tuple[str, ...] = ()  # texts for the model that no user may read


@dataclass(slots=True, eq=False, repr=False)
class Converse(CallModel):
    """Ask a model with a request of a custom orchestration. The outcome: a `model` record."""

    system: str = ""
    messages: Sequence[Message] = ()
    past: bool = False  # whether what was said in the session before goes ahead of them


@dataclass(slots=True, eq=False, repr=False)
class Dispatch:
    """Carry out calls, several at the same time. The outcome is a list of `action` records."""

    calls: list[Call]
    number: int


@dataclass(slots=True, eq=False, repr=False)
class WaitingCall:
    """A call that waits for the caller."""

    call: Call
    kind: str  # `"RESULT"`, `"USER_CONFIRMATION"` or `"USER_CONFIRMATION_AND_RESULT"`
    agent_id: str = ""  # the agent that waits; empty where nobody's results are taken


@dataclass(slots=True, eq=False, repr=False)
class AwaitResults:
    """Hand calls to the caller. The outcome is a `returned` record, or `None`: not yet known."""

    invocation_id: str  # names this hand-over; results must repeat it
    waiting: list[WaitingCall]
    number: int


@dataclass(slots=True, eq=False, repr=False)
class Retrieve:
    """Search a knowledge base. The outcome is a `retrieved` record."""

    knowledge_base_id: str
    query: str
    number: int
    call_id: str  # names the search in the turn
    # Bedrock's `retrievalConfiguration` of this invocation, when it has one
    configuration: Mapping[str, Any] | None = None


@dataclass(slots=True, eq=False, repr=False)
class Guard:
    """Have the guardrail check a text. The outcome is a `guarded` record."""

    text: str
    source: Literal["INPUT", "OUTPUT"]  # `INPUT` or `OUTPUT`
    number: int
    id: str  # ends the trace id: `guardrail-pre-0`


@dataclass(slots=True, eq=False, repr=False)
class SessionView:
    """What a custom orchestration may know of the session, which a turn does not."""

    session_id: str
    attributes: Mapping[str, str]
    history: Sequence[Message]


@dataclass(slots=True, eq=False, repr=False)
class Orchestrate:
    """Have a custom orchestration decide what to do. The outcome is an `orchestrated` record.

    Whom to ask is `Turn.decide`.
    """

    state: str  # where the turn is, such as `MODEL_INVOKED`
    number: int


@dataclass(slots=True, eq=False, repr=False)
class Branch:
    """One part of an effect that has several: a collaborator's work, or an iteration of a loop."""

    id: str  # names the branch in the journal: the branches above it, and the call
    collaborator: Member
    message: str  # what the supervisor, or a routed user, wrote
    attributes: Mapping[str, str]  # prompt session attributes, as they are now
    limits: Limits  # what of the supervisor's budgets is left
    team: str  # names the collaborator in the whole team: the names above it, and its own

    @property
    def is_routed(self) -> bool:
        """Whether the routing classifier chose the collaborator: it answers the user itself."""
        return self.id == ROUTE or self.id.endswith(f"/{ROUTE}")

    def has(self, path: str) -> bool:
        """Whether a branch of the journal is this one, or of an agent that its agent leads."""
        return is_within(path, self.id)


def is_within(path: str, branch: str) -> bool:
    """Whether a branch of the journal is this one, or below it."""
    return path == branch or path.startswith(f"{branch}/")


@dataclass(slots=True, eq=False, repr=False)
class Branches:
    """Have branches run side by side. The outcome is a list of `branch` records.

    There are two kinds. A collaborator's branch is another agent's whole turn. An iteration of a
    script's loop is a part of this agent's turn, whose work the turn has by the branch's id; what
    it comes to is its record's `text`. One that waits for the caller has, in place of its record, a
    `control`.
    """

    branches: list[Branch]  # their work, in the order in which it was asked for
    number: int
    live: bool = False  # whether the answer may be shown while it streams
    routed: bool = False  # whether the routing classifier chose the collaborator
    iterates: bool = False  # whether they are iterations of a loop
    most: int = 1  # how many iterations run at the same time
    asks: int = 0  # how many model calls the loop's script has made before


Live = CallModel | Dispatch | Retrieve | Guard | Branches | Orchestrate
"""Effects that a driver carries out."""

LIVE = (CallModel, Dispatch, Retrieve, Guard, Branches, Orchestrate)
"""The same, for `isinstance`, which takes much longer with a union."""

Effect = Live | AwaitResults
