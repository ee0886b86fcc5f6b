"""Iterations of a loop that run side by side: each a branch of the turn, in the same journal.

What an iteration comes to is the text of its branch's record, as JSON in ASCII: so the loop goes on
with the same values when it is run again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from orchestrator.engine.calls import merge_changes
from orchestrator.engine.effects import Branch, Branches, Effect
from orchestrator.engine.plan import Member
from orchestrator.engine.results import Answer, Failure, Refusal, Result
from orchestrator.engine.run.iterations import error_of
from orchestrator.engine.run.turn_records import STOPPED
from orchestrator.engine.state import Iteration
from orchestrator.errors import OrchestratorError
from orchestrator.flows.state import read_recorded_json
from orchestrator.flows.steps import Parallel, Step
from orchestrator.sessions.journal import Record

if TYPE_CHECKING:
    from orchestrator.engine.state import Turn
    from orchestrator.flows.step_runner import StepRunner


Work = Callable[[], Generator[Step, Any, Any]]


class _Agent(TypedDict):
    name: str
    type: str
    task: str
    roles: dict[str, str]
    tools: dict[str, dict[str, Any]]


class _Value(TypedDict):
    variables: dict[str, list[tuple[bool, Any]]]
    agents: dict[str, _Agent]


class _Result(TypedDict):
    value: _Value
    spent: tuple[int, int]
    attributes: NotRequired[dict[str, str]]
    responses: NotRequired[list[dict[str, str]]]


def run_in_parallel(
    carrier: StepRunner, step: Parallel
) -> Generator[Effect, Any, list[Any] | Result]:
    """Has the works of a step done side by side.

    Returns:
        What they return, in order; or the result that ends the turn: one waits for the caller,
        asks the user, or was stopped.

    Raises:
        OrchestratorError: One failed: the first in order.
    """
    turn = carrier.turn
    carrier.loops += 1
    asks, _ = carrier.work.spending
    branches = [_build_branch(carrier, step, number) for number in range(1, len(step.works) + 1)]
    outcomes: list[Record] = yield Branches(
        branches,
        turn.number,
        live=carrier.alone,
        iterates=True,
        most=step.most,
        asks=asks,
    )
    for record in outcomes:
        if "control" not in record:
            turn.count(record)
    for branch, record in zip(branches, outcomes, strict=True):
        if (ended := _find_turn_end(turn.iterations[branch.id], record)) is not None:
            return ended
    for record in outcomes:
        if "control" in record:
            control: Result = record["control"]
            return control
        if record["result"] != "answer":
            # The turn was stopped, or an iteration beside the one that this loop is in has failed.
            error = carrier.build_error(step.place, "the loop was stopped", "循环已停止")
            return Failure(error, STOPPED)
    before = turn.prompt_attributes
    return [
        _take_result(carrier, read_recorded_json(record["text"], _Result), before)
        for record in outcomes
    ]


def _find_turn_end(iteration: Iteration, record: Record) -> Result | None:
    """How the turn ends with an iteration: one was refused, or its model asked the user.

    Raises:
        OrchestratorError: It failed.
    """
    if "control" in record:
        return None
    if (error := error_of(iteration, record)) is not None:
        raise error
    text, reason = record["text"], record["stop_reason"]
    if record["result"] == "refusal":
        return Refusal(text, reason)
    return Answer(text, reason) if reason == "ask_user" else None


def _take_result(carrier: StepRunner, result: dict[str, Any], before: Mapping[str, str]) -> Any:
    """What an iteration returned; what else it did is taken into the turn."""
    turn = carrier.turn
    carrier.work.add(*result["spent"])
    turn.responses += tuple(result.get("responses", ()))
    if "attributes" in result:
        now = turn.prompt_attributes
        turn.prompt_attributes = merge_changes(before, now, result["attributes"])
    return result["value"]


def _build_branch(carrier: StepRunner, step: Parallel, number: int) -> Branch:
    turn, loop = carrier.turn, carrier.loops
    id, start = f"for-{loop}-{number}", turn.start
    path = f"{start.path}/{id}" if start.path else id
    place = step.place
    description = f"line {place.line}, item {number} of {len(step.works)}"
    member = Member("", "", turn.plan)
    branch = Branch(path, member, description, turn.prompt_attributes, turn.limits, start.team)
    iteration = Iteration(_build_work(carrier, step.works[number - 1], number))
    if carrier.alone:
        within = {"iteration": [*carrier.iteration, number]}
        iteration.hear = lambda text: carrier.listener.handle_text(text, path, within)
    turn.iterations[path] = iteration
    return branch


def _build_work(
    above: StepRunner, work: Work, number: int
) -> Callable[[Turn], Generator[Effect, Any, Result]]:
    """What the branch of an iteration does."""
    question, guarded = above.turn.question, above.turn.guarded

    def run_branch(turn: Turn) -> Generator[Effect, Any, Result]:
        turn.question, turn.guarded = question, guarded
        try:
            return (yield from _run_iteration(above.for_iteration(turn, number), work))
        except OrchestratorError as error:
            return Failure(error, getattr(error, "limit", "") or getattr(error, "code", ""))

    return run_branch


def _run_iteration(carrier: StepRunner, work: Work) -> Generator[Effect, Any, Result]:
    turn = carrier.turn
    carrier.listener.begin(turn.start.path)
    value = yield from carrier.run_steps(work())
    if isinstance(value, Result):
        return value
    result: dict[str, Any] = {"value": value, "spent": carrier.work.spending}
    if turn.prompt_attributes is not turn.start.prompt_attributes:
        result["attributes"] = turn.prompt_attributes
    if turn.responses:
        result["responses"] = turn.responses
    return Answer(json.dumps(result))
