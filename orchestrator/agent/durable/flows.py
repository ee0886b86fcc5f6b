"""Scripts as durable runs: each run is a turn of the agent around the script.

So a run is queued, gone on with, retried and cancelled as a turn is. What it comes to, besides the
turn's reply, stands in the workflow's result.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from uuid import NAMESPACE_URL, uuid4, uuid5

from orchestrator.agent.durable.runs import QUEUE
from orchestrator.agent.durable.submission import Handle, open_output, read_reply
from orchestrator.agent.flow import (
    FlowOptions,
    Mode,
    Results,
    check_arguments,
    check_mode,
    check_options,
    choose_answer,
)
from orchestrator.agent.flow_run import FlowAgents, FlowResult, FlowRun
from orchestrator.errors import SessionConflict, ValidationError
from orchestrator.models import resolve_model
from orchestrator.sessions import Sessions

if TYPE_CHECKING:
    from dbos import WorkflowStatus

    from orchestrator.agent.agent import Agent
    from orchestrator.agent.durable.runs import DurableRuns
    from orchestrator.agent.flow import Flow
    from orchestrator.flows.steps import Program

# What a run that was cancelled has come to
_CANCELLED: dict[str, Any] = {
    "output": None,
    "variables": {},
    "messages": [],
    "warnings": [],
    "waits_for": "",
    "question": "",
    "line": 0,
    "statement": "",
    "paused": None,
}


class DurableFlow:
    """A script with a name and all that its runs need: for who submits them, and for workers.

    Attributes:
        name: What workers know it by.
        agent: The agent around it.
    """

    def __init__(self, flow: Flow, name: str = "", **options: Unpack[FlowOptions]) -> None:
        """Takes the script.

        Args:
            flow: The script.
            name: Names it among the flows of a worker; by default, its file does.
            **options: As for `Flow.run`. A worker's model, tools, limits and `parallel` count;
                `sessions` is a database that every worker reaches.

        Raises:
            ValidationError: An option is wrong.
            TypeError: There is no such option, or no `model`.
        """
        self.name = name or _name_program(flow.program)
        given = check_options(options, FlowOptions)
        # Once, and not for each run: a model may have weights to load, and a store connections.
        model, sessions = resolve_model(given["model"]), Sessions.of(given.get("sessions"))
        self._options = {**given, "model": model, "sessions": sessions}
        self._agents = FlowAgents(flow.program, f"flow {self.name}")
        self.agent: Agent = self.open_run("run").agent

    def __repr__(self) -> str:
        return f"DurableFlow({self.name!r})"

    def open_run(self, run_id: str) -> FlowRun:
        """What runs a turn of the run with this id."""
        run = FlowRun(self._agents, run_id, {}, {}, **self._options)
        run.mute()
        return run

    def submit(
        self,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        runs: DurableRuns,
        queue: str = QUEUE,
        retries: int = 0,
        delay: float = 0.0,
        seed: int | None = None,
        run_id: str | None = None,
        step: bool = False,
        results: Mapping[str, Any] | None = None,
    ) -> FlowSubmission:
        """Submits a run; see `Flow.submit`."""
        request = FlowRun.start(
            self._agents,
            check_arguments(arguments),
            seed=seed,
            run_id=run_id,
            step=step,
            results=results,
            **self._options,
        ).request
        send = partial(self._send, runs, queue=queue, retries=retries, delay=delay)
        if run_id is None or results is not None:
            return send(request, run_id or str(uuid4()))
        try:
            return send(request, run_id, once=run_id)
        except SessionConflict:
            raise SessionConflict(
                f"the run {run_id!r} was submitted with other arguments; they stand"
            ) from None

    def find_submission(self, id: str, *, runs: DurableRuns) -> FlowSubmission:
        """A run of this script, or a part of one, that some process has submitted.

        Raises:
            ResourceNotFound: There is none with this id.
        """
        return FlowSubmission(runs, runs.find(self.agent, id).id, self)

    def _send(
        self,
        runs: DurableRuns,
        request: Mapping[str, Any],
        run_id: str,
        *,
        once: str = "",
        **how: Any,
    ) -> FlowSubmission:
        options: dict[str, Any] = {"results": request.get("results")}
        if once:
            options["request_id"] = str(uuid5(NAMESPACE_URL, f"orchestrator:{once}"))
        question = request.get("question", "")
        submitted = runs.submit(self.agent, question, run_id, options, **how)
        return FlowSubmission(runs, submitted.id, self)

    def resume(
        self, runs: DurableRuns, waiting: FlowResult, answer: Results, queue: str
    ) -> FlowSubmission:
        """Submits the answer that a run waits for. The same one twice is one submission."""
        control = waiting.reply.return_control
        if control is None:
            raise ValidationError("the run does not wait; it has ended")
        request, run_id = {"results": control.answer(answer)}, waiting.reply.session_id
        try:
            once = f"{run_id}/{control.invocation_id}"
            return self._send(runs, request, run_id, once=once, queue=queue)
        except SessionConflict:
            raise SessionConflict(
                f"the run {run_id!r} was given another answer there; it stands"
            ) from None

    def build_result(self, status: WorkflowStatus) -> FlowResult:
        """What a workflow that has ended has come to."""
        reply = read_reply(status, self.agent)
        cancelled = status.status == "CANCELLED"
        record = _CANCELLED if cancelled else open_output(status)["run"]
        return FlowResult.from_record(record, reply)


class FlowSubmission(Handle):
    """A run of a script that was submitted, or a part of one between two pauses.

    Attributes:
        id: Names it; `DurableFlow.find_submission` finds it by this id.
    """

    def __init__(self, runs: DurableRuns, id: str, flow: DurableFlow) -> None:
        super().__init__(runs.client, id, flow.agent)
        self._runs, self._flow = runs, flow

    def result(self, timeout: float | None = None) -> FlowResult:
        """Waits for the run's end, or for where it waits; what it has come to.

        Of a run that was cancelled, the reply's `stop_reason` is `cancelled`. The `paused` of one
        that waits is no state for `Flow.resume`: the journal has it, and `resume` goes on here.

        Args:
            timeout: For how many seconds to wait; for ever when `None`.

        Raises:
            OrchestratorError: The run failed. An `ActionOutcomeUnknown` waits for a decision:
                `submit(run_id=..., results=error.undecided.answer(...))` goes on.
            TimeoutError: It has not ended yet.
        """
        return self._flow.build_result(self._wait(timeout))

    async def aresult(self, timeout: float | None = None) -> FlowResult:
        """`result`, for an event loop."""
        return await self._do_in_thread(partial(self.result, timeout))

    def resume(
        self,
        *,
        mode: Mode = "continue",
        text: str = "",
        results: Results | None = None,
        queue: str = QUEUE,
    ) -> FlowSubmission:
        """Submits what the run waits for, from any process and however long after.

        Args:
            mode: `continue`, or `step` to run one statement and wait again.
            text: The user's text, when the run waits for the user.
            results: The results of the calls that it waits for, as `ReturnControl.answer` takes
                them.
            queue: The queue that workers take it from.

        Raises:
            OrchestratorError: The run failed.
            SessionConflict: It was given another answer already.
            TimeoutError: It neither waits nor has ended yet.
            ValidationError: It waits for something else, or has ended.
        """
        check_mode(mode)
        waiting = self.result(0)
        answer = choose_answer(waiting.waits_for, mode, text, results)
        return self._flow.resume(self._runs, waiting, answer, queue)

    async def aresume(
        self,
        *,
        mode: Mode = "continue",
        text: str = "",
        results: Results | None = None,
        queue: str = QUEUE,
    ) -> FlowSubmission:
        """`resume`, for an event loop."""
        resume = partial(self.resume, mode=mode, text=text, results=results, queue=queue)
        return await self._do_in_thread(resume)


def _name_program(program: Program) -> str:
    return Path(program.file).name if program.file else program.digest[:16]
