"""A script as the orchestration of a turn: each of its steps done by the turn's own effects.

A model call is one of the turn's, a function is an action, Python runs in the code interpreter, and
a breakpoint, or a question to the user, returns control. So the journal has all of it: a script
goes on after a pause or a crash by being run again, and sent what the journal has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.actions.code_interpreter.operation import code_operation
from orchestrator.custom.python_loop import ModelAnswer
from orchestrator.custom.request import ConverseRequest, NotConverse, plain_content, read_messages
from orchestrator.custom.work import ToolResult, Work
from orchestrator.effects import Answer, Effect, Orchestrate, Result
from orchestrator.errors import FlowError, LimitExceeded, OrchestratorError
from orchestrator.flows.code import code_value, wrapped
from orchestrator.flows.functions import FUNCTIONS, function_specs
from orchestrator.flows.pausing import BREAKPOINT, PAUSING, USER
from orchestrator.flows.steps import (
    Ask,
    AskUser,
    Call,
    Chance,
    Code,
    Event,
    Known,
    Outcome,
    Pause,
    Place,
    Program,
    Step,
)
from orchestrator.message import clean

if TYPE_CHECKING:
    from orchestrator.turn import Turn

__all__ = ["FlowOrchestration", "Listener"]

_CODE = code_operation().tool_use_name


@dataclass(slots=True)
class Listener:
    """What a run tells of itself while it goes.

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


class FlowOrchestration:
    """A program as an orchestration. Serves many turns at once.

    Attributes:
        name: The script's file or language, for errors.
        program: The program.
    """

    def __init__(
        self,
        program: Program,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        arguments: Mapping[str, Any] | str | None = None,
        listener: Listener | None = None,
    ) -> None:
        """Takes the program.

        Args:
            program: What to run.
            functions: Functions that it may call by name.
            arguments: Its arguments; by default the user's input is its `question`, for PPE its
                one text, and prompt session attributes are there by their names.
            listener: Told of what happens, of one run.
        """
        self.program = program
        self.name = program.file or program.language
        self._specs = function_specs(functions or {})
        self._arguments = arguments
        self._listener = listener

    def __repr__(self) -> str:
        return f"FlowOrchestration({self.name!r})"

    def run(self, turn: Turn) -> Generator[Effect, Any, Result]:
        """The turn; see `Orchestration.run`.

        Raises:
            FlowError: The script is wrong, or something that it asked for failed.
        """
        return (yield from _Run(self, turn).run())

    def arguments(self, turn: Turn) -> Mapping[str, Any] | str:
        """What the script is given."""
        if self._arguments is not None:
            return self._arguments
        return {**turn.prompt_attributes, "question": turn.question}


class _Run:
    """One run of a script in one turn."""

    def __init__(self, flow: FlowOrchestration, turn: Turn) -> None:
        self._flow = flow
        self._turn = turn
        self._work = Work(turn, flow.name)
        self._listener = flow._listener or Listener()
        self._uses = 0
        tools = {spec["toolSpec"]["name"]: spec for spec in self._work.tools if "toolSpec" in spec}
        hidden = tuple(f"{group}__" for group in (FUNCTIONS, PAUSING))
        self._actions = {
            name: spec
            for name, spec in tools.items()
            if not name.startswith(hidden) and name != _CODE
        }
        self._known = Known({**self._actions, **flow._specs})

    def run(self) -> Generator[Effect, Any, Result]:
        flow = self._flow
        self._listener.begin()
        running = flow.program.run(flow.arguments(self._turn), self._known)
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
            self._listener.hear(step)
            return None
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
            raise self._failed(step.place, error.message) from error

    def _failed(self, place: Place, what: str) -> FlowError:
        return FlowError(
            what,
            file=self._flow.program.file,
            line=place.line,
            column=place.column,
            statement=place.statement,
        )

    def _chance(self) -> Generator[Effect, Any, int]:
        def drawn(_: object) -> dict[str, Any]:
            import secrets

            return {"event": "CHANCE", "text": str(secrets.randbits(63))}

        record = yield Orchestrate("CHANCE", self._turn.number, drawn)
        return int(record["text"])

    def _ask(self, step: Ask) -> Generator[Effect, Any, ModelAnswer]:
        try:
            messages = read_messages(list(step.messages))
        except NotConverse as error:
            raise self._failed(step.place, f"the messages cannot be sent: {error}") from None
        request = ConverseRequest(
            messages,
            clean(step.system),
            list(step.tools),
            dict(step.inference),
            choices=tuple(step.choices),
            forced=step.forced,
        )
        record = yield from self._work.model(request, live=step.live)
        return ModelAnswer(plain_content(record["content"]), record["stop"], messages)

    def _call(self, step: Call) -> Generator[Effect, Any, Any]:
        known = self._flow._specs
        if step.name in known:
            name = f"{FUNCTIONS}::{step.name}"
            given: dict[str, Any] = {"args": list(step.args), "kwargs": dict(step.kwargs)}
        elif step.name in self._actions:
            name, given = step.name, self._by_name(step)
        else:
            raise self._failed(step.place, self._unknown(step.name))
        result = yield from self._use(name, given)
        if not isinstance(result, ToolResult):
            return result
        if result.error:
            raise self._failed(step.place, f"the call of {step.name!r} failed: {result.text}")
        return json.loads(result.text) if step.name in known else _data(result.text)

    def _by_name(self, step: Call) -> dict[str, Any]:
        """Arguments by name: those by place take the names of the action's parameters, in order."""
        schema = self._actions[step.name]["toolSpec"]["inputSchema"]["json"]
        names = list(schema.get("properties", ()))
        if len(step.args) > len(names):
            raise self._failed(
                step.place,
                f"{step.name!r} takes {len(names)} arguments ({', '.join(names)}), and is given "
                f"{len(step.args)}",
            )
        return {**dict(zip(names, step.args, strict=False)), **step.kwargs}

    def _unknown(self, name: str) -> str:
        from orchestrator.actions.names import did_you_mean

        known = self._known.specs
        return (
            f"there is no function {name!r}{did_you_mean(name, known)}: register it with "
            f"tools={{{name!r}: <a function>}}; there is {', '.join(known) or 'none'}"
        )

    def _code(self, step: Code) -> Generator[Effect, Any, Any]:
        result = yield from self._use(_CODE, {"code": wrapped(step)})
        if not isinstance(result, ToolResult):
            return result
        ended, value = code_value(result.text)
        if not ended:
            last = [line for line in result.text.splitlines() if line.strip()][-1:]
            raise self._failed(step.place, f"the code failed: {''.join(last) or 'no output'}")
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


def _data(text: str) -> Any:
    """An action's result as data, when it is JSON; else its text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
