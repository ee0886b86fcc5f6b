"""Carries out a script's steps by the effects of the turn that it orchestrates."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from orchestrator.actions import ActionGroup, ReturnControl
from orchestrator.actions.code_interpreter import code_operation
from orchestrator.engine.effects import Effect
from orchestrator.engine.results import Result
from orchestrator.errors import FlowError, LimitExceeded, OrchestratorError
from orchestrator.flows.call_resolver import CallResolver, NoSuchCall
from orchestrator.flows.choice_tool import (
    build_bias_fields,
    build_choice_tool,
    can_force_tool,
    extract_choice,
)
from orchestrator.flows.code import (
    find_failed_place,
    find_last_line,
    parse_code_result,
    wrap_code,
)
from orchestrator.flows.custom.converse_request import (
    ContractError,
    ConverseRequest,
    plain_content,
    read_messages,
)
from orchestrator.flows.custom.operations import ToolResult, Work
from orchestrator.flows.custom.python_loop import ModelAnswer
from orchestrator.flows.files import UnreadableFile, read_below
from orchestrator.flows.listener import Listener
from orchestrator.flows.state import read_recorded, read_recorded_json
from orchestrator.flows.steps import (
    Ask,
    AskUser,
    Call,
    Code,
    Event,
    FileMissing,
    Parallel,
    Pause,
    Place,
    RandomNumber,
    ReadFile,
    Step,
)
from orchestrator.flows.tree import ScriptError
from orchestrator.message import clean

if TYPE_CHECKING:
    from orchestrator.engine.state import Turn


_CODE = code_operation().tool_use_name
_PAUSING = "flowcontrol"
_BREAKPOINT = "breakpoint"  # answered with `continue` or `step`
_USER = "user"  # answered with the user's text


def build_pause_group() -> ActionGroup:
    """Where scripts wait for their caller: an action group whose calls return control."""
    return ActionGroup(
        _PAUSING,
        executor=ReturnControl(),
        functions=[
            {
                "name": _BREAKPOINT,
                "description": "The script waits at a breakpoint: answer 'continue' or 'step'.",
                "parameters": {"line": {"type": "integer"}, "statement": {"type": "string"}},
            },
            {
                "name": _USER,
                "description": "The script waits for the user's text.",
                "parameters": {"text": {"type": "string"}},
            },
        ],
    )


class _File(TypedDict):
    text: str
    why: str  # why it cannot be read; empty when it was
    why_zh: str


class StepRunner:
    """Carries out the steps of one run of a script, or of one iteration of a loop in it.

    Attributes:
        turn: The turn, or the iteration's part of it.
        work: How models and tools are used in it.
        listener: Told of events.
        iteration: Which iteration it is, and of which ones around it, the outermost first; from 1.
        alone: Whether the script has no agent around it.
        loops: How many loops have run their iterations side by side.
    """

    def __init__(
        self,
        turn: Turn,
        work: Work,
        reach: CallResolver,
        listener: Listener,
        file: str | None,
        *,
        seed: int | None = None,
        alone: bool = False,
        iteration: tuple[int, ...] = (),
        stepped: Mapping[str, Any] | None = None,
        folders: Sequence[Path] = (),
    ) -> None:
        # `reach` is what the script may call, `file` is for errors, and `seed` makes what is drawn
        # the same in every run. `stepped` has the variables of a script that waits before each of
        # its statements, and does not know how to; it is `None` for all others. `folders` are those
        # whose files it may read.
        self.turn = turn
        self._folders = folders
        self.work = work
        self.listener = listener
        self.iteration = iteration
        self.alone = alone
        self.loops = 0
        self._reach = reach
        self._file = file
        self._seed = seed
        self._stepping, self._variables = stepped is not None, dict(stepped or {})
        self._value: Any = None
        self._uses = self._draws = self._times = 0
        self._over = False

    def for_iteration(self, turn: Turn, number: int) -> StepRunner:
        """What carries out an iteration of a loop, the `number`th."""
        return StepRunner(
            turn,
            Work(turn, self.work.name, self.work),
            self._reach,
            self.listener,
            self._file,
            seed=self._seed,
            alone=self.alone,
            iteration=(*self.iteration, number),
            folders=self._folders,
        )

    @property
    def iteration_members(self) -> Mapping[str, Any]:
        """What events say besides: the iteration that they are of."""
        return {"iteration": list(self.iteration)} if self.iteration else {}

    def run_steps(self, running: Generator[Step, Any, Any]) -> Generator[Effect, Any, Any]:
        """Carries out all steps; what they return, or the result that ends the turn before.

        Raises:
            FlowError: The script is wrong, or a statement failed.
            LimitExceeded: A budget of the turn is used up.
        """
        answer: Any = None
        failed: FlowError | None = None
        try:
            while True:
                try:
                    step = running.send(answer) if failed is None else running.throw(failed)
                except StopIteration as stop:
                    return stop.value
                answer, failed = None, None
                try:
                    self._count_values(step)
                    answer = yield from self._watch_failures(self._run_step(step))
                except FlowError as error:
                    if self._over:
                        raise
                    failed = error  # the script may know what to do
                if isinstance(answer, Result):
                    return answer
        finally:
            running.close()

    def _watch_failures(self, doing: Generator[Effect, Any, Any]) -> Generator[Effect, Any, Any]:
        """Notes that an effect failed: no journal has an outcome of it, so the turn is over."""
        outcome: Any = None
        while True:
            try:
                effect = doing.send(outcome)
            except StopIteration as stop:
                return stop.value
            try:
                outcome = yield effect
            except OrchestratorError as error:
                self._over = True
                with suppress(StopIteration):
                    doing.throw(error)
                raise

    def _count_values(self, step: Step) -> None:
        """Counts what a step has to encode, before it is done."""
        if values := _get_values(step):
            try:
                self._reach.known.work.measure(values)
            except ScriptError as wrong:
                place = step.place if not isinstance(step, RandomNumber) else Place(0)
                raise self.build_error(place, wrong.message, wrong.message_zh) from None

    def _run_step(self, step: Step) -> Generator[Effect, Any, Any]:
        if isinstance(step, Event):
            return (yield from self._report_event(step))
        if isinstance(step, RandomNumber):
            return (yield from self._draw_number())
        if isinstance(step, ReadFile):
            return (yield from self._read_file(step))
        if isinstance(step, Pause | AskUser):
            return (yield from self._wait(step))
        if isinstance(step, Parallel):
            from orchestrator.flows.parallel import run_in_parallel

            return (yield from run_in_parallel(self, step))
        try:
            if isinstance(step, Ask):
                return (yield from self._ask(step))
            return (yield from (self._call(step) if isinstance(step, Call) else self._code(step)))
        except (FlowError, LimitExceeded):
            raise
        except OrchestratorError as error:
            raise self.build_error(
                step.place, error.message, f"执行失败: {error.message}"
            ) from error

    def build_error(self, place: Place, what: str, what_zh: str) -> FlowError:
        """The error of a statement that failed."""
        return place.error(what, what_zh, self._file)

    # Events

    def _report_event(self, event: Event) -> Generator[Effect, Any, Any]:
        """Tells the listener; statements and warnings are in the trace, too."""
        if self._stepping:
            result = yield from self._wait_before_step(event)
            if isinstance(result, Result):
                return result
        place = event.place
        where = f"line {place.line}"
        if self.iteration:
            where = f"item {'.'.join(map(str, self.iteration))}, {where}"
            event = replace(event, members={**event.members, **self.iteration_members})
        self.listener.handle_event(event, self.turn.start.path)
        if event.type == "statement_start":
            yield from self._note_work("STATEMENT", f"{where}: {place.statement}")
        elif event.type == "warning":
            yield from self.note("WARNING", f"{where}: {event.members.get('text', '')}")
        return None

    def _note_work(self, state: str, text: str = "") -> Generator[Effect, Any, None]:
        """Notes a statement, or a wait, and how long the run has worked, for when it goes on."""
        worked = self._reach.known.worked

        def build_record(_: object) -> dict[str, Any]:
            worked.counts = True
            seconds = f"{worked.seconds:.6f}" if worked.seconds else ""
            return {"event": "TRACE", "text": seconds, "trace": clean(text)}

        worked.counts, self._times = False, worked.times
        record = yield from self.turn.orchestrate(state, build_record)
        if not worked.counts and record["text"]:
            worked.seconds = read_recorded(_read_seconds, record["text"])

    def _wait_before_step(self, event: Event) -> Generator[Effect, Any, Any]:
        """Waits before a statement, with the variables that events have reported so far."""
        place, members = event.place, event.members
        if event.type == "variable_set":
            self._value = self._variables[members["name"]] = members["value"]
        elif event.type == "statement_start":
            self.listener.handle_event(Event("breakpoint", place), self.turn.start.path)
            mode = yield from self._wait(Pause(place, self._value, dict(self._variables)))
            if isinstance(mode, Result):
                return mode
            self._stepping = mode == "step"
        return None

    def note(self, state: str, text: str) -> Generator[Effect, Any, None]:
        """Notes something for the trace."""
        record = {"event": "TRACE", "text": "", "trace": clean(text)}
        yield from self.turn.orchestrate(state, lambda _: record)

    # What is done

    def _draw_number(self) -> Generator[Effect, Any, int]:
        if self._seed is not None:
            self._draws += 1
            drawn = hashlib.sha256(f"{self._seed} {self._draws}".encode()).digest()
            return int.from_bytes(drawn[:7])
        record = yield from self.turn.orchestrate("CHANCE", _build_draw_record)
        return read_recorded(int, record["text"])

    def _read_file(self, step: ReadFile) -> Generator[Effect, Any, str | FileMissing]:
        """A file's text; the journal has it, so a run that goes on reads what it read before."""

        def build_record(_: object) -> dict[str, Any]:
            known: _File = {"text": "", "why": "", "why_zh": ""}
            try:
                known["text"] = read_below(step.path, self._folders)
            except UnreadableFile as error:
                known["why"], known["why_zh"] = error.args
            return {"event": "FILE", "text": json.dumps(known)}

        record = yield from self.turn.orchestrate("FILE", build_record)
        known = read_recorded_json(record["text"], _File)
        return FileMissing(known["why"], known["why_zh"]) if known["why"] else str(known["text"])

    def _ask(self, step: Ask) -> Generator[Effect, Any, ModelAnswer]:
        try:
            messages = read_messages(list(step.messages))
        except ContractError as error:
            raise self.build_error(
                step.place, f"the messages cannot be sent: {error}", f"消息无法发送: {error}"
            ) from None
        request = ConverseRequest(
            messages,
            clean(step.system),
            list(step.tools),
            dict(step.inference),
            build_bias_fields(step.bias),
        )
        if step.choices:
            self._force_choice(request, step)
        live = step.live and (self.alone or (step.last and self.turn.streams))
        with self._attach_parser(step, live):
            record = yield from self.work.model(request, live=live)
        content = plain_content(record["content"])
        if request.tool_choice is not None:
            content = extract_choice(content, step.separator)
        return ModelAnswer(content, record["stop"], messages)

    def _attach_parser(self, step: Ask, live: bool) -> AbstractContextManager[None]:
        """Parses a reply while it streams, where the script asks for that."""
        if step.pieces is None or not (live and self.alone):
            return nullcontext()
        return self.listener.attach_parser(
            step.pieces(), self.turn.start.path, self.iteration_members
        )

    def _force_choice(self, request: ConverseRequest, step: Ask) -> None:
        """Holds the model to a choice, as far as it can be held."""
        choices = clean(list(step.choices))
        if can_force_tool(self.turn.plan.orchestration.model.model_id, request.messages):
            tool = build_choice_tool(choices, step.picks)
            request.tools = [tool]
            request.tool_choice = {"tool": {"name": tool["toolSpec"]["name"]}}
        else:
            request.choices, request.picks = tuple(choices), step.picks
            request.separator = clean(step.separator)

    def _call(self, step: Call) -> Generator[Effect, Any, Any]:
        try:
            name, input = self._reach.resolve(step)
        except NoSuchCall as error:
            raise self.build_error(step.place, *error.args) from None
        result = yield from self._call_tool(name, input)
        if not isinstance(result, ToolResult):
            return result
        if result.error:
            raise self.build_error(
                step.place,
                f"the call of {step.name!r} failed: {result.text}",
                f"函数 {step.name} 执行失败: {result.text}",
            )
        return self._reach.parse_result(step.name, result.text)

    def _code(self, step: Code) -> Generator[Effect, Any, Any]:
        result = yield from self._call_tool(_CODE, {"code": wrap_code(step)})
        if not isinstance(result, ToolResult):
            return result
        ended, value = parse_code_result(result.text)
        if not ended:
            why = find_last_line(result.text)
            raise self.build_error(
                find_failed_place(step, result.text),
                f"the code failed: {why or 'no output'}",
                f"Python 代码执行错误: {why or '没有输出'}",
            )
        return value

    def _wait(self, step: Pause | AskUser) -> Generator[Effect, Any, Any]:
        if self._times != self._reach.known.worked.times:
            yield from self._note_work("WAITING")
        self.listener.pause = step
        if isinstance(step, Pause):
            name, input = _BREAKPOINT, {"line": step.place.line, "statement": step.place.statement}
        else:
            name, input = _USER, {"text": step.text}
        result = yield from self._call_tool(f"{_PAUSING}::{name}", input)
        if isinstance(result, ToolResult):
            self.listener.pause = None
            return result.text
        return result

    def _call_tool(
        self, name: str, input: Mapping[str, Any]
    ) -> Generator[Effect, Any, ToolResult | Result]:
        self._uses += 1
        use = {"toolUseId": f"flow-{self._uses}", "name": name, "input": clean(dict(input))}
        done = yield from self.work.call([use])
        return done[0] if isinstance(done, list) else done


def _read_seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < math.inf:
        raise ValueError("it is no time")
    return seconds


def _get_values(step: Step) -> Any:
    """What a step has to encode."""
    if isinstance(step, Event):
        return step.members
    if isinstance(step, Ask):
        return [step.system, *step.messages]
    if isinstance(step, Call):
        return [step.args, step.kwargs]
    return step.variables if isinstance(step, Code | Pause | AskUser) else None


def _build_draw_record(_: object) -> dict[str, Any]:
    return {"event": "CHANCE", "text": str(secrets.randbits(56))}
