"""The engine's effects as steps of a DBOS workflow.

The journal is the state: a step's record tells that an effect was carried out and what it cost, and
is never read back into a turn. So neither a question nor an answer is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.engine.effects import (
    Branches,
    CallModel,
    Dispatch,
    Effect,
    Guard,
    Orchestrate,
    Retrieve,
)
from orchestrator.errors import TurnLeft

if TYPE_CHECKING:
    from orchestrator.engine.run.driver import Progress

T = TypeVar("T")


def carry_out_effect(
    progress: Progress, work: Callable[[], tuple[Progress | None, Any]]
) -> Progress | None:
    """Carries an effect out as a step; the next effect. See `orchestrator.agent.invoke.CarryOut`.

    Raises:
        TurnLeft: This workflow is another process's now, or its database is gone.
    """
    following, _ = carry_out(
        _name_effect(progress.effect), work, lambda done: describe_outcome(progress.effect, done[1])
    )
    return following


class LeftTurnCancelled(Exception):
    """The workflow was cancelled whose turn another one goes on with."""


def carry_out_left_effect(
    workflow: str, progress: Progress, work: Callable[[], tuple[Progress | None, Any]]
) -> Progress | None:
    """`carry_out_effect` of a turn that another workflow has begun, or none if it is empty.

    Raises:
        LeftTurnCancelled: That workflow was cancelled.
        TurnLeft: As for `carry_out_effect`, and when this workflow is cancelled.
    """
    from dbos._error import DBOSWorkflowCancelledError

    if workflow and read_status(workflow) == "CANCELLED":
        raise LeftTurnCancelled
    try:
        return carry_out_effect(progress, work)
    except DBOSWorkflowCancelledError as error:
        raise TurnLeft from error


def carry_out(name: str, work: Callable[[], T], describe: Callable[[T], Any]) -> T:
    """Does work as the workflow's next step that was never recorded.

    DBOS counts steps, and would give a workflow that is run again the record of the step with the
    same number. But a turn that is run again begins where its journal ends: steps of earlier runs
    are passed over, whatever their names, and its own come after them.

    Raises:
        TurnLeft: As for `carry_out_effect`; what `work` raises is raised as it is.
    """
    from dbos import DBOS
    from dbos._error import DBOSUnexpectedStepError, DBOSWorkflowCancelledError

    done: list[T] = []
    failed: list[Exception] = []

    def step() -> Any:
        try:
            done.append(work())
        except Exception as error:  # a recorded error would be raised again for ever
            failed.append(error)
            return {"failed": type(error).__name__}
        return describe(done[0])

    while not done and not failed:
        try:
            DBOS.run_step({"name": name}, step)
        except DBOSUnexpectedStepError:
            continue
        except DBOSWorkflowCancelledError:
            raise
        except BaseException as error:
            # A workflow that is cancelled within a step is nobody's, as one that was taken over.
            if read_status(str(DBOS.workflow_id)) == "CANCELLED":
                raise DBOSWorkflowCancelledError("the turn was cancelled") from error
            raise TurnLeft from error
    if failed:
        raise failed[0]
    return done[0]


def read_status(workflow_id: str) -> str:
    """What DBOS calls a workflow's state; empty when there is none, or its database is gone."""
    from dbos._dbos import _get_dbos_instance

    try:
        # Asked past DBOS's own function, which would be a step.
        status = _get_dbos_instance()._sys_db.get_workflow_status(workflow_id)
    except Exception:  # the next step finds out, too
        return ""
    return str(status["status"]) if status is not None else ""


_NAMES = {Guard: "guardrail", Orchestrate: "orchestration"}


def _name_effect(effect: Effect) -> str:
    if isinstance(effect, CallModel):
        return f"model {effect.stage.stage}"
    if isinstance(effect, Dispatch):
        return f"actions {', '.join(call.operation.xml_name for call in effect.calls)}"[:200]
    if isinstance(effect, Retrieve):
        return f"knowledge base {effect.knowledge_base_id}"
    if isinstance(effect, Branches):
        names = dict.fromkeys(one.collaborator.name for one in effect.branches)
        return f"{'iterations' if effect.iterates else 'collaborators'} {', '.join(names)}"[:200]
    return _NAMES.get(type(effect), type(effect).__name__)


def describe_outcome(effect: Effect, outcome: Any) -> dict[str, Any]:
    """What a step's record says of an outcome: names, counts and times, and no content."""
    if outcome is None:
        return {"failed": True}
    if isinstance(outcome, list):
        return {"outcomes": [_describe_record(record) for record in outcome]}
    return _describe_record(outcome)


def _describe_record(record: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        name: record[name] for name in ("id", "model", "stop", "state") if name in record
    }
    if "began" in record and "ended" in record:
        shown["seconds"] = round((record["ended"] - record["began"]) / 1e9, 3)
    if record["kind"] == "model":
        shown["tokens"] = list(record["usage"][:2])
    return shown
