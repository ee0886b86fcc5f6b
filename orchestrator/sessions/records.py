"""The records of a journal: their types, and the one door through which they are read.

The table at the head of `journal.py` says what each kind and member means. A record comes from a
file that may be old, or that another program has written to; whoever reads one calls
`upgrade_record`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypedDict,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from orchestrator.sessions.journal import SEALED, VERSION, Record
from orchestrator.support.encryption import KEYS

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_YEAR_10000 = 253_402_300_800 * 1_000_000_000  # a trace's times have four digits for the year

Time = Annotated[int, "a time, in nanoseconds since 1970"]
Id = Annotated[str, "a UUID"]
Texts = dict[str, str]


# Says which process runs the turn from here on.
class _Process(TypedDict):
    v: NotRequired[int]
    owner: NotRequired[str]
    until: NotRequired[int]
    workflow: NotRequired[str]
    end_session: NotRequired[bool]


# What an effect came to; a collaborator's names its branch.
class _Outcome(TypedDict):
    began: Time
    ended: Time
    branch: NotRequired[str]
    notes: NotRequired[list[str]]


class _ToolUse(TypedDict):
    toolUseId: str
    name: str
    input: Any


class _ReasoningText(TypedDict):
    text: NotRequired[str]


class _Reasoning(TypedDict):
    reasoningText: NotRequired[_ReasoningText]


class _Block(TypedDict):
    text: NotRequired[str]
    toolUse: NotRequired[_ToolUse]
    reasoningContent: NotRequired[_Reasoning]


class _Message(TypedDict):
    role: Literal["user", "assistant"]
    content: list[_Block]


class _InputFile(TypedDict):
    name: str
    type: str
    bytes: str


class _OutputFile(TypedDict):
    bytes: str


class PendingCall(TypedDict):
    """A call that waits for the user."""

    name: str  # the tool name in the dialect's grammar
    arguments: dict[str, Any]  # as the model gave them, with the dialect's unknown value
    confirms: NotRequired[bool]  # whether it waits for a yes, and not for values


class _With(TypedDict):
    memory_id: NotRequired[str]
    summaries: NotRequired[list[dict[str, Any]]]
    last_agent: NotRequired[str]
    retrieval: NotRequired[dict[str, dict[str, Any]]]
    files: NotRequired[list[_InputFile]]
    attachments: NotRequired[list[_InputFile]]
    turns: NotRequired[int]
    thinking: NotRequired[bool]
    closing: NotRequired[Any]
    pending: NotRequired[dict[str, PendingCall]]


# `with` is a word of Python's, which a class body cannot have as a name.
_Options = TypedDict("_Options", {"with": NotRequired[_With]})


class _Fork(TypedDict):
    session: str
    turn: str
    step: int


class TurnRecord(_Process, _Options):
    """An invocation began."""

    kind: Literal["turn"]
    id: Id
    at: Time
    question: str
    attributes: Texts
    prompt_attributes: Texts
    plan: NotRequired[Any]
    history: NotRequired[list[_Message]]
    guards_history: NotRequired[bool]
    forked: NotRequired[_Fork]


class ModelRecord(_Outcome):
    """A model answered."""

    kind: Literal["model"]
    stage: str
    model: NotRequired[str]
    content: list[_Block]
    stop: str
    usage: tuple[int, int, int, int, int]
    response: dict[str, Any]
    stop_sequence: NotRequired[str]
    checks: NotRequired[list[dict[str, Any]]]
    code: NotRequired[str]
    raw: NotRequired[str]


class _Intended(TypedDict):
    id: str
    key: str
    name: str


class IntentRecord(TypedDict):
    """Calls are about to be carried out."""

    kind: Literal["intent"]
    calls: list[_Intended]
    branch: NotRequired[str]


class ActionRecord(_Outcome):
    """A call ended."""

    kind: Literal["action"]
    id: str
    text: str
    state: NotRequired[Any]
    error: NotRequired[Any]
    attributes: NotRequired[Texts]
    prompt_attributes: NotRequired[Texts]
    files: NotRequired[list[_OutputFile]]
    details: NotRequired[Any]


class RetrievedRecord(_Outcome):
    """A knowledge base answered."""

    kind: Literal["retrieved"]
    id: str
    references: list[dict[str, Any]]


class GuardedRecord(_Outcome):
    """A guardrail checked a text."""

    kind: Literal["guarded"]
    id: str
    action: str
    text: str
    blocked: bool
    assessments: list[dict[str, Any]]
    streamed: NotRequired[bool]


class OrchestratedRecord(_Outcome):
    """A custom orchestration answered."""

    kind: Literal["orchestrated"]
    state: str
    event: str
    text: str
    trace: NotRequired[str]
    attributes: NotRequired[Texts]
    prompt_attributes: NotRequired[Texts]


class _End(TypedDict):
    result: str
    text: str
    stop_reason: str
    at: Time
    citations: NotRequired[list[dict[str, Any]]]
    error: NotRequired[Any]
    message: NotRequired[Any]
    pending: NotRequired[PendingCall]


class BranchRecord(_Outcome, _End):
    """A collaborator's work, or an iteration of a loop, ended."""

    kind: Literal["branch"]
    id: str
    name: str
    asked: str
    before: int
    usage: tuple[int, int, int]
    prompt_attributes: NotRequired[Texts]
    asks: NotRequired[Any]
    trace: NotRequired[Any]
    files: NotRequired[list[_OutputFile]]


class SuspendRecord(TypedDict):
    """The turn waits for the caller."""

    kind: Literal["suspend"]
    invocation_id: str
    inputs: list[dict[str, Any]]
    at: Time
    waits: NotRequired[Any]
    undecided: NotRequired[list[str]]


class ReturnedRecord(_Process):
    """The caller's results."""

    kind: Literal["returned"]
    invocation_id: str
    results: list[dict[str, Any]]
    digest: str
    at: Time
    attributes: NotRequired[Texts]
    prompt_attributes: NotRequired[Texts]
    branch: NotRequired[str]


class _Decision(TypedDict):
    key: str
    decision: Literal["happened", "repeat", "give_up"]
    text: NotRequired[str]
    state: NotRequired[str]


class DecidedRecord(_Process):
    """What somebody says became of calls whose outcome nobody knew."""

    kind: Literal["decided"]
    invocation_id: str
    decisions: list[_Decision]
    digest: str
    at: Time
    attributes: NotRequired[Texts]
    branch: NotRequired[str]


class ClaimRecord(_Process):
    """Another process goes on with the turn, or its process has left it."""

    kind: Literal["claim"]
    attributes: NotRequired[Texts]


class EndRecord(_End):
    """The turn ended."""

    kind: Literal["end"]
    question: NotRequired[Any]
    cut: NotRequired[Any]


class ClosedRecord(TypedDict):
    """The session was ended."""

    kind: Literal["closed"]
    reason: str
    at: Time


class UndoneRecord(TypedDict):
    """The session's last turn was undone."""

    kind: Literal["undone"]
    turn: Id
    at: Time


_RECORDS: tuple[type, ...] = (
    *(TurnRecord, ModelRecord, IntentRecord, ActionRecord, RetrievedRecord, GuardedRecord),
    *(OrchestratedRecord, BranchRecord, SuspendRecord, ReturnedRecord, DecidedRecord),
    *(ClaimRecord, EndRecord, ClosedRecord, UndoneRecord),
)


def upgrade_record(record: Any) -> Record:
    """A record that a store, or a caller, gave back, as this version of the program writes it.

    Every reader goes through here; the step from each version to the next one stands here too.

    Raises:
        RecordError: It was written by a newer version of this program or by something else; the
            message says what is wrong with it.
    """
    if isinstance(record, dict) and "v" in record and record["v"] != VERSION:
        _refuse_version(record["v"])
    if problem := _describe_problem(record):
        raise RecordError(problem)
    upgraded: Record = record
    if record["kind"] == "turn" and "v" not in record:
        # Version 0 had no `v`, and its owners were host names with process ids. No lock stands for
        # such an owner, so that its turn is free when its `until` has passed.
        upgraded = {**record, "v": VERSION}
    return upgraded


class RecordError(ValueError):
    """A record cannot be read; the message goes on from the words "record 3 "."""

    def __init__(
        self, problem: str, way_out: str = "delete the session, or use another session id"
    ) -> None:
        super().__init__(problem)
        self.way_out = way_out  # what the user can do


class EncryptedRecordError(RecordError):
    """A record is encrypted, and nobody has given a key."""


def _refuse_version(version: Any) -> None:
    if isinstance(version, int) and version > VERSION:
        raise RecordError(
            f"was written by a newer program (version {version} of the journal; this one reads up "
            f"to version {VERSION})",
            "update this program, or use another session id",
        )
    raise RecordError(f"has no proper version ({version!r:.60})")


def _describe_problem(record: Any) -> str:
    kind = record.get("kind") if isinstance(record, dict) else None
    if kind == SEALED:
        raise EncryptedRecordError("is encrypted", f"set {KEYS} to the keys it was written with")
    shape = _shapes().get(kind) if isinstance(kind, str) else None
    if shape is None:
        return f"is of an unknown kind ({kind!r:.60})"
    for name, inner in shape.items():
        if not _member_fits(record, name, inner):
            return f"is a {kind!r} record without a proper {name.rstrip('?')!r}"
    return ""


def find_misread_reply(outcome: Any) -> str:
    """What is wrong with the `response` of a `model` record; empty for every other outcome.

    The types above do not look into it, since that takes too long for each record that is read.
    """
    from orchestrator.parsers.parser_response import WrongShape, read_response

    if not isinstance(outcome, dict) or outcome.get("kind") != "model":
        return ""
    response = outcome.get("response")
    if response is None:  # it was made here
        return ""
    try:
        read_response(response, outcome["stage"])
        details = response.get("orchestrationParsedResponse", {}).get("responseDetails") or {}
        for call in details.get("actionGroupInvocations") or ():
            for name, value in (call.get("actionGroupInput") or {}).items():
                if not isinstance(value, dict):  # which a parser may leave out, but no journal
                    return f"the argument {name!r} of a call must be an object"
    except (WrongShape, KeyError) as error:
        return str(error)
    return ""


@cache
def _shapes() -> dict[str, dict[Any, Any]]:
    # Made when the first record is read: an agent that keeps its sessions in memory needs none.
    return {get_args(get_type_hints(it)["kind"])[0]: _to_shape(it) for it in _RECORDS}


def _to_shape(hint: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    # Annotations are texts here, so a TypedDict does not know its optional members itself: they
    # are read off the hints (Python: "typing.TypedDict", `__required_keys__`).
    if is_typeddict(hint):
        members = get_type_hints(hint, include_extras=True).items()
        return {
            f"{name}?" if get_origin(it) is NotRequired else name: _to_shape(it)
            for name, it in members
        }
    if origin is NotRequired:
        return _to_shape(inner[0])
    if hint in (Id, Time):
        return hint
    if origin is Literal:
        return frozenset(inner)
    if origin is list:
        return [_to_shape(inner[0])]
    if origin is tuple:
        return tuple(map(_to_shape, inner))
    if origin is dict:
        return dict if inner[1] is Any else {str: _to_shape(inner[1])}
    return object if hint is Any else hint


def fits(value: Any, hint: type) -> bool:
    """Whether a value that was read from a journal is as a `TypedDict` says."""
    return _fits(value, _cached_shape(hint))


_cached_shape = cache(_to_shape)


# A shape is a type, `Time` or `Id`; a set of texts for one of them; `[shape]` for a list;
# `(shape, shape)` for a list of that length; a mapping from members to shapes, where `"name?"` may
# be missing and `str` means every member.
def _fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, type):
        return isinstance(value, shape)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            _member_fits(value, name, inner) for name, inner in shape.items()
        )
    if isinstance(shape, frozenset):
        return isinstance(value, str) and value in shape
    if shape is Id:
        return isinstance(value, str) and _UUID.fullmatch(value) is not None
    if shape is Time:
        return isinstance(value, int) and 0 <= value < _YEAR_10000
    if not isinstance(value, (list, tuple)):
        return False
    if isinstance(shape, tuple):
        return len(value) == len(shape) and all(map(_fits, value, shape))
    return all(_fits(one, shape[0]) for one in value)


def _member_fits(value: dict[str, Any], name: Any, shape: Any) -> bool:
    if name is str:
        return all(_fits(one, shape) for one in value.values())
    bare = name.rstrip("?")
    return _fits(value[bare], shape) if bare in value else bare != name
