"""What an invocation gives back: a reply, or the events of a stream that ends in one."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from orchestrator.engine.effects import AwaitResults, Branches, CallModel, is_within
from orchestrator.engine.plan import Plan
from orchestrator.engine.results import UNDECIDED, Answer, ControlReturn, Refusal
from orchestrator.engine.run.branches import BranchRun
from orchestrator.engine.run.driver import BranchEnded, Progress, Update
from orchestrator.engine.run.invocation import Run, count_known_records
from orchestrator.engine.run.outcomes import StreamChecked
from orchestrator.engine.run.restore import rebuild_replay
from orchestrator.errors import OrchestratorError, SessionConflict, rebuild_error
from orchestrator.models.base import Usage
from orchestrator.sessions import Session, TurnLog
from orchestrator.sessions.journal import Record

if TYPE_CHECKING:  # many processes read no trace
    from orchestrator.engine.trace.bedrock import TraceParts


class Details:
    """What can be asked of a reply about its turn; nothing of it is made before."""

    __slots__ = ()

    def turn_id(self) -> str:
        """The turn's id in the journal."""
        return ""

    def trace(self) -> list[dict[str, Any]]:
        """The trace parts."""
        return []

    def records(self) -> list[Record]:
        """The journal's records of the invocation."""
        return []

    def usage(self) -> Usage:
        """Tokens of the invocation's model calls."""
        total = Usage()
        for record in self.records():
            if record["kind"] == "model":
                total = total.plus(Usage._make((*record["usage"][:4], 1)))
        return total

    def files(self) -> list[dict[str, Any]]:
        """Files that the turn made."""
        return []

    def notes(self) -> list[str]:
        """Leniencies that were needed."""
        return [note for record in self.records() for note in record.get("notes", ())]


class Reply:
    """The end of an invocation.

    Attributes:
        text: What the user reads: the answer, a question to the user, or a refusal. Empty when
            control was returned.
        stop_reason: `end_turn`, `ask_user`, `refused`, `return_control`, `max_tokens`,
            `guardrail_intervened`, `content_filtered`; of a failed turn, the limit's name or a
            reason code, and `undecided` of one that waits for a decision.
        session_id: The session.
        citations: Bedrock's citations of the answer.
        return_control: The calls that wait for the caller, or `None`.
    """

    __slots__ = (
        "_details",
        "_files",
        "_trace",
        "citations",
        "return_control",
        "session_id",
        "stop_reason",
        "text",
    )

    def __init__(
        self,
        text: str,
        stop_reason: str,
        session_id: str,
        *,
        citations: list[dict[str, Any]] | None = None,
        return_control: ControlReturn | None = None,
        details: Details | None = None,
    ) -> None:
        self.text = text
        self.stop_reason = stop_reason
        self.session_id = session_id
        self.citations = citations or []
        self.return_control = return_control
        self._details = details
        self._files: list[dict[str, Any]] | None = None
        self._trace: list[dict[str, Any]] | None = None

    @property
    def turn_id(self) -> str:
        """The id of the turn among those of `Agent.turns`; empty when none was begun."""
        return self._details.turn_id() if self._details is not None else ""

    @property
    def files(self) -> list[dict[str, Any]]:
        """Files that came with the answer, in Bedrock's shape: `name`, `type` and `bytes`.

        Those of collaborators are among them, but none of an agent whose own answer was refused.
        """
        if self._files is None:
            self._files = self._details.files() if self._details is not None else []
        return self._files

    @property
    def trace(self) -> list[dict[str, Any]]:
        """The trace parts, equal in shape to those of `InvokeAgent`; made when first read."""
        if self._trace is None:
            self._trace = self._details.trace() if self._details is not None else []
        return self._trace

    @property
    def usage(self) -> Usage:
        """Tokens of this invocation."""
        return self._details.usage() if self._details is not None else Usage()

    @property
    def notes(self) -> list[str]:
        """Leniencies that were needed to understand models and actions."""
        return self._details.notes() if self._details is not None else []

    def __repr__(self) -> str:
        return f"Reply({self.text!r}, stop_reason={self.stop_reason!r})"

    def __str__(self) -> str:
        return self.text

    def as_dict(self) -> dict[str, Any]:
        """The reply as JSON members, trace included; the bytes of files are in Base64."""
        control = self.return_control
        return {
            "text": self.text,
            "stop_reason": self.stop_reason,
            "session_id": self.session_id,
            "citations": self.citations,
            "return_control": control
            and {
                "invocationId": control.invocation_id,
                "invocationInputs": control.invocation_inputs,
            },
            "usage": self.usage._asdict(),
            "files": [
                {**file, "bytes": base64.b64encode(file["bytes"]).decode()} for file in self.files
            ],
            "notes": self.notes,
            "trace": self.trace,
        }


@dataclass(slots=True)
class TextDelta:
    """The next piece of the answer.

    The pieces, joined, end with the reply's text, and mostly are nothing else. What comes before
    it was said by a model that then went on: it called an action, asked the user or was asked to
    write its reply again.
    """

    text: str


@dataclass(slots=True)
class TracePart:
    """The next trace part."""

    part: dict[str, Any]


@dataclass(slots=True)
class Files:
    """Files that the turn made, in Bedrock's shape."""

    files: list[dict[str, Any]]


@dataclass(slots=True)
class TurnEnd:
    """The last event: the whole reply."""

    reply: Reply


Event = TextDelta | TracePart | ControlReturn | Files | TurnEnd


def files_of(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The files that a turn made, its collaborators' too, from all its records.

    There are none unless it has ended in an answer. An agent whose answer was refused, by its
    guardrail or its model's provider, gives none; nor do the agents that it leads.
    """
    made, last = [record for record in records if "files" in record], records[-1]
    if not made or last["kind"] != "end" or last["result"] != "answer":
        return []
    refused = {one["id"] for one in records if one.get("result") == "refusal" and "id" in one}
    return [
        {**file, "bytes": base64.b64decode(file["bytes"])}
        for record in made
        if not any(is_within(_maker(record), path) for path in refused)
        for file in record["files"]
    ]


def _maker(record: Record) -> str:
    """The branch of the agent that made a record's files; empty for the one that was invoked."""
    path: str = record["id"] if record["kind"] == "branch" else record.get("branch", "")
    return path


def last_events(reply: Reply, said: str = "") -> Iterator[Event]:
    """The events that end every stream; `said` is what was streamed of the model's last reply."""
    # A guardrail's message in a stream that it blocked is in the stream.
    rest = "" if said.endswith(reply.text) else reply.text.removeprefix(said)
    if rest:
        yield TextDelta(rest)
    if reply.files:
        yield Files(reply.files)
    if reply.return_control is not None:
        yield reply.return_control
    yield TurnEnd(reply)


def reply_of(run: Run) -> Reply:
    """The reply of a run that has its result."""
    details = _RunDetails(run)
    result, session_id = run.result, run.session_id
    if isinstance(result, Answer):
        text, reason, cited = result.text, result.stop_reason, result.citations
        return Reply(text, reason, session_id, citations=cited, details=details)
    if isinstance(result, Refusal):
        return Reply(result.text, result.stop_reason, session_id, details=details)
    if isinstance(result, ControlReturn):
        if result.undecided:  # nobody who only carries calls out may take them for such
            return Reply("", UNDECIDED, session_id, details=details)
        return Reply("", "return_control", session_id, return_control=result, details=details)
    reason = result.code if result is not None and result.code else "failure"
    return Reply("", reason, session_id, details=details)


@cache
def _load_trace_parts() -> type[TraceParts]:
    # Imported when a trace is first read, and not looked for again.
    from orchestrator.engine.trace.bedrock import TraceParts

    return TraceParts


def _trace_parts(run: Run, reported: int) -> TraceParts:
    # What makes the trace of a run, of which the caller has seen `reported` records.
    make = _load_trace_parts()
    return make(run.plan, run.session_id, run.log.start["at"], run.replay, reported=reported)


class _RunDetails(Details):
    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def turn_id(self) -> str:
        return str(self._run.log.start["id"])

    def trace(self) -> list[dict[str, Any]]:
        # Later invocations may have gone on with the turn; they do not change this one's trace.
        run = self._run
        reported = run.record_count
        end = None if isinstance(run.result, ControlReturn) else run.log.end
        return _trace_parts(run, reported).whole(end, run.replay.resume_step if reported else 0)

    def records(self) -> list[Record]:
        return self._run.new_records()

    def files(self) -> list[dict[str, Any]]:
        # When control was returned, a later invocation may have ended the turn.
        answered = isinstance(self._run.result, Answer)
        return files_of(self._run.log.records) if answered else []


class _JournalDetails(Details):
    __slots__ = ("_log", "_parts", "_since")

    def __init__(self, log: TurnLog, parts: TraceParts | None, since: int) -> None:
        self._log, self._parts, self._since = log, parts, since

    def turn_id(self) -> str:
        return str(self._log.start["id"])

    def trace(self) -> list[dict[str, Any]]:
        return self._parts.whole(self._log.end, self._since) if self._parts is not None else []

    def files(self) -> list[dict[str, Any]]:
        return files_of(self._log.records)


def rebuild_reply(plan: Plan, session: Session, log: TurnLog, session_id: str) -> Reply:
    """The reply of a finished turn, from its journal: the same results were given before.

    Raises:
        OrchestratorError: The turn had failed, or waits for a decision; its error again.
    """
    end = log.end or log.suspend_record or log.start
    is_undecided, control = log.decision_request is not None, None
    if end["kind"] == "suspend" and not is_undecided:
        control = ControlReturn(end["invocation_id"], end["inputs"])
    parts, since = None, 0
    with suppress(SessionConflict):  # the agent was changed since: the answer still holds
        replay = rebuild_replay(plan, session, log)
        reported, since = count_known_records(log, len(log.records)), replay.resume_step
        parts = _load_trace_parts()(plan, session_id, log.start["at"], replay, reported=reported)
    reply = Reply(
        text=end.get("text", ""),
        stop_reason=end.get("stop_reason", UNDECIDED if is_undecided else "return_control"),
        session_id=session_id,
        citations=end.get("citations", []),
        return_control=control,
        details=_JournalDetails(log, parts, since),
    )
    error: OrchestratorError | None = None
    if end.get("result") == "failure":
        error = rebuild_error(end["error"], end["message"], end["stop_reason"])
    elif is_undecided:
        from orchestrator.engine.undecided_calls import build_undecided_error

        error = build_undecided_error(log, session_id)
    if error is not None:
        error.reply = reply
        raise error
    return reply


class RunEvents:
    """From a driver's progress to the events of a stream.

    Attributes:
        said: The pieces of the answer that streams now; each has to be in it before the next item.
    """

    __slots__ = ("_begun", "_checked", "_made", "_reported", "_run", "_shown", "_team", "said")

    def __init__(self, run: Run) -> None:
        self._run = run
        self.said: list[str] = []  # pieces; a text that grows would be copied at each of them
        self._shown: set[str] = set()
        self._begun = False
        self._checked = 0  # checks of the text that streams now whose parts were sent
        # Made when a part is: whoever reads the text alone needs none.
        self._made: TraceParts | None = None
        self._reported = run.record_count
        self._team: dict[str, TraceParts] = {}

    @property
    def _parts(self) -> TraceParts:
        if self._made is None:
            self._made = _trace_parts(self._run, self._reported)
        return self._made

    def of(self, item: Update) -> Iterable[Event]:
        """The events of one item."""
        if isinstance(item, str):
            self.said.append(item)
            return (TextDelta(item),)
        return self._report(item)

    def _report(self, item: Progress | BranchEnded | StreamChecked) -> Iterator[Event]:
        if not self._begun:
            yield from self._report_resumption()
        if isinstance(item, StreamChecked):
            self._checked += 1
            yield TracePart(self._of(item.run).build_check_part(item.record))
            return
        parts = (
            self._report_branch_end(item) if isinstance(item, BranchEnded) else self._trace(item)
        )
        for part in parts:
            yield TracePart(part)

    def _trace(self, item: Progress) -> Iterator[dict[str, Any]]:
        known = len(self._team)
        maker = self._of(item.run)
        if len(self._team) > known and isinstance(item.run, BranchRun):
            since, upto = item.run.resumed  # it may have gone on meanwhile, in its thread
            if since:
                yield from maker.whole(None, since, upto)
        if item.outcome is None:
            self._checked = 0
            self._note_shown(item)
            yield from maker.before(item.effect, self._run.now())
        elif isinstance(item.effect, Branches):
            yield from self._report_waiting_calls(item, item.effect, maker)
        else:
            parts = maker.after(item.effect, item.outcome)
            if isinstance(item.effect, CallModel) and item.effect.live:
                parts, self._checked = parts[self._checked :], 0  # those of its checks were sent
            yield from parts

    def _note_shown(self, item: Progress) -> None:
        # What was streamed stands until another text begins: other calls stream nothing.
        effect = item.effect
        if not isinstance(effect, CallModel | Branches) or not effect.live:
            return
        if isinstance(item.run, BranchRun) and item.run.branch.id not in self._shown:
            return
        if isinstance(effect, CallModel):
            self.said.clear()
        else:
            self._shown.update([branch.id for branch in effect.branches])

    def _report_branch_end(self, item: BranchEnded) -> Iterator[dict[str, Any]]:
        """The end of a collaborator's turn, and what its supervisor sees of it."""
        inner = self._team.get(item.branch.id)
        if inner is not None:
            yield from inner.build_end_parts(item.record)
        yield from self._of(item.run).build_branch_end_parts(item.effect, item.branch, item.record)

    def _of(self, run: Run) -> TraceParts:
        """Makes the trace of a run: the agent's own, or a collaborator's."""
        if not isinstance(run, BranchRun):
            return self._parts
        known = self._team.get(run.branch.id)
        if known is None:
            known = self._of(run.parent).of_branch(run.branch, run.began)
            self._team[run.branch.id] = known
        return known

    def _report_waiting_calls(
        self, item: Progress, effect: Branches, maker: TraceParts
    ) -> Iterator[dict[str, Any]]:
        """The calls that collaborators wait for: no driver carries them out."""
        from orchestrator.engine.trace.bedrock import find_waiting_record

        waiting = find_waiting_record(item.outcome)
        record: Record
        for branch, record in zip(effect.branches, item.outcome, strict=True):
            inner = self._team.get(branch.id)
            replay = item.run.replay.branches.get(branch.id)
            if "control" in record and inner is not None and replay is not None:
                last, _ = replay.steps[-1]
                if isinstance(last, AwaitResults):
                    yield from inner.before(last, self._run.now())
            if record is waiting:
                yield from maker.build_branch_end_parts(effect, branch, record)

    def rest(self, end: Callable[[], Reply]) -> Iterator[Event]:
        """The events after the last item; `end` makes the reply, or raises."""
        run = self._run
        if not self._begun:
            yield from self._report_resumption()
        result = run.result
        if isinstance(result, ControlReturn) and not (result.branch or result.undecided):
            # No driver carries a hand-over out, so none reports it.
            for part in self._parts.before(run.replay.steps[-1][0], run.now()):
                yield TracePart(part)
        for part in self._parts.build_end_parts(run.log.end):
            yield TracePart(part)
        yield from last_events(end(), "".join(self.said))

    def _report_resumption(self) -> Iterator[Event]:
        # The caller's answer that this invocation brought; the caller has seen the steps before it.
        self._begun = True
        if since := self._run.replay.resume_step:
            for part in self._parts.whole(None, since):
                yield TracePart(part)
