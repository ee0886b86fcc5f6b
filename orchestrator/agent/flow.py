"""`Flow`: a script that was read, to run alone, or as the orchestration of an agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from orchestrator.actions import ActionGroup
from orchestrator.agent.flow_run import FlowAgents, FlowEvent, FlowResult, FlowRun
from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.flows.languages import Grants, read_file, read_text
from orchestrator.flows.orchestration import FlowOrchestration
from orchestrator.flows.state import read_state
from orchestrator.flows.steps import Program
from orchestrator.limits import Limits
from orchestrator.models import Model
from orchestrator.sessions import Sessions, SessionStore

if TYPE_CHECKING:
    from orchestrator.agent.durable import DurableRuns
    from orchestrator.agent.durable.flows import FlowSubmission

Mode = Literal["continue", "step"]
Results = Mapping[str, Any] | str | bool


class FlowOptions(TypedDict, total=False):
    """Options of a run, also of one that is gone on with."""

    model: str | Model  # a model, or its spec, as for `Agent`. Required.
    tools: Mapping[str, Callable[..., Any]] | None  # functions that the script may call, by name
    action_groups: Sequence[ActionGroup]  # actions that it may call besides
    limits: Limits | None  # budgets; `orchestrator.agent.flow_run.LIMITS` when left out
    # Where the run's journal is stored, as for `Agent`: with a path of a SQLite file, a run that a
    # stopped process left goes on when it is run again with the same `run_id` and the same
    # arguments. In memory when left out.
    sessions: Sessions | SessionStore | str | Path | None
    # How many items of a loop of the workflow language run at the same time, wherever they can; 1
    # for one after the other. Left out: loops that say `PARALLEL` run so many as `limits.parallel`
    # allows.
    parallel: int | None


class RunOptions(FlowOptions, total=False):
    """Options of a run that begins."""

    seed: int | None  # makes random choices the same in every run
    run_id: str | None  # names the run in `sessions`: 2 to 100 letters, digits, `.`, `_`, `:`, `-`
    step: bool  # whether it waits before its first statement, as at a breakpoint
    # What was decided of calls whose outcome nobody knew, from `error.undecided.answer(...)` of an
    # `ActionOutcomeUnknown`: the run with this `run_id` goes on
    results: Mapping[str, Any] | None


class ResumeOptions(FlowOptions, total=False):
    """Options of a run that goes on; with its own `sessions`, the store's journal goes on."""

    mode: Mode  # `continue`, or `step` to run one statement and wait again
    text: str  # the user's text, when the run waits for the user
    # The results of the calls that it waits for, as `ReturnControl.answer` takes them
    results: Results | None


class Flow:
    """A script that was read whole; it can be run any number of times, at once too.

    `Agent(..., orchestration=flow)` has it orchestrate an agent's turns.

    Attributes:
        program: What was read.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._agents = FlowAgents(program)

    def __repr__(self) -> str:
        return f"Flow({self.program.file or self.program.language!r})"

    @classmethod
    def from_text(cls, text: str, language: Literal["ppe", "pl"]) -> Flow:
        """Reads a script.

        Args:
            text: The script.
            language: `ppe` (Programmable Prompt Engine) or `pl` (the workflow prompt language).

        Raises:
            FlowError: It is wrong, with line and column.
        """
        return cls(read_text(text, language))

    def as_orchestration(
        self,
        tools: Mapping[str, Callable[..., Any]] | None = None,
        *,
        parallel: int | None = None,
    ) -> FlowOrchestration:
        """The script as the orchestration of an agent.

        Args:
            tools: Functions that it may call by name, besides what the agent has.
            parallel: As for `run`; not more than the agent's `limits.parallel`.

        Raises:
            ValidationError: `parallel` is no number from 1.
        """
        return FlowOrchestration(self.program, tools, parallel=parallel)

    def run(
        self,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        on_event: Callable[[FlowEvent], None] | None = None,
        **options: Unpack[RunOptions],
    ) -> FlowResult:
        """Runs it.

        Args:
            arguments: Values by name, JSON data; for PPE also one text.
            on_event: Gets each event as it happens.
            **options: See `RunOptions`.

        Raises:
            FlowError: The script, its data, a function or a reply is wrong.
            LimitExceeded: A budget is used up.
            ValidationError: The arguments are no JSON data by name, or a tool is no function.
        """
        return self._start(arguments, options).run(on_event)

    async def arun(
        self,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        on_event: Callable[[FlowEvent], None] | None = None,
        **options: Unpack[RunOptions],
    ) -> FlowResult:
        """`run`, for an event loop."""
        return await self._start(arguments, options).arun(on_event)

    def stream(
        self,
        arguments: Mapping[str, Any] | str | None = None,
        **options: Unpack[RunOptions],
    ) -> Generator[FlowEvent, None, None]:
        """`run`, which yields its events as they happen; closing the iterator stops it.

        Yields:
            Events; the last one is a `run_end`, or a `breakpoint` where the run waits, and has the
            `result`.

        Raises:
            FlowError: As for `run`; an event `error` was yielded before.
            LimitExceeded: As for `run`.
        """
        return self._start(arguments, options).stream()

    def astream(
        self,
        arguments: Mapping[str, Any] | str | None = None,
        **options: Unpack[RunOptions],
    ) -> AsyncGenerator[FlowEvent, None]:
        """`stream`, for an event loop."""
        return self._start(arguments, options).astream()

    def resume(
        self,
        state: Mapping[str, Any],
        *,
        on_event: Callable[[FlowEvent], None] | None = None,
        **options: Unpack[ResumeOptions],
    ) -> FlowResult:
        """Goes on with a run that waits.

        Args:
            state: What `paused` of its result was.
            on_event: As for `run`.
            **options: See `ResumeOptions`.

        Raises:
            FlowError: As for `run`; or the state was changed, or is another script's.
            ValidationError: There is no such mode, or it waits for something else.
        """
        return self._resume(state, options).run(on_event)

    async def aresume(
        self,
        state: Mapping[str, Any],
        *,
        on_event: Callable[[FlowEvent], None] | None = None,
        **options: Unpack[ResumeOptions],
    ) -> FlowResult:
        """`resume`, for an event loop."""
        return await self._resume(state, options).arun(on_event)

    def resume_stream(
        self, state: Mapping[str, Any], **options: Unpack[ResumeOptions]
    ) -> Generator[FlowEvent, None, None]:
        """`resume`, as `stream`."""
        return self._resume(state, options).stream()

    def aresume_stream(
        self, state: Mapping[str, Any], **options: Unpack[ResumeOptions]
    ) -> AsyncGenerator[FlowEvent, None]:
        """`resume_stream`, for an event loop."""
        return self._resume(state, options).astream()

    def submit(
        self,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        runs: DurableRuns,
        name: str = "",
        queue: str = "turns",
        retries: int = 0,
        delay: float = 0.0,
        **options: Unpack[RunOptions],
    ) -> FlowSubmission:
        """Submits a run to the workers of a database (extra `dbos`); returns at once.

        The worker has a `DurableFlow` of the same name: it has the model, the tools and the limits
        of its own.

        Args:
            arguments: As for `run`.
            runs: The database.
            name: Names the script for workers; by default, its file does.
            queue: The queue that workers take it from.
            retries: How often it is run again, up to 10 times, when a dependency such as its model
                has failed and no action was begun.
            delay: Before how many seconds it does not begin.
            **options: As for `run`. `sessions` is a database that the workers reach; with a
                `run_id` the same submission twice is one run.

        Raises:
            ValidationError: An argument is wrong, or the sessions are in this process's memory.
            SessionConflict: The `run_id` was submitted with other arguments.
            DependencyFailed: The database does not answer.
        """
        from orchestrator.agent.durable.flows import DurableFlow

        own: Any = check_options(options, RunOptions)
        begins = {it: own.pop(it) for it in ("seed", "run_id", "step", "results") if it in own}
        flow = DurableFlow(self, name, **own)
        given = {"queue": queue, "retries": retries, "delay": delay, **begins}
        return flow.submit(arguments, runs=runs, **given)

    def _start(self, arguments: Mapping[str, Any] | str | None, options: RunOptions) -> FlowRun:
        values = check_arguments(arguments)
        return FlowRun.start(self._agents, values, **check_options(options, RunOptions))

    def _resume(self, state: Mapping[str, Any], options: ResumeOptions) -> FlowRun:
        more = check_options(options, ResumeOptions)
        mode, text = more.pop("mode", "continue"), more.pop("text", "")
        results = more.pop("results", None)
        check_mode(mode)
        known = read_state(state, self.program.digest)
        answer = choose_answer(known["waits_for"], mode, text, results)
        return FlowRun.resume(self._agents, known, answer, **more)


def check_arguments(arguments: object) -> Mapping[str, Any] | str:
    """The arguments of a run.

    Raises:
        ValidationError: They are no values by name, and no text.
    """
    values: Any = {} if arguments is None else arguments
    if not isinstance(values, Mapping | str):
        raise ValidationError(
            f"the arguments are values by name, and no {type(values).__name__}: give a mapping"
        )
    return values


def check_mode(mode: object) -> None:
    """Checks how a run goes on.

    Raises:
        ValidationError: There is no such mode.
    """
    if mode not in ("continue", "step"):
        raise ValidationError(f"the mode is {mode!r}; it is 'continue' or 'step'")


def choose_answer(waits_for: str, mode: str, text: str, results: Results | None) -> Results:
    """What a run that waits is given: the user's text, the results of calls, or the mode.

    Raises:
        ValidationError: It waits for something else.
    """
    if text and waits_for != "user":
        raise ValidationError("the run does not wait for the user; leave the text out")
    if waits_for != "call":
        return text if waits_for == "user" else mode
    if results is None:
        raise ValidationError("the run waits for the result of a call; give results=")
    return results


def check_options(options: Mapping[str, Any], known: type) -> dict[str, Any]:
    """A copy of a run's options.

    Args:
        options: The options.
        known: The `TypedDict` of those that there are.

    Raises:
        TypeError: There is no such option, or no `model`.
    """
    if unknown := options.keys() - known.__annotations__.keys():
        raise TypeError(
            f"unknown options {sorted(unknown)}; there are {', '.join(known.__annotations__)}"
        )
    if "model" not in options:
        raise TypeError("there is no model=; give one, such as model='local'")
    return dict(options)


def load_flow(
    path: str | Path, *, libraries: Sequence[str | Path] = (), files: bool = False
) -> Flow:
    """Reads a script from a file, or a folder's main file, such as `main.ai.yaml` or `main.pl`.

    Args:
        path: `*.ai.yaml` and `*.ppe.yaml` are PPE, `*.pl` is the prompt language.
        libraries: Folders with scripts that a PPE script may call, besides those beside it, and
            whose text files it may read.
        files: Whether Python of a program (`@code`) may read the text files of the program's own
            folder with `open()`; hidden ones are left out.

    Raises:
        FlowError: It is wrong, with file, line and column, or of no known kind.
        ResourceNotFound: There is no such file, or no such folder.
    """
    folders = [Path(one) for one in libraries]
    for folder in folders:
        if not folder.is_dir():
            raise ResourceNotFound(f"there is no folder {str(folder)!r} with scripts")
    return Flow(read_file(Path(path), Grants(folders, files)))
