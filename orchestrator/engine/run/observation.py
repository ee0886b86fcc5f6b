"""Whoever observes runs while they are driven: traces and metrics of OpenTelemetry, and a server's.

An observer makes a `Watch` of a turn. The driver gets a backend around its own one, which tells the
watch of each model call, action, search and collaborator, and carries it out in the context of the
`Step` that this gives. What nobody observes is driven as if nothing of this were there.

An observer that raises changes nothing of a turn: it is logged, once a turn, and the turn goes on.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from orchestrator.actions.base import ActionResult, Call, CallContext
from orchestrator.engine.effects import Branch, CallModel, Retrieve
from orchestrator.engine.run.branches import BranchRun
from orchestrator.engine.run.invocation import Run
from orchestrator.engine.run.iterations import IterationRun
from orchestrator.engine.run.outcomes import (
    StreamChecked,
    StreamedCall,
    retrieve,
    run_remote_branch,
)
from orchestrator.models.base import Model, ModelReply
from orchestrator.sessions import Record
from orchestrator.support.logs import get_logger

if TYPE_CHECKING:
    from orchestrator.engine.run.driver import Backend, Emit, Pending

_log = get_logger("orchestrator.telemetry")

T = TypeVar("T")


class Step:
    """One piece of work, observed; each method may be left as it is.

    Attributes:
        has_context: Whether work is carried out in a context of the step's own: `attach` counts.
    """

    has_context = False

    def attach(self) -> Any:
        """Makes its context that of the calling thread or task, until `detach`."""

    def detach(self, token: Any) -> None:
        """Undoes `attach`, which gave the token."""

    def note_chunk(self) -> None:
        """A model's reply has begun to stream."""

    def end(self, record: Record | None, error: BaseException | None) -> None:
        """It has ended: with its journal record, or with what it raised."""


class Watch(Step):
    """A turn, observed: of an agent, or of a collaborator."""

    def begin_model(self, run: Run, effect: CallModel) -> Step:
        """A model is asked."""
        return Step()

    def begin_action(self, run: Run, call: Call) -> Step:
        """A call is carried out."""
        return Step()

    def begin_retrieval(self, run: Run, effect: Retrieve) -> Step:
        """A knowledge base is searched."""
        return Step()

    def begin_remote(self, run: Run, branch: Branch) -> Step:
        """A remote collaborator is asked."""
        return Step()

    def begin_branch(self, run: BranchRun) -> Watch:
        """A collaborator begins its turn."""
        return Watch()

    def end_turn(self, run: Run, error: BaseException | None) -> None:
        """The turn has ended, with `run.result`; or was stopped, with what it raised."""


class Observer(Protocol):
    """Makes a watch of each turn."""

    def begin_turn(self, run: Run) -> Watch:
        """A turn begins, or goes on."""


def watch_drive(
    drive: Callable[..., Coroutine[Any, Any, None]],
    run: Run,
    backend: Backend,
    emit: Emit | None,
    listen: bool,
) -> Coroutine[Any, Any, None]:
    """Drives a run, observed by whoever observes it."""
    if isinstance(backend, _ObservedBackend):
        if isinstance(run, IterationRun):  # a part of the turn that is observed
            return drive(run, backend, emit, listen)
        branch, watch = cast("BranchRun", run), backend.watch
        return _drive(drive, run, backend.inner, emit, listen, lambda: watch.begin_branch(branch))
    observers = _find_observers(run)
    if not observers:
        return drive(run, backend, emit, listen)
    return _drive(drive, run, backend, emit, listen, lambda: _begin_turn(observers, run))


def _find_observers(run: Run) -> list[Observer]:
    found: list[Observer] = list(run.sessions.observers)
    if "opentelemetry.trace" in sys.modules:
        telemetry = _Guard().call(None, _find_telemetry)
        if telemetry is not None:
            found.append(telemetry)
    return found


def _find_telemetry() -> Observer | None:
    from orchestrator.engine.telemetry.spans import find_telemetry

    return find_telemetry()


def _begin_turn(observers: Sequence[Observer], run: Run) -> Watch:
    guard = _Guard()
    return _Watches(guard, [guard.call(Watch(), one.begin_turn, run) for one in observers])


class _Guard:
    """Calls what observes a turn: an error of it is logged once, and is none of the turn's.

    An action that has taken effect is in the journal whatever becomes of its span.
    """

    _has_warned = False

    def call(self, otherwise: T, function: Callable[..., T], *arguments: Any) -> T:
        """What a function gives; where it raises, `otherwise`."""
        try:
            return function(*arguments)
        except Exception as error:
            if not self._has_warned:
                self._has_warned = True
                # Only its kind: its text may hold payloads.
                name = getattr(function, "__qualname__", type(function).__name__)
                _log.warning("%s, which observes a turn, raised %s", name, type(error).__name__)
            return otherwise


async def _drive(
    drive: Callable[..., Coroutine[Any, Any, None]],
    run: Run,
    backend: Backend,
    emit: Emit | None,
    listen: bool,
    begin: Callable[[], Watch],
) -> None:
    watch = begin()
    try:
        observed: Any = _ObservedBackend(backend, watch)
        work = drive(run, observed, emit, listen)
        await _within(watch, work)
    except BaseException as error:
        watch.end_turn(run, error)
        raise
    watch.end_turn(run, None)


class _ObservedBackend:
    """See `Backend`: another one, whose work is observed."""

    def __init__(self, inner: Backend, watch: Watch) -> None:
        self.inner = inner
        self.watch = watch
        self.in_time = inner.in_time
        self.write = inner.write
        self.run_side_by_side = inner.run_side_by_side

    def complete(self, run: Run, effect: CallModel) -> Pending[Record]:
        step = self.watch.begin_model(run, effect)
        try:
            record = _call_within(step, self.inner.complete, run, effect)
        except BaseException as error:
            step.end(None, error)
            raise
        if isinstance(record, dict):
            step.end(record, None)
            return record
        return _finish(step, record)

    def stream(self, run: Run, call: StreamedCall, emit: Emit) -> Coroutine[Any, Any, Record]:
        return self._stream(run, call, emit)

    async def _stream(self, run: Run, call: StreamedCall, emit: Emit) -> Record:
        step = self.watch.begin_model(run, call.effect)
        timed: Any = _TimedCall(call, step)
        return await _finish(step, self.inner.stream(run, timed, emit))

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        work = self.inner.run_blocking(function, *arguments)
        if function is retrieve:
            step = self.watch.begin_retrieval(*arguments)
        elif function is run_remote_branch:
            step = self.watch.begin_remote(*arguments)
        else:
            return await work
        return await _finish(step, work)

    def perform(self, run: Run, call: Call, context: CallContext) -> Pending[Record]:
        actions = _Actions(run, self.watch)
        try:
            record = self.inner.perform(actions.run, call, context)
        except BaseException as error:
            actions.stop(error)
            raise
        if isinstance(record, dict):
            actions.end(call, record)
            return record
        return self._perform_later(actions, call, record)

    async def _perform_later(
        self, actions: _Actions, call: Call, work: Coroutine[Any, Any, Record]
    ) -> Record:
        try:
            record = await work
        except BaseException as error:
            actions.stop(error)
            raise
        actions.end(call, record)
        return record

    async def perform_all(
        self,
        run: Run,
        calls: Sequence[Call],
        context: CallContext,
        take: Callable[[Record], Awaitable[None]],
    ) -> None:
        actions, by_id = _Actions(run, self.watch), {call.id: call for call in calls}

        async def take_observed(record: Record) -> None:
            actions.end(by_id[record["id"]], record)
            await take(record)

        try:
            await self.inner.perform_all(actions.run, calls, context, take_observed)
        except BaseException as error:
            actions.stop(error)
            raise


class _Actions:
    """Calls that are carried out, each in the context of a step of its own.

    Attributes:
        run: Stands for the run where calls are carried out: its executors are observed.
    """

    def __init__(self, run: Run, watch: Watch) -> None:
        self._run, self._watch = run, watch
        self._steps: dict[str, Step] = {}
        self.run: Any = _Beside(run, plan=_Beside(run.plan, catalog=self))

    def executor(self, operation: Any) -> Any:
        executor = self._run.plan.catalog.executor(operation)
        kind = _AsyncExecutor if hasattr(executor, "acall") else _Executor
        return kind(executor, self)

    def begin(self, call: Call) -> Step:
        step = self._steps[call.id] = self._watch.begin_action(self._run, call)
        return step

    def end(self, call: Call, record: Record) -> None:
        """Ends a call's step, which may not have begun when no thread was free for it."""
        step = self._steps.pop(call.id, None) or self._watch.begin_action(self._run, call)
        step.end(record, self._run.causes.get(call.id))

    def stop(self, error: BaseException) -> None:
        while self._steps:
            self._steps.popitem()[1].end(None, error)


class _Beside:
    """An object with some attributes in the place of its own."""

    def __init__(self, inner: Any, **attributes: Any) -> None:
        self._inner = inner
        vars(self).update(attributes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Executor:
    def __init__(self, inner: Any, actions: _Actions) -> None:
        self._inner, self._actions = inner, actions

    def call(self, call: Call, context: CallContext) -> ActionResult:
        result: ActionResult = _call_within(
            self._actions.begin(call), self._inner.call, call, context
        )
        return result


class _AsyncExecutor(_Executor):
    async def acall(self, call: Call, context: CallContext) -> ActionResult:
        return await _within(self._actions.begin(call), self._inner.acall(call, context))


class _TimedCall:
    """A streamed call that tells a step of its first chunk."""

    def __init__(self, call: StreamedCall, step: Step) -> None:
        self._call, self._step = call, step
        self._has_begun = False
        self.model, self.request, self.may_block = call.model, call.request, call.may_block
        self.rest, self.record, self.feed = call.rest, call.record, None

    def take(self, item: str | ModelReply) -> Sequence[str | StreamChecked]:
        if not self._has_begun:
            self._has_begun = True
            self._step.note_chunk()
        return self._call.take(item)


async def _finish(step: Step, work: Coroutine[Any, Any, T]) -> T:
    try:
        result = await _within(step, work)
    except BaseException as error:
        step.end(None, error)
        raise
    step.end(cast("Record", result), None)
    return result


def _call_within(step: Step, function: Callable[..., T], *arguments: Any) -> T:
    """Calls a function in a step's context, if it has one of its own."""
    if not step.has_context:
        return function(*arguments)
    token = step.attach()
    try:
        return function(*arguments)
    finally:
        step.detach(token)


def _within(step: Step, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
    """Has work done in a step's context, if it has one of its own."""
    # Else every piece of a stream would take a step more for nothing.
    return _work_within(step, work) if step.has_context else work


@types.coroutine
def _work_within(step: Step, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Does work in a step's context, which is attached only while the work runs.

    Between two pieces of it others run in this thread: what takes the updates of a turn, for one,
    which must not find itself in the turn's context.
    """
    go_on: Callable[[Any], Any] = work.send
    given: Any = None
    while True:
        token = step.attach()
        try:
            waits_for = go_on(given)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            step.detach(token)
        try:
            given = yield waits_for
            go_on = work.send
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:
            go_on, given = work.throw, error


# Stands for the token of a step whose context could not be made that of the thread.
_UNATTACHED = object()


class _Steps(Step):
    """One step of each observer; what one of them raises keeps nobody from anything."""

    def __init__(self, guard: _Guard, steps: Sequence[Step]) -> None:
        self._guard, self._steps = guard, steps
        self.has_context = any(one.has_context for one in steps)

    def attach(self) -> Any:
        return [self._guard.call(_UNATTACHED, one.attach) for one in self._steps]

    def detach(self, token: Any) -> None:
        for one, own in reversed(list(zip(self._steps, token, strict=True))):
            if own is not _UNATTACHED:
                self._guard.call(None, one.detach, own)

    def note_chunk(self) -> None:
        for one in self._steps:
            self._guard.call(None, one.note_chunk)

    def end(self, record: Record | None, error: BaseException | None) -> None:
        for one in self._steps:
            self._guard.call(None, one.end, record, error)


class _Watches(_Steps, Watch):
    """One watch of each observer."""

    def __init__(self, guard: _Guard, watches: Sequence[Watch]) -> None:
        super().__init__(guard, watches)
        self._watches = watches

    def begin_model(self, run: Run, effect: CallModel) -> Step:
        return self._begin([one.begin_model for one in self._watches], run, effect)

    def begin_action(self, run: Run, call: Call) -> Step:
        return self._begin([one.begin_action for one in self._watches], run, call)

    def begin_retrieval(self, run: Run, effect: Retrieve) -> Step:
        return self._begin([one.begin_retrieval for one in self._watches], run, effect)

    def begin_remote(self, run: Run, branch: Branch) -> Step:
        return self._begin([one.begin_remote for one in self._watches], run, branch)

    def _begin(self, begins: Iterable[Callable[..., Step]], *of: Any) -> Step:
        return _Steps(self._guard, [self._guard.call(Step(), begin, *of) for begin in begins])

    def begin_branch(self, run: BranchRun) -> Watch:
        begins = [one.begin_branch for one in self._watches]
        return _Watches(self._guard, [self._guard.call(Watch(), it, run) for it in begins])

    def end_turn(self, run: Run, error: BaseException | None) -> None:
        for one in self._watches:
            self._guard.call(None, one.end_turn, run, error)


def begin_step(begin: Callable[..., Step | None], *arguments: Any) -> Step | None:
    """Begins a step outside of turns; nothing that its observer raises comes out of it."""
    guard = _Guard()
    step = guard.call(None, begin, *arguments)
    return None if step is None else _Steps(guard, [step])


_PROVIDERS = {
    "orchestrator.models.bedrock": "aws.bedrock",
    "orchestrator.models.openai": "openai",
    "orchestrator.models.local": "local",
}


def get_provider(model: Model) -> str:
    """Who provides a model: `aws.bedrock`, `openai`, `local` or `other`; no other words."""
    module = type(model).__module__
    found = (name for start, name in _PROVIDERS.items() if f"{module}.".startswith(f"{start}."))
    return next(found, "other")


def describe_outcome(run: Run, error: BaseException | None) -> str:
    """How a turn ended, in one of a few words."""
    from orchestrator.engine.results import UNDECIDED, Answer, ControlReturn, Refusal

    if error is not None:
        if isinstance(error, Exception):
            return "failure"
        return "left" if run.left or run.sessions.leaving else "cancelled"
    if isinstance(run.result, Answer):
        return "answer"
    if isinstance(run.result, Refusal):
        return "refusal"
    if isinstance(run.result, ControlReturn):
        return UNDECIDED if run.result.undecided else "return_control"
    return "failure"
