"""What if: a past turn goes on from one of its model calls with something changed.

What came before the call is taken from the journal. After it, an action whose equal call was
recorded gives the recorded result, and for any other call the user is asked: nothing is called
twice without a click.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from threading import Event, Lock
from typing import Any

from orchestrator.actions import ActionResult, Call, CallContext, Executor
from orchestrator.agent.agent import Agent
from orchestrator.engine.run.turn_records import read_action_result
from orchestrator.engine.trace.past_steps import PastStep
from orchestrator.engine.trace.past_turns import PastTurn
from orchestrator.errors import (
    DependencyFailed,
    OrchestratorError,
    ResourceNotFound,
    SessionConflict,
    ValidationError,
)
from orchestrator.server.runtime.invoke import run_blocking
from orchestrator.server.workbench.chat import delete_session, stream_events
from orchestrator.server.workbench.lines import to_line
from orchestrator.server.workbench.pages import read_number
from orchestrator.sessions import Record, session_label

_PATIENCE = 3_600.0  # seconds that a question to the user may wait
_MOST_RESULTS = 1_000


@dataclass(slots=True)
class Changes:
    """What is to be otherwise."""

    stage: str
    template: str | None = None
    instruction: str | None = None
    model: str | None = None
    results: Mapping[int, str] = field(default_factory=dict)  # of actions, by their numbers

    @classmethod
    def read(cls, body: Mapping[str, Any], stage: str) -> Changes:
        """What a request asks for.

        Raises:
            ValidationError: It is not understood.
        """
        texts = {name: body.get(name) for name in ("template", "instruction", "model")}
        for name, value in texts.items():
            if value is not None and not isinstance(value, str):
                raise ValidationError(f"{name!r} must be a text")
        given = {} if body.get("results") is None else body["results"]
        if not isinstance(given, dict) or len(given) > _MOST_RESULTS:
            raise ValidationError("'results' must be an object of texts by the actions' numbers")
        if not all(read_number(key) and isinstance(text, str) for key, text in given.items()):
            raise ValidationError("'results' must be an object of texts by the actions' numbers")
        results = {int(key): text for key, text in given.items()}
        return cls(stage, **{name: value or None for name, value in texts.items()}, results=results)

    def check(self, step: PastStep) -> None:
        """Checks that they can be made at a step.

        Raises:
            ValidationError: They would change a collaborator, which has a definition of its own.
        """
        if step.team and not (self.template is self.instruction is self.model is None):
            raise ValidationError(
                f"step {step.index} is of the collaborator {step.team!r}: change its template, "
                "instruction and model where it is defined; here only the results before the call "
                "can be changed"
            )

    def apply_to(self, agent: Agent) -> Agent:
        """The changed agent; raises as `Agent.with_changes` does."""
        return agent.with_changes(
            prompts=None if self.template is None else {self.stage: self.template},
            model=self.model,
            instruction=self.instruction,
        )


def find_model_step(turn: PastTurn, number: int) -> PastStep:
    """A step from which a turn can go on.

    Raises:
        ResourceNotFound: There is no such step.
        ValidationError: It is no model call.
    """
    steps = turn.steps()
    if not 1 <= number <= len(steps):
        raise ResourceNotFound(f"the turn has {len(steps)} steps, and no step {number}")
    step = steps[number - 1]
    if step.kind != "model":
        raise ValidationError(f"step {number} is no model call: a turn goes on from one of these")
    return step


def count_actions(turn: PastTurn, step: PastStep) -> list[tuple[int, PastStep]]:
    """The actions before a step, with their numbers in the turn."""
    actions = [it for it in turn.steps() if it.kind == "action"]
    return [(place, it) for place, it in enumerate(actions, 1) if it.index < step.index]


@dataclass(slots=True)
class _Question:
    answered: Event = field(default_factory=Event)
    decision: Mapping[str, Any] = field(default_factory=dict)


class WhatIf:
    """One run of a changed turn, and the calls that wait for a decision."""

    def __init__(self, turn: PastTurn, step: PastStep, run_all: bool) -> None:
        self._recorded = _record_results(turn, step)
        self._run_all = run_all
        self._waiting: dict[str, _Question] = {}
        self._lock = Lock()
        self._stopped = False
        self._report: Callable[[Mapping[str, Any]], None] = lambda item: None

    def prepare(self, agent: Agent) -> Agent:
        """The agent, whose actions are decided upon here; it has time to wait for the user."""
        asked = agent.with_executors(lambda executor: _DecidedExecutor(self, executor))
        limits = replace(agent.plan.limits, seconds=_PATIENCE, action_seconds=_PATIENCE)
        asked.plan = replace(asked.plan, limits=limits)
        return asked

    def answer(self, id: str, decision: Mapping[str, Any]) -> None:
        """Decides on a call that waits.

        Raises:
            ResourceNotFound: No such call waits.
            ValidationError: That is no decision.
        """
        if decision.get("run") is not True and not isinstance(decision.get("text"), str):
            raise ValidationError("decide with 'run': true, or with the result as 'text'")
        with self._lock:
            question = self._waiting.pop(id, None)
        if question is None:
            raise ResourceNotFound("no such call waits")
        question.decision = decision
        question.answered.set()

    def stop(self) -> None:
        """Has no call wait any more."""
        with self._lock:
            self._stopped = True
            waiting = list(self._waiting.values())
            self._waiting.clear()
        for question in waiting:
            question.answered.set()

    def carry_out(self, executor: Executor, call: Call, context: CallContext) -> ActionResult:
        """The recorded result of an equal call, or what the user decides."""
        name = call.operation.xml_name
        agent = context.agent["name"]
        if (recorded := self._take_recorded(agent, name, call.arguments)) is not None:
            return recorded
        if self._run_all:
            return executor.call(call, context)
        decision = self._ask(agent, name, call.arguments)
        if decision.get("run") is True:
            return executor.call(call, context)
        if "text" in decision:
            return ActionResult(decision["text"])
        raise DependencyFailed(f"nobody decided what {name!r} gives", resource=name)

    def _take_recorded(
        self, agent: str, name: str, arguments: Mapping[str, Any]
    ) -> ActionResult | None:
        with self._lock:  # collaborators call side by side
            recorded = self._recorded.get(_key(agent, name, arguments))
            result = read_action_result(recorded.pop(0)) if recorded else None
        if result is not None:
            result.notes = (*result.notes, "the recorded result of an equal call")
        return result

    def _ask(self, agent: str, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        question = _Question()
        # The id of a call is its branch's own: collaborators side by side have the same ones.
        id = secrets.token_urlsafe(16)
        with self._lock:
            if self._stopped:
                return {}
            self._waiting[id] = question
        self._report(
            {"type": "asks", "id": id, "agent": agent, "name": name, "arguments": dict(arguments)}
        )
        question.answered.wait(_PATIENCE)
        return question.decision

    async def stream(self, agent: Agent, session: str) -> AsyncGenerator[bytes, None]:
        """The events of the turn as lines, with the questions between them.

        Closing it before its end stops the turn, and deletes the session.
        """
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()

        def report(item: Mapping[str, Any]) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, to_line(item))

        self._report = report

        async def pump() -> None:
            try:
                events = await agent.astart("", session)
                async with aclosing(stream_events(events)) as lines:
                    async for line in lines:
                        await queue.put(line)
            except OrchestratorError as error:
                item = {"type": "error", "message": error.message, "error": type(error).__name__}
                await queue.put(to_line(item))
            finally:
                queue.put_nowait(None)

        task = asyncio.create_task(pump())
        has_ended = False
        try:
            yield to_line({"type": "forked", "session": session})
            while (line := await queue.get()) is not None:
                yield line
            has_ended = True
        finally:
            self.stop()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            if not has_ended:  # half a run is nothing to go on from
                label = session_label(agent.plan.owner, session)
                with suppress(SessionConflict):
                    await run_blocking(delete_session, agent.sessions, label)


class _DecidedExecutor:
    def __init__(self, run: WhatIf, executor: Executor) -> None:
        self._run = run
        self._executor = executor

    def call(self, call: Call, context: CallContext) -> ActionResult:
        return self._run.carry_out(self._executor, call, context)


def _record_results(turn: PastTurn, step: PastStep) -> dict[str, list[Record]]:
    """The records of later calls; of a failed one nobody knows what another would give."""
    found: dict[str, list[Record]] = {}
    for one in turn.steps():
        if one.kind == "action" and one.index > step.index and one.state in ("", "REPROMPT"):
            if agent := one.agent:  # else nobody knows what it was called with
                found.setdefault(_key(agent, one.name, one.arguments), []).append(one.record)
    return found


def _key(agent: str, name: str, arguments: Mapping[str, Any]) -> str:
    return json.dumps([agent, name, dict(arguments)], sort_keys=True, default=str)
