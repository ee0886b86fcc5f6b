"""A script as the orchestration of a turn: each of its steps done by the turn's own effects.

A model call is one of the turn's, a function is an action, Python runs in the code interpreter, and
a breakpoint, or a question to the user, returns control. So the journal has all of it: a script
goes on after a pause or a crash by being run again, and sent what the journal has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from orchestrator.actions import CODE_INTERPRETER, ActionGroup
from orchestrator.engine.effects import Effect
from orchestrator.engine.results import Answer, Result
from orchestrator.errors import (
    DependencyFailed,
    FlowError,
    OrchestratorError,
    ValidationError,
    rebuild_error,
)
from orchestrator.flows.call_resolver import FUNCTIONS, CallResolver, Functions
from orchestrator.flows.choice_tool import can_bias
from orchestrator.flows.custom.operations import Work
from orchestrator.flows.listener import Listener
from orchestrator.flows.state import read_recorded_json
from orchestrator.flows.step_runner import StepRunner, build_pause_group
from orchestrator.flows.steps import Outcome, Program
from orchestrator.message import clean, text_of, to_json

if TYPE_CHECKING:
    from orchestrator.engine.state import Turn


class _Request(TypedDict):
    arguments: Any
    seed: Any
    step: bool
    parallel: NotRequired[bool]


def request_text(
    arguments: Mapping[str, Any] | str,
    *,
    seed: int | None = None,
    step: bool = False,
    parallel: int | None = None,
) -> str:
    """What a script that runs alone is asked: all that its run depends on, for its journal.

    Raises:
        TypeError: The arguments are no JSON data.
        ValueError: They have a number that is none, or hold themselves.
    """
    json.dumps(arguments, allow_nan=False)  # which would be no JSON for who goes on with it
    asked = {"arguments": arguments, "seed": seed, "step": step}
    if parallel is not None:  # not how many: another process may have another number
        asked["parallel"] = parallel > 1
    return to_json(asked)


def check_parallel(program: Program, parallel: object) -> None:
    """Checks how many iterations may run at the same time.

    Raises:
        ValidationError: It is no whole number from 1, or the script is none of the workflow
            language.
    """
    if parallel is None:
        return
    if program.language != "pl":
        raise ValidationError(
            "parallel is for programs of the workflow language (*.pl); leave it out"
        )
    if not isinstance(parallel, int) or isinstance(parallel, bool) or parallel < 1:
        raise ValidationError(f"parallel is a whole number from 1, and not {parallel!r:.40}")


class FlowOrchestration:
    """A program as an orchestration. Serves many turns at once.

    Attributes:
        name: The script's file or language, for errors.
        program: The program.
        groups: The action groups that it calls, which no model sees.
        digest: Changes with the program.
    """

    def __init__(
        self,
        program: Program,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        listener: Listener | None = None,
        parallel: int | None = None,
    ) -> None:
        """Takes the program.

        Args:
            program: What to run.
            functions: Functions that it may call by name, besides what the agent has.
            listener: Told of what happens in the one run of a script alone: then the question is
                a `request_text`, and whatever fails is a `FlowError`. In an agent, the user's
                input is the argument `question` (PPE: the one text), what was said in the session
                before is `history`, and prompt session attributes are arguments by their names.
            parallel: How many iterations of a loop run at the same time, wherever they can; 1 for
                one after the other. When it is left out, loops that say `PARALLEL` do.

        Raises:
            ValidationError: `parallel` is no number from 1, or a function is none.
        """
        check_parallel(program, parallel)
        self.program = program
        self.name = Path(program.file).name if program.file else program.language
        self.digest = program.digest
        check_functions(functions)
        self.functions = dict(functions or {})
        self.groups = [build_pause_group()]
        if self.functions:
            self.groups.append(ActionGroup(FUNCTIONS, executor=Functions(self.functions)))
        if program.uses_code:
            self.groups.append(ActionGroup("code", signature=CODE_INTERPRETER))
        self.listener = listener
        self.parallel = parallel

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
                raise _blame_dependency(error, error.__cause__) from error
            raise


def check_functions(functions: object) -> None:
    """Checks the functions that a script may call.

    Raises:
        ValidationError: They are no mapping, or one of them cannot be called.
    """
    if functions is not None and not isinstance(functions, Mapping):
        kind = type(functions).__name__
        raise ValidationError(f"tools are functions by name, and no {kind}: give a mapping")
    for name, one in (functions or {}).items():
        if not callable(one):
            raise ValidationError(f"the tool {name!r} is no function: it is {one!r:.40}")


def _blame_dependency(error: FlowError, cause: DependencyFailed) -> OrchestratorError:
    """What failed a statement, for who uses the agent: to him it is no fault of the script."""
    rebuilt = rebuild_error(type(cause).__name__, error.message, "")
    if isinstance(rebuilt, DependencyFailed):
        rebuilt.resource = cause.resource
    return rebuilt


class _Run:
    """One run of a script in one turn."""

    def __init__(self, flow: FlowOrchestration, turn: Turn) -> None:
        program = self._program = flow.program
        self._listener = flow.listener or Listener()
        self._digest = program.digest[:16]
        work = Work(turn, flow.name)
        reach = CallResolver(turn, work.tools, flow.functions)
        most = turn.plan.limits.parallel
        takes = can_bias(turn.plan.orchestration.model.model_id)
        known = replace(reach.known, most=min(flow.parallel or most, most), biases=takes)
        seed = stepped = None
        alone = flow.listener is not None
        if alone:
            asked = read_recorded_json(turn.question, _Request)
            arguments, seed = asked["arguments"], asked["seed"]
            if asked["step"] and program.language != "pl":  # which does that itself
                named = isinstance(arguments, dict)
                stepped = arguments if named else {program.text_input: arguments}
            known = replace(known, stepping=asked["step"], parallel=asked.get("parallel"))
        else:
            arguments = _collect_arguments(turn, program)
            if flow.parallel is not None:
                # A turn that has started goes on only with the same setting.
                known = replace(known, parallel=flow.parallel > 1)
                self._digest += " parallel" if flow.parallel > 1 else " one by one"
        self._arguments, self._known = arguments, known
        self._carrier = StepRunner(
            turn,
            work,
            reach,
            self._listener,
            program.file,
            seed=seed,
            alone=alone,
            stepped=stepped,
            folders=program.folders,
        )

    def run(self) -> Generator[Effect, Any, Result]:
        self._listener.begin()
        # Only the same script goes on with what the journal has.
        yield from self._carrier.note(f"SCRIPT {self._digest}", "")
        running = self._program.run(self._arguments, self._known)
        outcome: Outcome | Result = yield from self._carrier.run_steps(running)
        if not isinstance(outcome, Outcome):
            return outcome
        self._listener.outcome = outcome
        output = outcome.output
        text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        return Answer(clean("" if output is None else text))


def _collect_arguments(turn: Turn, program: Program) -> dict[str, Any]:
    """The arguments of a script that has an agent around it."""
    earlier = [{"role": it["role"], "text": text_of(it["content"])} for it in turn.start.earlier()]
    asked = {"question": turn.question, program.text_input: turn.question}
    return {"history": earlier, **turn.prompt_attributes, **asked}
