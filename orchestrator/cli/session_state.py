"""Stored sessions and their turns: their state, open questions, calls without an outcome."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.cli.return_control import list_waiting_calls, suggest_options
from orchestrator.cli.steps import Step, format_call
from orchestrator.cli.terminal import Terminal, assemble, clean, style_text
from orchestrator.cli.trace import TraceView
from orchestrator.errors import (
    AccessDenied,
    DependencyFailed,
    EncryptionError,
    OrchestratorError,
    ResourceNotFound,
    SessionConflict,
    ThrottlingError,
    ValidationError,
)

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.engine.trace.past_turns import PastTurn
    from orchestrator.sessions import Record, Session, SessionInfo, Sessions, TurnLog

T = TypeVar("T")

_MOST_NAMES = 8  # that a message lists

UNDECIDED = "undecided"  # as a turn's stop reason; the engine's own takes long to import


@dataclass(frozen=True, slots=True)
class UnfinishedCall:
    """A call of an action that had begun when its process stopped; nobody knows its outcome."""

    id: str  # names it in its turn
    key: str  # its idempotency key
    text: str  # the call on one line; its name alone without an agent to find its parameters


def turn_logs(sessions: Sessions, info: SessionInfo) -> tuple[Session, list[TurnLog]]:
    """A session and the records of its turns, oldest first."""
    from orchestrator.sessions import Session

    session, logs = Session(info.key, info.label), []
    for record in sessions.records(info.label):
        session.apply([record])
        if record["kind"] == "turn" and session.open is not None:
            logs.append(session.open)
    return session, logs


def turn_state(sessions: Sessions, log: TurnLog) -> str:
    """`ended`, `waiting` for its caller, `undecided`, `running`, or `interrupted`.

    `interrupted` is one whose process stopped, `undecided` one that waits for somebody to say what
    became of an action.
    """
    if log.end is not None:
        return "ended"
    if log.decision_request is not None:
        return UNDECIDED
    if log.suspend_record is not None:
        return "waiting"
    return "running" if sessions.is_running(log) else "interrupted"


def agent_name(folder: Path, info: SessionInfo) -> str | None:
    """The name of the agent that a session is of, if it is the one in `folder`."""
    from orchestrator.agent.compile import derive_agent_id
    from orchestrator.definition import load_definition

    try:
        definition = load_definition(folder)
    except OrchestratorError:
        return None
    own = definition.agent_id or derive_agent_id(definition.agent_name)
    return definition.agent_name if info.label.startswith(f"{own}/") else None


def session_state(sessions: Sessions, info: SessionInfo) -> str:
    """`running`, `waiting`, `undecided`, `interrupted`, `failed` when its last turn did, or `idle`.

    Or `encrypted`, when its key is not given, and `damaged`, when its journal cannot be read: the
    others are listed all the same.

    Raises:
        AccessDenied: AWS KMS refuses its key.
        ThrottlingError: AWS KMS takes fewer requests.
    """
    try:
        session, logs = turn_logs(sessions, info)
    except (AccessDenied, ThrottlingError):
        raise
    except DependencyFailed as error:
        is_intact = isinstance(error, EncryptionError) and error.is_intact
        return "encrypted" if is_intact else "damaged"
    if session.open is not None:
        return turn_state(sessions, session.open)
    end = (logs[-1].end if logs else None) or {}
    return "failed" if end.get("result") == "failure" else "idle"


def find_unfinished_calls(log: TurnLog, agent: Agent | None) -> list[UnfinishedCall]:
    """The calls of a turn that were begun and have no outcome."""
    # The journal has an intent before each action: a process that stops between them leaves it.
    unfinished: dict[tuple[str, str], dict[str, Any]] = {}
    for record in log.records:
        branch = record.get("branch", "")
        if record["kind"] == "intent":
            unfinished |= {(branch, call["id"]): call for call in record["calls"]}
        elif record["kind"] in ("action", "branch"):
            unfinished.pop((branch, record["id"]), None)
    texts = dict(_describe_calls(log, agent)) if unfinished and agent is not None else {}
    return [
        UnfinishedCall(id, call["key"], texts.get(id, call["name"]))
        for (_, id), call in unfinished.items()
    ]


def _describe_calls(log: TurnLog, agent: Agent) -> Iterator[tuple[str, str]]:
    from orchestrator.engine.calls import invocation_input
    from orchestrator.engine.effects import Dispatch, WaitingCall
    from orchestrator.engine.run.replay import Replay
    from orchestrator.sessions import Past

    try:
        reached = Replay(agent.plan, log, Past([], [], {})).send(None)
    except SessionConflict:  # the agent was changed since
        return
    if isinstance(reached, Dispatch):
        for call in reached.calls:
            inputs = invocation_input(WaitingCall(call, ""), agent.plan.agent_id)
            yield call.id, format_call(next(iter(inputs.values())))


_UNKNOWN = "whether it took effect is not known"
_ENDINGS = {"cancelled": "stopped by the user", "end_turn": ""}
_STATES = {
    "running": "running in another process",
    "interrupted": "its process stopped",
    "waiting": "waits for you",
    UNDECIDED: "waits for your decision",
}


@dataclass(slots=True)
class TurnView:
    """A turn of a stored session, as the command line shows it."""

    turn: PastTurn  # the turn
    state: str  # `ended`, `waiting`, `undecided`, `running` or `interrupted`
    begun: list[UnfinishedCall]  # its calls that were begun and have no outcome
    inputs: list[dict[str, Any]]  # the calls that it waits for, in Bedrock's shape
    trace: list[dict[str, Any]] = field(default_factory=list)  # its parts; they need the agent
    note: str = ""  # what to know of the trace, or why there is none
    records: list[Record] = field(default_factory=list)  # the journal's, when there is no trace

    def as_dict(self, *, trace: bool) -> dict[str, Any]:
        """The turn as JSON members."""
        members = {
            "question": self.turn.question,
            "text": self.turn.text,
            "stop_reason": self.turn.stop_reason,
            "at": self.turn.at,
            **({"note": self.note} if self.note else {}),
            **({"records": self.records} if self.records else {}),
            **({"trace": self.trace} if trace else {}),
            "time": iso_time(self.turn.at),
            "state": self.state,
            "begun": [{"call": call.text, "key": call.key} for call in self.begun],
            "waits_for": self.inputs,
        }
        if self.state == "running":
            members["stop_reason"] = "running"
        return members


@dataclass(frozen=True, slots=True)
class NextCommands:
    """The commands that go on with a session, as they are typed."""

    session: str
    folder: str
    state: str | None  # what `--state` named
    of_tenant: bool = False  # whether it is a session of one of a server's tenants

    @classmethod
    def of(cls, info: SessionInfo, folder: Path, state: str | None) -> NextCommands:
        """Those for a stored session, with the folder if it is its agent's."""
        place = str(folder) if agent_name(folder, info) is not None else "FOLDER"
        return cls(info.session_id, place, state, of_tenant=info.label.count("/") == 3)

    @property
    def list_sessions(self) -> str:
        """Lists it with the other sessions."""
        return f"orchestrator sessions list {shlex.quote(self.folder)}{self._state}"

    @property
    def invoke(self) -> str:
        """Goes on with its open turn; of a tenant's session it would begin another one."""
        session = shlex.quote(self.session.rpartition("/")[2])
        return f"orchestrator invoke {shlex.quote(self.folder)} --session {session}{self._state}"

    @property
    def go_on(self) -> str:
        """How its interrupted turn goes on, without a full stop."""
        if self.of_tenant:
            return (
                "The server goes on with it by itself, or when its caller sends the same request "
                "again"
            )
        return f"Go on with `{self.invoke}`"

    def give_results(self, or_with: str = "") -> str:
        """How its turn goes on that waits for results, without a full stop.

        `or_with` says what else may stand for the file.
        """
        if self.of_tenant:
            return "Its caller goes on with it, through the server"
        return f"Go on with `{self.invoke} --results FILE`{or_with}"

    @property
    def decide(self) -> str:
        """Says what became of an action."""
        session = shlex.quote(self.session)
        tenant = " --tenant NAME" if self.of_tenant else ""
        folder = shlex.quote(self.folder)
        return f"orchestrator sessions decide {session} {folder}{self._state}{tenant}"

    @property
    def _state(self) -> str:
        # A URL may have a password, which no terminal shall show.
        shown = "URL" if self.state and "://" in self.state else self.state
        return f" --state {shlex.quote(shown)}" if shown else ""


def show_turn(terminal: Terminal, shown: TurnView, commands: NextCommands) -> None:
    """Writes a turn, and how to go on with it when it has not ended."""
    turn = shown.turn
    if turn.new:
        terminal.print(style_text("the session began anew", "quiet"))
    terminal.print(assemble(("you ", "you"), (local_time(turn.at), "quiet")))
    terminal.block(clean(turn.question), 2)
    if shown.note:
        terminal.block(style_text(shown.note, "warning"), 2)
    _show_steps(terminal, shown)
    ending = describe_ending(shown)
    terminal.print(assemble(("agent", "agent"), (f" {ending}" if ending else "", "quiet")))
    terminal.block(clean(turn.text), 2)
    for line in _suggest_next_steps(shown, commands):
        terminal.block(line, 2)
    terminal.print()


def describe_ending(shown: TurnView) -> str:
    """How a turn ended, or why it has not; empty for an ordinary answer."""
    reason = shown.turn.stop_reason
    return _STATES.get(shown.state) or _ENDINGS.get(reason, reason)


def _show_steps(terminal: Terminal, shown: TurnView) -> None:
    calls = [(call.text, f"began; {_UNKNOWN}; key {call.key}") for call in shown.begun]
    if shown.state == "running":
        calls = [(text, "runs") for text, _ in calls]
    if shown.trace:
        view = TraceView(terminal)
        for part in shown.trace:
            view.show(view.feed(part))
        view.flush()
        view.show(Step("calls", text, doing) for text, doing in calls)
        view.finish()
    else:
        for text, doing in calls:
            terminal.block(f"{clean(text)} {doing}", 2)


def _suggest_next_steps(shown: TurnView, commands: NextCommands) -> list[str]:
    if shown.state == "waiting":
        waits = [f"{clean(call.text)} ({call.wants})" for call in list_waiting_calls(shown.inputs)]
        how = commands.give_results(f", or with {suggest_options(shown.inputs)} instead of a file")
        return [*waits, f"{how}; another question gives it up."]
    if shown.state == UNDECIDED:
        return [
            "Look at the system behind it, by the key. Then go on with "
            f"`{commands.decide} --happened KEY=JSON` (what it gave), `--repeat KEY` or "
            "`--give-up KEY`."
        ]
    if shown.state != "interrupted":
        return []
    if not shown.begun:
        return [f"{commands.go_on}; another question gives it up."]
    return [
        f"{commands.go_on}. It does not run the action again, unless that is idempotent; where "
        "nobody knows what became of it, the turn then waits for your decision."
    ]


def local_time(at: int) -> str:
    """A time in nanoseconds since 1970, for people."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at / 1e9))


def iso_time(at: int) -> str:
    """The same for programs: ISO 8601, in UTC."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at / 1e9, UTC).isoformat(timespec="milliseconds")


def open_sessions(name: str | Path) -> Sessions:
    """The sessions in a file, or in the store that a URL names.

    Raises:
        ResourceNotFound: There is no such file.
        ValidationError: The URL is wrong.
    """
    from orchestrator.sessions import Sessions
    from orchestrator.support.store_urls import SqliteUrl, parse_store

    url = parse_store(name)
    if isinstance(url, SqliteUrl) and not url.path.is_file():
        raise ResourceNotFound(
            f"no sessions are kept in {str(url.path)!r}; `orchestrator invoke --session ID` keeps "
            "one"
        )
    return Sessions.of(name)


def list_sessions(sessions: Sessions, tenant: str | None = None) -> Iterable[SessionInfo]:
    """The stored sessions, the last used first; with `tenant`, those of one of a server's."""
    if tenant is None:
        return sessions.store.list()
    from orchestrator.engine.plan import tenant_key_of

    key = tenant_key_of(tenant)
    return (it for it in sessions.store.list() if it.label.split("/")[2:-1] == [key])


def find_session(sessions: Sessions, name: str, tenant: str | None = None) -> SessionInfo:
    """The stored session that is called `name`: its id, or its label, as `agent/alias/id`.

    Raises:
        ResourceNotFound: There is none, or none of the tenant.
        ValidationError: Several agents or tenants have a session of that id.
    """
    infos = list(list_sessions(sessions, tenant))
    found = {it.label: it for it in infos if name in (it.label, it.session_id)}
    what = f"session {name!r}{f' of the tenant {tenant!r}' if tenant else ''}"
    return pick_one(found, what, [it.session_id for it in infos])


def pick_one(found: Mapping[str, T], what: str, known: Sequence[str]) -> T:
    """The only one of what was found, by full names; `what` is such as `session 's-1'`.

    For messages, `known` has the short names of all that there is.

    Raises:
        ResourceNotFound: There is none.
        ValidationError: There are several.
    """
    if not found:
        shown = ", ".join(map(repr, known[:_MOST_NAMES])) or "none at all"
        more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
        raise ResourceNotFound(f"there is no {what}; there is {shown}{more}")
    if len(found) > 1:
        names = ", ".join(map(repr, found))
        raise ValidationError(f"several agents have a {what}: give one of {names}")
    return next(iter(found.values()))


def read_turns(sessions: Sessions, info: SessionInfo, agent: Agent | None) -> Iterator[TurnView]:
    """The turns of a session, oldest first; with its agent, with their traces."""
    from orchestrator.engine.trace.past_turns import load_past_turns

    logs = {log.start["at"]: log for log in turn_logs(sessions, info)[1]}
    for turn in load_past_turns(sessions, info.label, agent.plan if agent else None):
        log = logs[turn.at]
        waits = (log.suspend_record or {}).get("inputs", [])
        begun = find_unfinished_calls(log, agent)
        view = TurnView(turn, turn_state(sessions, log), begun, waits)
        try:
            view.trace = turn.trace
            if turn.has_todays_prompts:
                view.note = (
                    "the agent was changed since: what was said and done is shown as it was, the "
                    "prompts and settings as they are now"
                )
        except SessionConflict:
            view.records = turn.records
            view.note = (
                "the agent was changed since, so that its trace cannot be shown any more; "
                "--json has the journal's own records"
            )
        yield view
