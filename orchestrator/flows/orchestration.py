"""A script as the orchestration of a turn: each of its steps done by the turn's own effects.

A model call is one of the turn's, a function is an action, Python runs in the code interpreter, and
a breakpoint, or a question to the user, returns control. So the journal has all of it: a script
goes on after a pause or a crash by being run again, and sent what the journal has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.actions import CODE_INTERPRETER, ActionGroup
from orchestrator.actions.code_interpreter.operation import code_operation
from orchestrator.custom.python_loop import ModelAnswer
from orchestrator.custom.request import ConverseRequest, NotConverse, plain_content, read_messages
from orchestrator.custom.work import ToolResult, Work
from orchestrator.effects import Answer, Effect, Orchestrate, Result
from orchestrator.errors import (
    DependencyFailed,
    FlowError,
    LimitExceeded,
    OrchestratorError,
    error_again,
)
from orchestrator.flows.choosing import additional, biases, chosen, forces, tool_of
from orchestrator.flows.code import code_value, wrapped
from orchestrator.flows.functions import functions_group
from orchestrator.flows.pausing import BREAKPOINT, PAUSING, USER, pausing_group
from orchestrator.flows.reach import NoSuchCall, Reach
from orchestrator.flows.steps import (
    Ask,
    AskUser,
    Call,
    Chance,
    Code,
    Event,
    Outcome,
    Pause,
    Place,
    Program,
    Step,
)
from orchestrator.message import clean, to_json

if TYPE_CHECKING:
    from orchestrator.turn import Turn

__all__ = ["FlowOrchestration", "Listener", "request_text"]

_CODE = code_operation().tool_use_name


@dataclass(slots=True)
class Listener:
    """What a run that has no agent around it tells of itself while it goes.

    Attributes:
        tell: Takes each event once, in order, with its number.
        pause: Where the run waits, when it does.
        outcome: How it ended, when it has.
        seen: How many events were told.
    """

    tell: Callable[[int, Event], None] | None = None
    pause: Pause | AskUser | None = None
    outcome: Outcome | None = None
    seen: int = 0
    _count: int = field(default=0, repr=False)

    def begin(self) -> None:
        """The script begins, or is run again from its beginning."""
        self._count = 0

    def hear(self, event: Event) -> None:
        """Takes an event; one that was told before is not told again."""
        self._count += 1
        if self._count > self.seen:
            self.seen = self._count
            if self.tell is not None:
                self.tell(self._count, event)


def request_text(
    arguments: Mapping[str, Any] | str, *, seed: int | None = None, step: bool = False
) -> str:
    """What a script that runs alone is asked: all that its run depends on, for its journal."""
    return to_json({"arguments": arguments, "seed": seed, "step": step})


class FlowOrchestration:
    """A program as an orchestration. Serves many turns at once.

    Attributes:
        name: The script's file or language, for errors.
        program: The program.
        groups: The action groups that it calls, which no model is told of.
        digest: Changes with the program.
    """

    def __init__(
        self,
        program: Program,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        listener: Listener | None = None,
    ) -> None:
        """Takes the program.

        Args:
            program: What to run.
            functions: Functions that it may call by name, besides what the agent has.
            listener: Told of what happens in the one run of a script alone: then the question is
                a `request_text`, and whatever fails is a `FlowError`. In an agent, the user's
                input is the argument `question` (PPE: the one text), and prompt session attributes
                are arguments by their names.
        """
        self.program = program
        self.name = Path(program.file).name if program.file else program.language
        self.digest = program.digest
        self.functions = dict(functions or {})
        self.groups = _groups(self.functions, program)
        self.listener = listener

    def __repr__(self) -> str:
        return f"FlowOrchestration({self.name!r})"

    def run(self, turn: Turn) -> Generator[Effect, Any, Result]:
        """The turn; see `Orchestration.run`.

        Raises:
            FlowError: The script is wrong, or a statement failed.
            LimitExceeded: A budget of the turn is used up.
            DependencyFailed: In an agent: a model or an action failed.
        """
        try:
            return (yield from _Run(self, turn).run())
        except FlowError as error:
            if self.listener is None and isinstance(error.__cause__, DependencyFailed):
                raise _at_fault(error, error.__cause__) from error
            raise


def _at_fault(error: FlowError, cause: DependencyFailed) -> OrchestratorError:
    """What failed a statement, for who uses the agent: to him it is no fault of the script."""
    made = error_again(type(cause).__name__, error.message, "")
    if isinstance(made, DependencyFailed):
        made.resource = cause.resource
    return made


def _groups(functions: Mapping[str, Callable[..., Any]], program: Program) -> list[ActionGroup]:
    groups = [pausing_group()]
    if functions:
        groups.append(functions_group(functions))
    if program.uses_code:
        groups.append(ActionGroup("code", signature=CODE_INTERPRETER))
    return groups


class _Run:
    """One run of a script in one turn."""

    def __init__(self, flow: FlowOrchestration, turn: Turn) -> None:
        self._program = flow.program
        self._turn = turn
        self._work = Work(turn, flow.name)
        self._alone = flow.listener is not None
        self._listener = flow.listener or Listener()
        self._reach = Reach(turn, self._work.tools, flow.functions)
        takes = biases(turn.plan.orchestration.model.model_id)
        self._known = replace(self._reach.known, biases=takes)
        self._uses = self._draws = 0
        self._arguments: Mapping[str, Any] | str
        self._seed: int | None = None
        if self._alone:
            asked = json.loads(turn.question)
            self._arguments, self._seed = asked["arguments"], asked["seed"]
            self._known = replace(self._known, stepping=asked["step"])
        else:
            said = {"question": turn.question, flow.program.text_input: turn.question}
            self._arguments = {**turn.prompt_attributes, **said}

    def run(self) -> Generator[Effect, Any, Result]:
        self._listener.begin()
        # Only the same script goes on with what the journal has.
        yield from self._note(f"SCRIPT {self._program.digest[:16]}", "")
        running = self._program.run(self._arguments, self._known)
        answer: Any = None
        failed: FlowError | None = None
        try:
            while True:
                try:
                    step = running.send(answer) if failed is None else running.throw(failed)
                except StopIteration as stop:
                    return self._ended(stop.value)
                answer, failed = None, None
                try:
                    answer = yield from self._do(step)
                except FlowError as error:  # the script may know what to do
                    failed = error
                if isinstance(answer, Result):
                    return answer
        finally:
            running.close()

    def _ended(self, outcome: Outcome) -> Answer:
        self._listener.outcome = outcome
        output = outcome.output
        text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        return Answer(clean("" if output is None else text))

    def _do(self, step: Step) -> Generator[Effect, Any, Any]:
        if isinstance(step, Event):
            return (yield from self._hear(step))
        if isinstance(step, Chance):
            return (yield from self._chance())
        if isinstance(step, Pause | AskUser):
            return (yield from self._wait(step))
        try:
            if isinstance(step, Ask):
                return (yield from self._ask(step))
            return (yield from (self._call(step) if isinstance(step, Call) else self._code(step)))
        except (FlowError, LimitExceeded):
            raise
        except OrchestratorError as error:
            raise self._failed(step.place, error.message, f"执行失败: {error.message}") from error

    def _failed(self, place: Place, what: str, what_zh: str) -> FlowError:
        return FlowError(
            what,
            file=self._program.file,
            line=place.line,
            column=place.column,
            statement=place.statement,
            message_zh=f"第 {place.line} 行：{what_zh}",
        )

    # What is told

    def _hear(self, event: Event) -> Generator[Effect, Any, None]:
        """Tells the listener; statements and warnings are in the trace, too."""
        self._listener.hear(event)
        place = event.place
        if event.type == "statement_start":
            yield from self._note("STATEMENT", f"line {place.line}: {place.statement}")
        elif event.type == "warning":
            yield from self._note("WARNING", f"line {place.line}: {event.members.get('text', '')}")

    def _note(self, state: str, text: str) -> Generator[Effect, Any, None]:
        told = {"event": "TRACE", "text": "", "trace": clean(text)}
        yield Orchestrate(state, self._turn.number, lambda _: told)

    # What is done

    def _chance(self) -> Generator[Effect, Any, int]:
        if self._seed is not None:
            self._draws += 1
            drawn = hashlib.sha256(f"{self._seed} {self._draws}".encode()).digest()
            return int.from_bytes(drawn[:7])
        record = yield Orchestrate("CHANCE", self._turn.number, _drawn)
        return int(record["text"])

    def _ask(self, step: Ask) -> Generator[Effect, Any, ModelAnswer]:
        try:
            messages = read_messages(list(step.messages))
        except NotConverse as error:
            raise self._failed(
                step.place, f"the messages cannot be sent: {error}", f"消息无法发送: {error}"
            ) from None
        request = ConverseRequest(
            messages,
            clean(step.system),
            list(step.tools),
            dict(step.inference),
            additional(step.bias),
        )
        if step.choices:
            self._hold(request, step)
        live = step.live and (self._alone or (step.last and self._turn.streams))
        record = yield from self._work.model(request, live=live)
        content = plain_content(record["content"])
        if request.tool_choice is not None:
            content = chosen(content, step.separator)
        return ModelAnswer(content, record["stop"], messages)

    def _hold(self, request: ConverseRequest, step: Ask) -> None:
        """Holds the model to a choice, as far as it can be held."""
        choices = clean(list(step.choices))
        if forces(self._turn.plan.orchestration.model.model_id, request.messages):
            tool = tool_of(choices, step.picks)
            request.tools = [tool]
            request.tool_choice = {"tool": {"name": tool["toolSpec"]["name"]}}
        else:
            request.choices, request.picks = tuple(choices), step.picks
            request.separator = clean(step.separator)

    def _call(self, step: Call) -> Generator[Effect, Any, Any]:
        try:
            name, given = self._reach.call(step)
        except NoSuchCall as error:
            raise self._failed(step.place, *error.args) from None
        result = yield from self._use(name, given)
        if not isinstance(result, ToolResult):
            return result
        if result.error:
            raise self._failed(
                step.place,
                f"the call of {step.name!r} failed: {result.text}",
                f"函数 {step.name} 执行失败: {result.text}",
            )
        return self._reach.value(step.name, result.text)

    def _code(self, step: Code) -> Generator[Effect, Any, Any]:
        result = yield from self._use(_CODE, {"code": wrapped(step)})
        if not isinstance(result, ToolResult):
            return result
        ended, value = code_value(result.text)
        if not ended:
            last = [line for line in result.text.splitlines() if line.strip()][-1:]
            why = "".join(last)
            raise self._failed(
                step.place,
                f"the code failed: {why or 'no output'}",
                f"Python 代码执行错误: {why or '没有输出'}",
            )
        return value

    def _wait(self, step: Pause | AskUser) -> Generator[Effect, Any, Any]:
        self._listener.pause = step
        if isinstance(step, Pause):
            name, given = BREAKPOINT, {"line": step.place.line, "statement": step.place.statement}
        else:
            name, given = USER, {"text": step.text}
        result = yield from self._use(f"{PAUSING}::{name}", given)
        if isinstance(result, ToolResult):
            self._listener.pause = None
            return result.text
        return result

    def _use(
        self, name: str, given: Mapping[str, Any]
    ) -> Generator[Effect, Any, ToolResult | Result]:
        self._uses += 1
        use = {"toolUseId": f"flow-{self._uses}", "name": name, "input": clean(dict(given))}
        done = yield from self._work.call([use])
        if not isinstance(done, list):
            return done
        (result,) = done
        return result


def _drawn(_: object) -> dict[str, Any]:
    import secrets

    return {"event": "CHANCE", "text": str(secrets.randbits(56))}
