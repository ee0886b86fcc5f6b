"""A session as its journal has it: a projection of the records.

It stays decoded between turns, so that a turn reads only what other processes have added since.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orchestrator.message import Message, text_of
from orchestrator.sessions.journal import Record, Said, drop_undone_turns

HISTORY_GUARD = "guardrail-history-"
"""Begins the ids of the checks of a caller's `conversation_history`; the index comes next."""

_NONE: frozenset[str] = frozenset()


class TurnLog(list[Record]):
    """The records of one turn, from its `turn` record on.

    It is the list itself: a session keeps one container less.

    Attributes:
        start: The `turn` record.
        ends_session: Whether one of the turn's invocations asked for the session's end.
        transcript: Makes the turn's messages for the history, when the turn ran in this process.
        before: How many messages the history has before the turn; `None` while it has no others.
        spoken: How many entries the talk has before the turn.
        taken: The branches whose turns are in their agents' histories already.
        previous: The finished turn before it, while neither is in the history.
    """

    __slots__ = ("before", "ends_session", "previous", "spoken", "start", "taken", "transcript")

    def __init__(self, first: Record, spoken: int = 0) -> None:
        self.append(first)
        self.start = first
        self.ends_session = "end_session" in first
        self.spoken = spoken
        self.transcript: Callable[[], list[Message]] | None = None
        self.taken = _NONE
        self.before: int | None = None
        self.previous: TurnLog | None = None

    @property
    def records(self) -> list[Record]:
        """The records, with the first one."""
        return self

    @property
    def end(self) -> Record | None:
        """The `end` record, when the turn has ended."""
        last = self[-1]
        return last if last["kind"] == "end" else None

    @property
    def suspend_record(self) -> Record | None:
        """The `suspend` record, when the turn waits for the caller."""
        last = self[-1]
        return last if last["kind"] == "suspend" else None

    @property
    def decision_request(self) -> Record | None:
        """The `suspend` record, when the turn waits for a decision about calls of its own."""
        last = self[-1]
        return last if last["kind"] == "suspend" and last.get("undecided") else None

    def find_records(self, branch: str) -> list[Record]:
        """The records of a branch's own turn; with an empty name, of the agent that was invoked."""
        return [record for record in self.records if record.get("branch", "") == branch]

    def find_branch_end(self, id: str) -> Record | None:
        """The record of a branch's end, when the branch has ended."""
        ends = (one for one in self.records if one["kind"] == "branch" and one["id"] == id)
        return next(ends, None)

    @property
    def holder(self) -> Record:
        """The last record that says which process runs the turn; empty when none does."""
        return next((record for record in reversed(self.records) if "owner" in record), {})

    @property
    def workflow(self) -> str:
        """The durable workflow that the turn is run for; empty when it is for none."""
        return str(self.holder.get("workflow", ""))


# Other forms of a session's past, as far as they were needed: models without thinking read another
# history, and templates read texts. Building them anew would cost more with each turn.
class _HistoryCache:
    __slots__ = ("relayed", "rendered", "without_thinking")

    def __init__(self) -> None:
        self.without_thinking: list[Message] = []
        self.rendered: dict[object, list[str]] = {}  # the talk as texts, by what rendered it
        self.relayed: list[Message] = []  # the talk as messages


class Past:
    """What happened in a session before a turn.

    Attributes:
        history: Messages of the finished turns; only ever appended to.
    """

    # What few sessions have is made when it is first used: each container that a session keeps
    # costs memory, and time in every garbage collection.
    __slots__ = ("_cache", "_talk", "_team", "history")

    def __init__(
        self, history: list[Message], talk: list[Said], team: dict[str, list[Message]] | None = None
    ) -> None:
        self.history = history
        self._talk = talk
        self._team = team
        self._cache: _HistoryCache | None = None

    @property
    def talk(self) -> list[Said]:
        """Who said what, without thoughts and calls; only ever appended to."""
        return self._talk

    @property
    def team(self) -> dict[str, list[Message]]:
        """Histories of collaborators, by their names in the team."""
        if self._team is None:
            self._team = {}
        return self._team

    @property
    def cache(self) -> _HistoryCache:
        """Other forms of the past."""
        if self._cache is None:
            self._cache = _HistoryCache()
        return self._cache

    def build_relay_messages(self, upto: int) -> list[Message]:
        """The first entries of the talk as messages, for collaborators that read it."""
        messages = self.cache.relayed
        known = len(messages)
        if known < upto:
            # One assignment, so that two collaborators that begin at the same time do no harm.
            messages[known:upto] = [
                Message(role, [{"text": text}]) for role, text in self.talk[known:upto]
            ]
        return messages[:upto]


class Session(Past):
    """A session, as far as its journal has been read.

    Attributes:
        key: The store's key.
        count: How many of the journal's records have been read.
        last: The last of them.
        attributes: Session attributes.
        open: The turn that has not ended, if any.
        last_unread: The last finished turn that is not in `history` yet; see `list_unread`.
        active: When the last record was written.
        unwritten: The record of the open turn while it is not in the store yet.
        unsynced: How many of the last records a crash of the database may still lose.
        written_at: When this process wrote the last record; 0 if another process may have.
        answered: By invocation id of each hand-over that has its results: the results' digest, and
            the log of the turn.
        started: When the session began, in nanoseconds since 1970.
        size: About how many bytes of memory it takes; counted for durable stores alone.
        memory_id: Whose memory the session belongs to; empty when it is not remembered.
        last_agent: The collaborator that answered last.
        pending: The calls that wait for the user, by the names of the agents in the team; never
            changed, but replaced.
        turn_ids: The ids of all turns in the journal; `None` until a caller names requests.
    """

    __slots__ = (
        "_asked",
        "_unsaid",
        "active",
        "answered",
        "attributes",
        "count",
        "key",
        "label",
        "last",
        "last_agent",
        "last_unread",
        "memory_id",
        "open",
        "pending",
        "size",
        "started",
        "turn_ids",
        "unsynced",
        "unwritten",
        "written_at",
    )

    def __init__(self, key: str, label: str) -> None:
        self.key = key
        self.label = label
        self.forget()

    def forget(self) -> None:
        """Forgets everything that was read."""
        self.count = 0
        self.active = 0
        self.last: Record | None = None
        self.unwritten: Record | None = None
        self.unsynced = self.written_at = 0
        self._reset()

    def _reset(self) -> None:
        self.size = 0
        self.attributes = _NO_ATTRIBUTES
        self.history = _NO_HISTORY
        self._talk: list[Said] = []
        self._unsaid: TurnLog | None = None  # the last turn, while its answer is not in the talk
        self._team = None
        self._cache = None
        self.started = 0
        self.memory_id = ""
        self.last_agent = ""
        self.pending = _NOTHING_PENDING
        self._asked: tuple[str, ...] = ()
        self.open: TurnLog | None = None
        self.last_unread: TurnLog | None = None
        self.answered = _NOT_ANSWERED
        self.turn_ids: set[str] | None = None

    @property
    def talk(self) -> list[Said]:
        """Who said what, without thoughts and calls; only ever appended to."""
        # Of the last turn it is made when somebody asks: an idle session has it in its records.
        log, self._unsaid = self._unsaid, None
        if log is not None:
            end = log[-1]
            question = end.get("question") or log.start["question"]
            self._talk += [("user", question), ("assistant", end["text"])]
        return self._talk

    def add_history(self, messages: Sequence[Message]) -> None:
        """Adds messages to the history."""
        if self.history is _NO_HISTORY:
            self.history = []
        self.history += messages

    def list_unread(self) -> list[TurnLog]:
        """The finished turns that are not in the history yet, in their order."""
        logs, log = [], self.last_unread
        while log is not None:
            logs.append(log)
            log = log.previous
        return logs[::-1]

    def apply(self, records: Sequence[Record]) -> None:
        """Applies the journal's next records."""
        log = self.open
        for record in records:
            if log is not None:
                log.append(record)
            kind = record["kind"]
            if kind in _TAKES:  # most records only belong to their turn
                _TAKES[kind](self, record)
                log = self.open
        if records:
            self.last = records[-1]
            self.count += len(records)

    def load(self, records: Sequence[Record]) -> None:
        """Applies the next records of a journal that was read, without turns that were undone."""
        count = self.count + len(records)
        self.apply(drop_undone_turns(records))
        self.last, self.count = records[-1], count
        self.unsynced = self.written_at = 0

    def _begin(self, record: Record) -> None:
        if given := record.get("history"):
            self.add_history([Message(one["role"], one["content"]) for one in given])
            self.talk.extend([(one["role"], text_of(one["content"])) for one in given])
        self.open = TurnLog(record, len(self.talk))
        if self.turn_ids is not None:
            self.turn_ids.add(record["id"])
        self.started = self.started or record["at"]
        if "with" in record:
            self.memory_id = record["with"].get("memory_id", self.memory_id)
        self.active = record["at"]
        self.attributes = record["attributes"]

    def apply_guarded_history(self, record: Record) -> None:
        """Puts what a guardrail made of a message into the caller's history, also twice."""
        log = self.open
        if log is None or "branch" in record or not record["id"].startswith(HISTORY_GUARD):
            return
        if record["blocked"]:
            self._drop_caller_history(log)
            return
        place = record["id"][len(HISTORY_GUARD) :]
        index = int(place) if place.isdecimal() else len(self.history)
        if record["action"] == "INTERVENED" and index < len(self.history):
            role = self.history[index]["role"]
            self.history[index] = Message(role, [{"text": record["text"]}])
            self.talk[log.spoken - len(self.history) + index] = (role, record["text"])

    def _drop_caller_history(self, log: TurnLog) -> None:
        # Until its first turn has ended, a session has no other history than the caller's.
        first = log.spoken - len(self.history)
        del self.talk[first : log.spoken]
        log.spoken = first
        self.history.clear()

    def _end(self, record: Record) -> None:
        log = self.open
        if log is None:
            return
        if "guards_history" in log.start and not _is_history_guarded(log):
            # The turn was stopped before the guardrail had read all of it.
            self._drop_caller_history(log)
        self.open = None
        log.previous, self.last_unread = self.last_unread, log
        if record["result"] == "answer":
            self._unsaid = log
        if self.pending:
            self.pending = {name: it for name, it in self.pending.items() if name in self._asked}
            self._asked = ()
        self._replace_pending("", record)
        self.active = record["at"]

    def _return(self, record: Record) -> None:
        if self.open is not None:
            if self.answered is _NOT_ANSWERED:
                self.answered = {}
            self.answered[record["invocation_id"]] = (record["digest"], self.open)
        self._go_on(record)

    def _go_on(self, record: Record) -> None:
        if self.open is not None and "end_session" in record:
            self.open.ends_session = True
        self._change(record)

    # Of an agent, only the last question counts, and only if the user's last turn put it.
    def _replace_pending(self, agent: str, record: Record) -> None:
        if "pending" in record:
            self.pending = {**self.pending, agent: record["pending"]}
        elif agent in self.pending:
            self.pending = {name: it for name, it in self.pending.items() if name != agent}

    def _branch(self, record: Record) -> None:
        if "pending" in record:
            self._asked = (*self._asked, record["name"])
        self._replace_pending(record["name"], record)
        if "/" not in record["name"]:
            self.last_agent = record["name"]
        self.active = record["at"]

    def _close(self, record: Record) -> None:
        self._reset()
        self.active = record["at"]

    def _change(self, record: Record) -> None:
        if "at" in record:
            self.active = record["at"]
        if "attributes" in record:
            self.attributes = record["attributes"]


# Shared by the sessions that have none, and never changed.
_NO_ATTRIBUTES: dict[str, str] = {}
_NO_HISTORY: list[Message] = []
_NOTHING_PENDING: dict[str, Record] = {}
_NOT_ANSWERED: dict[str, tuple[str, TurnLog]] = {}


def _is_history_guarded(log: TurnLog) -> bool:
    ids = {one["id"] for one in log.records if one["kind"] == "guarded" and "branch" not in one}
    count = len(log.start.get("history", ()))
    return all(f"{HISTORY_GUARD}{index}" in ids for index in range(count))


_TAKES: dict[str, Callable[[Session, Record], None]] = {
    "turn": Session._begin,
    "end": Session._end,
    "returned": Session._return,
    "decided": Session._return,
    "branch": Session._branch,
    "closed": Session._close,
    "guarded": Session.apply_guarded_history,
    "suspend": Session._change,
    "action": Session._change,
    "claim": Session._go_on,
    "undone": Session._change,
}
