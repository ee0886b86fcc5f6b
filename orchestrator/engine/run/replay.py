"""Replay: a turn runs again from its beginning, fed with the outcomes in its journal.

Going on with a turn, reading its trace and adding it to the history all do this. An effect whose
outcome is recorded is answered from the journal, without I/O and without rendering.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from orchestrator.actions.base import Call, Operation, Parameter
from orchestrator.engine.attachments import (
    Attachments,
    append_files_to_question,
    has_raw_text_prompt,
    mention_files,
)
from orchestrator.engine.effects import (
    LIVE,
    AwaitResults,
    Branch,
    Branches,
    CallModel,
    Converse,
    Dispatch,
    Effect,
    Live,
)
from orchestrator.engine.plan import Plan
from orchestrator.engine.prompt_history import Talk, select_history
from orchestrator.engine.results import Failure, Result
from orchestrator.engine.run.journal_feed import NO_FEED, JournalFeed
from orchestrator.engine.run.turn_records import (
    STOPPED,
    build_stopped_record,
    build_unknown_record,
)
from orchestrator.engine.state import Iteration, Start, Turn
from orchestrator.engine.turn import run_turn
from orchestrator.errors import DependencyFailed, OrchestratorError
from orchestrator.message import Message, Text
from orchestrator.prompts import BoundPrompt
from orchestrator.prompts.placeholders import ORCHESTRATION
from orchestrator.prompts.steps import is_step, to_plain_message
from orchestrator.sessions import Past, Record, TurnLog
from orchestrator.support.safe_json import iter_texts

# A message to another agent, as models write it, for whoever decides what became of one.
_MESSAGE = Operation(
    "AgentCommunication",
    "sendMessage",
    parameters=(Parameter("recipient", "string"), Parameter("content", "string")),
)
_NOTHING: Mapping[str, Any] = {}
_UNBOUND: tuple[Mapping[str, str], Mapping[str, str], None] = ({}, {}, None)


class Replay:
    """A turn, and what its journal knows of it.

    Attributes:
        turn: The turn.
        log: The journal's records of the turn, those of its collaborators' too.
        feed: What it knows of the turn's effects from here on.
        path: Which branch of them is this turn's; empty for the agent that was invoked.
        steps: The effects so far with their outcomes; traces are made from them.
        past: What happened before; turns that end later may be appended, and do not count.
        before: How many messages of the past's history are before the turn.
        result: The turn's result, once it has one.
        branches: The turns of branches that run here, by branch id.
        iterates: Whether it is not a whole turn, but an iteration of a loop in one.
    """

    __slots__ = (
        "_attachments",
        "_bound",
        "_by_branch",
        "_generator",
        "_more",
        "before",
        "branches",
        "feed",
        "iterates",
        "log",
        "past",
        "path",
        "result",
        "steps",
        "turn",
    )

    def __init__(
        self,
        plan: Plan,
        log: TurnLog,
        past: Past,
        start: Start | None = None,
        before: int | None = None,
        records: Sequence[Record] | None = None,
    ) -> None:
        self.turn = Turn(plan, start or _start(log))
        self.log = log
        self.path = self.turn.start.path
        self.past = past
        self.before = len(past.history) if before is None else before
        self.steps: list[tuple[Effect, Any]] = []
        self.result: Result | None = None
        self.iterates = False
        self.branches: dict[str, Replay] = {}
        self._by_branch: dict[str, list[Record]] | None = None
        self._bound: dict[str, tuple[Mapping[str, str], Mapping[str, str], BoundPrompt | None]] = {}
        self._more: Mapping[str, Any] = log.start.get("with") or _NOTHING
        self._attachments: Attachments | None = None
        if plan.features.orchestration is not None:
            self.turn.start.earlier = self._load_plain_history
        self._generator = run_turn(self.turn)
        self.feed = NO_FEED
        if len(log) > 1:
            self.feed = JournalFeed(log.find_records(self.path) if records is None else records)

    def below(self, branch: Branch) -> Replay:
        """The turn of a branch that runs here: a collaborator's, or an iteration's."""
        known = self.branches.get(branch.id)
        if known is None:
            iteration = self.turn.iterations.get(branch.id)
            if iteration is None:
                known = self._build_collaborator(branch)
            else:
                known = self._build_iteration(branch, iteration)
            self.branches[branch.id] = known
        return known

    def _build_collaborator(self, branch: Branch) -> Replay:
        plan = branch.collaborator.agent
        if plan is None:
            raise AssertionError("a remote agent has its own journal")
        start = self._start_of(branch)
        start.is_led = self.turn.start.is_led or not branch.is_routed
        if branch.is_routed:  # it reads the user's own message; others, their supervisor's
            start.attachments = self.turn.attachments
        first = all(it.turn.start.team != branch.team for it in self.branches.values())
        if first:  # what it asked in this turn, its supervisor has heard
            start.pending = (
                (self.log.start.get("with") or _NOTHING).get("pending", {}).get(branch.team)
            )
        end = self.log.find_branch_end(branch.id)
        before = end["before"] if end else None
        return Replay(plan, self.log, self._past_of(branch), start, before)

    def _build_iteration(self, branch: Branch, iteration: Iteration) -> Replay:
        if self._by_branch is None:
            self._by_branch = _by_branch(self.log.records)
        records, start = self._by_branch.get(branch.id, []), self._start_of(branch)
        start.is_led = self.turn.start.is_led
        replay = Replay(self.turn.plan, self.log, self.past, start, self.before, records)
        replay.iterates, replay._generator = True, iteration.work(replay.turn)
        return replay

    def _start_of(self, branch: Branch) -> Start:
        """What the turn of a branch begins with."""
        from uuid import UUID, uuid5

        above = self.turn.start
        request_id = str(uuid5(UUID(above.request_id), branch.id))
        start = Start(request_id, branch.message, branch.attributes)
        start.path, start.team, start.limits = branch.id, branch.team, branch.limits
        start.retrieval, start.files = above.retrieval, above.files
        return start

    def _past_of(self, branch: Branch) -> Past:
        past = self.past
        history = past.team.setdefault(branch.team, [])
        if branch.collaborator.relay:
            history = past.build_relay_messages(min(self.log.spoken, len(past.talk)))
        return Past(history, [], past.team)

    def session_id(self, root: str) -> str:
        """The id of a collaborator's session within the session `root` of its supervisor."""
        from uuid import NAMESPACE_URL, uuid5

        return str(uuid5(NAMESPACE_URL, f"{root}/{self.turn.start.team}"))

    def send(self, outcome: Any) -> Live | Result:
        """Runs the turn on to its next effect without an outcome, or to its result.

        Raises:
            SessionConflict: The journal was written by another version of the agent.
            DependencyFailed: Something in the journal cannot be understood.
        """
        fed = None
        try:
            while True:
                effect = self._generator.send(outcome)
                fed = outcome = None
                if self.feed.outcomes:
                    fed = outcome = self.feed.take(effect)
                if outcome is None and not isinstance(effect, AwaitResults):
                    return effect
                self.steps.append((effect, outcome))
        except StopIteration as stop:
            result: Result = stop.value
            self.result = result
            return result
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # Either the record does not fit, which its reader could not see, or it is a defect.
            from orchestrator.sessions.records import find_misread_reply

            if problem := find_misread_reply(fed):
                raise DependencyFailed(
                    "the session's journal has a model's reply that cannot be understood "
                    f"({problem}); delete the session, or use another session id"
                ) from error
            raise

    def run_to_end(self, end: Record | None) -> None:
        """Runs the turn as far as its journal goes, for its trace; raises as `send` does."""
        reached = self.send(None)
        if isinstance(reached, LIVE) and self._is_under_way(reached, end):
            self.steps.append((reached, None))

    def _is_under_way(self, effect: Live, end: Record | None) -> bool:
        """Whether the effect that the journal ends with was begun."""
        if isinstance(effect, Branches) and self._are_branches_under_way(effect):
            return True
        if end is None:
            return isinstance(effect, Branches) or self._waits_for_decision()
        if end["stop_reason"] == "seconds" and "cut" not in end:
            return False  # the turn's time was over before
        return isinstance(effect, Branches) or bool(end["result"] == "failure")

    def _are_branches_under_way(self, effect: Branches) -> bool:
        paths = [one.get("branch", "") for one in self.log.records]
        if any(branch.has(path) for path in paths for branch in effect.branches):
            return True
        keys = [self.build_message_call(branch).key for branch in effect.branches]
        return any(map(self.feed.has_intent, keys))

    def _waits_for_decision(self) -> bool:
        waits = self.log.decision_request
        return waits is not None and waits.get("waits", "") == self.path

    def find_quotation(self, calls: Sequence[str]) -> str:
        """The first of the calls in a reply's text that somebody else wrote; empty for none."""
        earlier = (
            text
            for message in self.past.history[: self.before]
            if message["role"] == "user"
            for text in iter_texts(message["content"])
        )
        from orchestrator.engine.quotations import find_quotation

        return find_quotation(calls, chain(self.turn.texts_of_others(), earlier))

    @property
    def resume_step(self) -> int:
        """The last step whose results the caller brought, up to which it knows all; 0 if none."""
        last = 0
        for index, (effect, outcome) in enumerate(self.steps):
            if isinstance(effect, AwaitResults):
                if outcome is not None:
                    last = index
            elif isinstance(effect, Branches) and self._resumes(effect):
                last = index
        return last

    def _resumes(self, effect: Branches) -> bool:
        """Whether one of these collaborators, or of theirs, has the caller's last results."""
        for record in reversed(self.log.records):
            if record["kind"] == "returned":
                path = record.get("branch", "")
                return any(branch.has(path) for branch in effect.branches)
        return False

    def throw(self, error: OrchestratorError) -> Result:
        """Raises an effect's failure in the turn, and returns the turn's result."""
        try:
            self._generator.throw(error)
        except StopIteration as stop:
            result: Result = stop.value
            return result
        raise AssertionError("a turn must not go on after an effect failed")

    def find_awaited_results(self, path: str) -> AwaitResults | None:
        """The hand-over that the turn, or its collaborator's at `path`, waits for."""
        waits, _ = self._find_suspended(path)
        effect, outcome = waits.steps[-1] if waits is not None and waits.steps else (None, None)
        return effect if isinstance(effect, AwaitResults) and outcome is None else None

    def find_interrupted_calls(self, path: str) -> tuple[list[Call], str]:
        """The calls that the turn, or its collaborator's at `path`, was stopped in; its agent's id.

        A message to a remote collaborator is one of them. The list is empty where there are none.
        """
        waits, reached = self._find_suspended(path)
        if waits is None or not isinstance(reached, Dispatch | Branches):
            return [], ""
        if isinstance(reached, Dispatch):
            calls = reached.calls
        else:
            remote = (it for it in reached.branches if it.collaborator.remote is not None)
            calls = [waits.build_message_call(it) for it in remote]
        return calls, waits.turn.plan.agent_id

    def _find_suspended(self, path: str) -> tuple[Replay | None, Live | Result | None]:
        reached = self.send(None)
        if not path:
            return self, reached
        if isinstance(reached, Branches):
            for branch in reached.branches:
                if branch.has(path):
                    below = "" if path == branch.id else path
                    return self.below(branch)._find_suspended(below)
        return None, None

    def stop(self) -> Failure:
        """Ends an iteration where it is, since another one has failed; its result."""
        self._generator.close()
        self.result = Failure(OrchestratorError("another iteration of the loop failed"), STOPPED)
        return self.result

    def prompt(self, effect: CallModel) -> tuple[BoundPrompt, list[Message]]:
        """The bound prompt of a model call, and all its messages in a list of the caller's own."""
        stage = effect.stage
        if isinstance(effect, Converse):
            return self._bind_conversation(effect)
        attributes, values, bound = self._bound.get(stage.stage, _UNBOUND)
        if bound is None or attributes is not effect.attributes or values is not effect.values:
            bound = self._bind_template(effect)
        scratchpad = effect.scratchpad
        if len(scratchpad) != effect.upto:
            scratchpad = scratchpad[: effect.upto]
        messages = bound.messages(scratchpad)
        if self._more and not bound.raw_text and stage.stage == ORCHESTRATION:
            messages = self._with_files(messages)
        return bound, messages

    def _bind_template(self, effect: CallModel) -> BoundPrompt:
        history: Sequence[Message] = self.past.history
        if self._more and ("turns" in self._more or "thinking" in self._more):
            history = self._select_history()
        elif len(history) != self.before:  # a trace that is read later; turns have ended since
            history = history[: self.before]
        stage = effect.stage
        bound = stage.template.bind(self._values(effect), history)
        self._bound[stage.stage] = (effect.attributes, effect.values, bound)
        return bound

    def _select_history(self) -> Sequence[Message]:
        turns, thinking = self._more.get("turns"), self._more.get("thinking", True)
        return select_history(self.past, self.before, turns, thinking=thinking)

    def transcript(self, result: Result) -> list[Message]:
        """The finished turn of a collaborator, for its history."""
        messages, files = self.turn.transcript(result), self.turn.attachments
        return mention_files(messages, files) if files else messages

    def _with_files(self, messages: list[Message]) -> list[Message]:
        if self._attachments is None:
            self._attachments = Attachments(self.turn.attachments)
        return self._attachments.add_to(messages)

    def _load_plain_history(self) -> list[Message]:
        history = self._select_history() if self._more else self.past.history[: self.before]
        return [to_plain_message(message) for message in history if not is_step(message)]

    def _bind_conversation(self, effect: Converse) -> tuple[BoundPrompt, list[Message]]:
        before = self._load_plain_history() if effect.past else []
        bound = BoundPrompt(Text(effect.system), before, list(effect.messages))
        messages = bound.messages()
        asks = self._more and any(span.origin == "question" for it in messages for span in it.spans)
        return bound, self._with_files(messages) if asks else messages

    def _values(self, effect: CallModel) -> dict[str, str]:
        turn = self.turn
        question = turn.question
        if self._more and effect.stage.stage == ORCHESTRATION and has_raw_text_prompt(turn.plan):
            question = append_files_to_question(question, turn.attachments)
        values = {"question": question}
        if effect.attributes:
            values |= effect.stage.attribute_values(effect.attributes)
        if turn.start.summaries or turn.start.files:
            values.update(turn.values(effect.stage))
        values.update(effect.values)
        if effect.of_past is not None:
            talk = Talk(self.past, self.log.spoken, self._more.get("turns"))
            values.update(effect.of_past(talk))
        return values

    def build_message_call(self, branch: Branch) -> Call:
        """The message to a remote collaborator as a call; the journal notes it by its key."""
        arguments = {"recipient": branch.collaborator.name, "content": branch.message}
        return Call(branch.id, _MESSAGE, arguments, f"{self.turn.start.request_id}:{branch.id}")

    def give_up(self, effect: Dispatch | Branches, at: int) -> None:
        """Gives the turn what is known of the effect it was stopped in, for its transcript."""
        feed = self.feed
        known = feed.take_known(effect)
        if isinstance(effect, Branches):
            begun = self._are_branches_under_way(effect)
            lost = [build_stopped_record(branch, at) for branch in effect.branches]
        else:
            begun = any(feed.has_intent(call.key) for call in effect.calls)
            lost = [build_unknown_record(call, at) for call in effect.calls]
        if known or begun:
            self.send([known.get(record["id"], record) for record in lost])


def _start(log: TurnLog) -> Start:
    first = log.start
    start = Start(first["id"], first["question"], first["prompt_attributes"])
    if "guards_history" in first:
        start.history = first.get("history", ())
    if "with" in first:
        more = first["with"]
        start.last_agent = more.get("last_agent", "")
        start.pending = more.get("pending", _NOTHING).get("")
        start.summaries = more.get("summaries", ())
        start.retrieval = more.get("retrieval")
        start.files = more.get("files", ())
        start.attachments = more.get("attachments", ())
        start.closing = bool(more.get("closing"))
        if "memory_id" in more:
            start.remembers = partial(getattr, log, "ends_session")
    return start


def _by_branch(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.get("branch", ""), []).append(record)
    return found
