"""One run of a script alone: an agent around it, and the agent's events as the run's."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.actions import ActionGroup
from orchestrator.agent.agent import Agent
from orchestrator.agent.validate import check_parts
from orchestrator.engine.plan import Features
from orchestrator.engine.results import ControlReturn
from orchestrator.engine.trace.reply import Reply, TextDelta, TurnEnd
from orchestrator.errors import FlowError, OrchestratorError, SessionConflict, ValidationError
from orchestrator.flows.listener import Listener
from orchestrator.flows.orchestration import (
    FlowOrchestration,
    check_functions,
    check_parallel,
    request_text,
)
from orchestrator.flows.state import state_of
from orchestrator.flows.steps import AskUser, Event, Pause, Program
from orchestrator.limits import Limits
from orchestrator.models import Model, resolve_model
from orchestrator.models.base import Usage
from orchestrator.sessions import InMemoryStore, Record, Sessions, SessionStore, session_label
from orchestrator.support.lru_cache import LruCache

LIMITS = Limits(
    iterations=500, model_calls=500, actions=2000, tokens=5_000_000, result_bytes=5_000_000
)
"""Budgets of a run without `limits`; they are high, because scripts loop over lists."""

_NAME = "flow"
_MOST_COMPILED = 8  # of one script
_FOREVER = 100 * 365 * 86_400  # a run waits for as long as its caller does


@dataclass(frozen=True, slots=True)
class _CompiledFlow:
    agent: Agent
    model: Model
    orchestration: FlowOrchestration
    # The cache's key has the ids of these objects; while they live, no other object gets them.
    held: Sequence[Any]

    def adapt(self, model: Model, listener: Listener, parallel: int | None) -> Agent:
        """The agent of one run."""
        plan = self.agent.plan
        orchestration = copy(self.orchestration)
        orchestration.listener, orchestration.parallel = listener, parallel
        stages = plan.stages
        if model is not self.model:
            stages = {
                name: replace(stage, model=model) if stage.model is self.model else stage
                for name, stage in stages.items()
            }
        features = replace(plan.features, orchestration=orchestration)
        agent = copy(self.agent)
        agent.plan = replace(plan, stages=stages, features=features)
        return agent


class FlowAgents:
    """The agents around a script: compiled once for each kind of model, tools and action groups.

    Compiling takes milliseconds, and a run of a short script less than one.
    """

    def __init__(self, program: Program, name: str = _NAME) -> None:
        self.program = program
        self._name = name
        self._compiled: LruCache[_CompiledFlow] = LruCache(_MOST_COMPILED)

    def find(
        self,
        model: Model,
        tools: Mapping[str, Callable[..., Any]] | None,
        groups: Sequence[ActionGroup],
    ) -> _CompiledFlow:
        """The compiled agent for these arguments, which a run then adapts."""
        check_functions(tools)
        tools = tools or {}
        compile_agent = partial(self._compile, model, tools, groups)
        # The folders of a code interpreter end with the run that they belong to.
        if self.program.uses_code:
            return compile_agent()
        used = [(name, id(one)) for name, one in tools.items()]
        key = (type(model), model.model_id, *used, *map(id, groups))
        return self._compiled.get(key, compile_agent)

    def _compile(
        self, model: Model, tools: Mapping[str, Callable[..., Any]], groups: Sequence[ActionGroup]
    ) -> _CompiledFlow:
        orchestration = FlowOrchestration(self.program, tools)
        agent = Agent(
            self._name,
            "Run a script.",
            model,
            action_groups=groups,
            idle_session_ttl=_FOREVER,
            features=Features(orchestration=orchestration),
        )
        return _CompiledFlow(agent, model, orchestration, (*tools.values(), *groups))


class FlowRun:
    """An agent around a script, for one run, or one part of it between two pauses.

    Attributes:
        agent: The agent.
        session_id: The session of its turn, which names the run.
        request: What it is asked: a `question`, or `results`.
    """

    def __init__(
        self,
        agents: FlowAgents,
        session_id: str,
        request: dict[str, Any],
        seen: Mapping[str, int],
        *,
        model: str | Model,
        tools: Mapping[str, Callable[..., Any]] | None = None,
        action_groups: Sequence[ActionGroup] = (),
        limits: Limits | None = None,
        sessions: Sessions | SessionStore | str | Path | None = None,
        parallel: int | None = None,
    ) -> None:
        check_parallel(agents.program, parallel)
        self._program = agents.program
        self.session_id = session_id
        self.request = request
        self._pending: deque[FlowEvent] = deque()
        self._last: FlowEvent | None = None
        self._listener = Listener(self._queue_event, seen=dict(seen), sent=sum(seen.values()))
        if limits is None:
            limits = replace(LIMITS, parallel=max(LIMITS.parallel, parallel or 0))
        check_parts(action_groups, (), limits, _FOREVER)
        model = resolve_model(model)
        compiled = agents.find(model, tools, action_groups)
        self.agent = compiled.adapt(model, self._listener, parallel)
        self.agent.plan = replace(self.agent.plan, limits=limits)
        self.agent.sessions = Sessions.of(sessions)

    @classmethod
    def start(
        cls,
        agents: FlowAgents,
        arguments: Mapping[str, Any] | str,
        *,
        seed: int | None = None,
        run_id: str | None = None,
        step: bool = False,
        results: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> FlowRun:
        """A run from the beginning, or from where a stopped process left it."""
        try:
            parallel = options.get("parallel")
            check_parallel(agents.program, parallel)
            question = request_text(arguments, seed=seed, step=step, parallel=parallel)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValidationError(f"the arguments are no JSON data: {error}") from None
        request: dict[str, Any] = {"question": question}
        if results is not None:
            if run_id is None:
                raise ValidationError("a decision is about a run; give its run_id=, too")
            request = {"results": results}
        return cls(agents, run_id or str(uuid.uuid4()), request, {}, **options)

    @classmethod
    def resume(
        cls,
        agents: FlowAgents,
        state: Mapping[str, Any],
        answer: Mapping[str, Any] | str | bool,
        **options: Any,
    ) -> FlowRun:
        """A run that waited, from where it did: its checked state, and what it waited for."""
        results = _find_return_control(state["journal"]).answer(answer)
        own = options.get("sessions") is None
        # The state holds the journal; a store of the caller has it already.
        if own:
            options = {**options, "sessions": InMemoryStore()}
        run = cls(agents, state["session"], {"results": results}, state["events"], **options)
        if own:
            run.agent.sessions.store.append(run._key, 0, state["journal"])
        return run

    @property
    def _key(self) -> str:
        return self.agent.sessions.key(session_label(self.agent.plan.owner, self.session_id))

    # Ways to run

    def run(self, on_event: Callable[[FlowEvent], None] | None = None) -> FlowResult:
        """Runs it; `on_event` gets each event as it happens."""
        if on_event is not None:
            with closing(self.stream()) as events:
                for event in events:
                    on_event(event)
            return _result_of(event)
        self.mute()
        with self.open_agent() as agent:
            return self._build_result(agent.invoke(session_id=self.session_id, **self.request))

    async def arun(self, on_event: Callable[[FlowEvent], None] | None = None) -> FlowResult:
        """`run`, for an event loop."""
        if on_event is not None:
            async with aclosing(self.astream()) as events:
                async for event in events:
                    on_event(event)
            return _result_of(event)
        self.mute()
        with self.open_agent() as agent:
            reply = await agent.ainvoke(session_id=self.session_id, **self.request)
            return self._build_result(reply)

    def stream(self) -> Generator[FlowEvent, None, None]:
        """Runs it; its events."""
        try:
            with self.open_agent() as agent:
                with closing(agent.stream(session_id=self.session_id, **self.request)) as events:
                    for event in events:
                        yield from self._translate_event(event)
        except OrchestratorError as error:
            yield from self._translate_error(error)
            raise

    async def astream(self) -> AsyncGenerator[FlowEvent, None]:
        """Runs it; its events, for an event loop."""
        try:
            with self.open_agent() as agent:
                events = agent.astream(session_id=self.session_id, **self.request)
                async with aclosing(events):
                    async for event in events:
                        for one in self._translate_event(event):
                            yield one
        except OrchestratorError as error:
            for one in self._translate_error(error):
                yield one
            raise

    def mute(self) -> None:
        """Nobody listens: no event is built, nor kept."""
        self._listener.tell = None

    def reset(self) -> None:
        """Forgets what was heard of another turn of the session."""
        self._listener.outcome = self._listener.pause = None

    def describe(self, reply: Reply) -> dict[str, Any]:
        """The outcome as JSON data, for `FlowResult.from_record`."""
        paused = None if reply.return_control is None else {"run_id": self.session_id}
        return FlowResult(self._listener, reply, paused).as_record()

    @contextmanager
    def open_agent(self) -> Generator[Agent, None, None]:
        """The agent, until the block ends; a conflict there is one of the run."""
        with self.agent as agent:
            try:
                yield agent
            except SessionConflict as error:
                raise self._build_conflict_error(error) from error

    # Events

    def _queue_event(self, seq: int, event: Event) -> None:
        place = event.place
        queued = FlowEvent(event.type, seq, place.line, place.statement, dict(event.members))
        if event.type in ("run_end", "breakpoint"):
            # It is sent with its result, once that is known.
            self._last = queued
        else:
            self._pending.append(queued)

    def _translate_event(self, event: Any) -> Generator[FlowEvent, None, None]:
        while self._pending:
            yield self._pending.popleft()
        listener = self._listener
        if isinstance(event, TextDelta):
            over = listener.outcome is not None or listener.pause is not None
            # Text after the end is in the result already, or its iteration has sent it.
            if event.text and not over:
                for members in listener.parse_text(event.text):
                    yield FlowEvent("token", listener.sent, 0, "", members)
        elif isinstance(event, TurnEnd):
            yield self._build_end_event(self._build_result(event.reply))

    def _build_end_event(self, result: FlowResult) -> FlowEvent:
        last, seen = self._last, self._listener.sent
        members = {"waits_for": result.waits_for} if result.waits_for else {}
        if result.waits_for == "user":
            members["text"] = result.question
        if last is None or (last.type == "run_end" and result.paused is not None):
            kind = "run_end" if result.paused is None else "breakpoint"
            last = FlowEvent(kind, seen, result.line, result.statement)
        merged = {**last.members, **members}
        return FlowEvent(last.type, last.seq, last.line, last.statement, merged, result)

    def _translate_error(self, error: OrchestratorError) -> Generator[FlowEvent, None, None]:
        while self._pending:
            yield self._pending.popleft()
        members = {"text": error.message, "error": type(error).__name__}
        line, statement = 0, ""
        if isinstance(error, FlowError):
            line, statement = error.line or 0, error.statement
            members |= {"text": error.reason, "text_zh": error.message_zh}
        yield FlowEvent("error", self._listener.sent, line, statement, members)

    # Results

    def _build_conflict_error(self, error: SessionConflict) -> OrchestratorError:
        # The store only knows that the session is busy, or that its records are of another
        # script.
        if "another version" in error.message:
            return FlowError(
                f"the run {self.session_id!r} was begun with another version of this script; "
                "finish it with that one, or choose another run_id",
                file=self._program.file,
                message_zh=f"运行 {self.session_id} 由此脚本的另一版本开始，无法继续",
            )
        return SessionConflict(f"the run {self.session_id!r} cannot go on: {error.message}")

    def _build_result(self, reply: Reply) -> FlowResult:
        # A trace is built when it is first read, which needs the agent open.
        _ = reply.trace
        paused = None
        if reply.return_control is not None:
            paused = self._build_state()
        return FlowResult(self._listener, reply, paused)

    def _build_state(self) -> dict[str, Any]:
        listener = self._listener
        more = {
            "session": self.session_id,
            "events": listener.seen,
            "waits_for": waits_for(listener.pause),
        }
        # Records before the last turn are of parts that are over: the run goes on without them.
        records = self.agent.sessions.store.load(self._key)
        first = max(at for at, one in enumerate(records) if one["kind"] == "turn")
        return state_of(self._program.digest, records[first:], more)


def _find_return_control(journal: Sequence[Record]) -> ControlReturn:
    suspended = next((one for one in reversed(journal) if one["kind"] == "suspend"), None)
    if suspended is None:
        raise FlowError(
            "the state's journal does not wait for anything", message_zh="状态中的运行没有暂停"
        )
    return ControlReturn(suspended["invocation_id"], suspended["inputs"])


def _result_of(last: FlowEvent) -> FlowResult:
    if last.result is None:
        raise AssertionError("a run ends in an event with its result")
    return last.result


def waits_for(pause: Pause | AskUser | None) -> str:
    """What a run waits for, by where its script does; by itself, it waits for an action."""
    if pause is None:
        return "call"
    return "user" if isinstance(pause, AskUser) else "breakpoint"


_RECORDED = (
    *("output", "variables", "messages", "waits_for", "question", "line", "statement"),
    *("warnings", "paused"),
)


class FlowResult:
    """The outcome of a run.

    Attributes:
        output: PPE: the script's result. PL: the value of the last statement, or the message of
            `@exit`. While it waits, that of the last statement so far.
        variables: Every name that the run knows, and its value.
        messages: The messages of the last dialogue, in Converse's shape (PPE).
        paused: The state to go on with, JSON data, when the run waits; else `None`.
        waits_for: `breakpoint`, `user` or, for the result of an action that its caller carries out
            or confirms, `call` while it waits; else empty. `reply.return_control` has the calls.
        question: What the user is asked, while it waits for the user.
        line: The line where it waits; else 0.
        statement: The statement there: in `step` mode, the next one.
        warnings: The warnings of this part of the run: the `text` and `line` of each.
        reply: The turn behind it: `trace`, `usage`.
    """

    def __init__(self, listener: Listener, reply: Reply, paused: dict[str, Any] | None) -> None:
        self.reply = reply
        self.paused = paused
        self.waits_for = self.question = self.statement = ""
        self.line = 0
        self.messages: Sequence[Mapping[str, Any]] = ()
        self.warnings = [
            {"text": str(one.members.get("text", "")), "line": one.place.line}
            for one in listener.warnings
        ]
        outcome, pause = listener.outcome, listener.pause
        if outcome is not None:
            self.output, self.variables = outcome.output, dict(outcome.variables)
            self.messages = outcome.messages
        elif pause is None:  # an action waits, or a model has asked the user with one
            self.waits_for = "" if paused is None else waits_for(pause)
            self.output, self.variables = reply.text, dict[str, Any]()
        else:
            self.waits_for = waits_for(pause)
            self.question = pause.text if isinstance(pause, AskUser) else ""
            self.line, self.statement = pause.place.line, pause.place.statement
            self.output, self.variables = pause.output, dict(pause.variables)

    def as_record(self) -> dict[str, Any]:
        """All but the reply, as JSON data."""
        return {name: getattr(self, name) for name in _RECORDED} | {"messages": list(self.messages)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], reply: Reply) -> FlowResult:
        """The result that `as_record` has described."""
        result = cls.__new__(cls)
        result.reply = reply
        for name in _RECORDED:
            setattr(result, name, record[name])
        return result

    @property
    def trace(self) -> list[dict[str, Any]]:
        """Trace parts in the shape of `InvokeAgent`."""
        return self.reply.trace

    @property
    def usage(self) -> Usage:
        """Tokens of this part of the run."""
        return self.reply.usage

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON data."""
        data = {"output": self.output, "variables": self.variables, "usage": self.usage._asdict()}
        if self.warnings:
            data["warnings"] = self.warnings
        if self.messages:
            data["messages"] = list(self.messages)
        if self.paused is not None:
            data |= {"waits_for": self.waits_for, "line": self.line, "statement": self.statement}
            data |= {"question": self.question} if self.waits_for == "user" else {}
            data["state"] = self.paused
        return data

    def __repr__(self) -> str:
        return f"FlowResult(output={self.output!r}, waits_for={self.waits_for!r})"


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """Something that happened in a run."""

    # What happened: `run_start`, `statement_start`, `token`, `tool_call`, `tool_result`,
    # `role_switch`, `variable_set`, `breakpoint`, `exit`, `warning`, `error`, `run_end`
    type: str
    seq: int  # its number in the run, from 1; `token`s of a model have that of the event before
    line: int  # the line in the script, from 1; 0 where there is none
    statement: str = ""  # the first line of the statement there
    # More of it, such as `{"text": ...}`, `{"name": ..., "value": ...}`
    members: Mapping[str, Any] = field(default_factory=dict)
    # The outcome of the run: of the last event
    result: FlowResult | None = field(default=None, compare=False, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """The event as JSON data, without its result."""
        data = {"type": self.type, "seq": self.seq, "line": self.line}
        return {**data, "statement": self.statement, **self.members}
