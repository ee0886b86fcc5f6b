"""What the drivers share: records of actions and retrievals, and threads for blocking calls."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from orchestrator.actions.base import ActionResult, Call
from orchestrator.effects import Retrieve
from orchestrator.errors import ActionOutcomeUnknown, DependencyFailed, OrchestratorError
from orchestrator.message import clean
from orchestrator.sessions import Record

__all__ = ["action_record", "failed_action", "in_thread", "retrieved_record", "timed_out"]

T = TypeVar("T")


def in_thread(function: Callable[[], T]) -> Future[T]:
    """Runs a blocking function in a thread of its own, with this thread's context variables.

    A thread a call: a pool would be filled up by calls that never return, and its threads would
    keep the interpreter from exiting.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # whoever stops waiting does not stop the thread
    context = contextvars.copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(function))
        except BaseException as error:  # handed to whoever waits
            future.set_exception(error)

    threading.Thread(target=work, name="orchestrator-action", daemon=True).start()
    return future


def action_record(call: Call, result: ActionResult, began: int, ended: int) -> Record:
    """The journal record of an action's result."""
    record: Record = {
        "kind": "action",
        "id": call.id,
        "text": result.text,
        "times": (began, ended),
    }
    if result.state:
        record["state"] = result.state
    if result.session_attributes is not None:
        record["attributes"] = result.session_attributes
    if result.prompt_session_attributes is not None:
        record["prompt_attributes"] = result.prompt_session_attributes
    if result.notes:
        record["notes"] = list(result.notes)
    return record


def failed_action(call: Call, error: BaseException, began: int, ended: int) -> Record:
    """The journal record of an action that raised: the turn fails with its error."""
    if not isinstance(error, OrchestratorError):
        error = DependencyFailed(
            f"the executor of {call.operation.xml_name!r} raised {type(error).__name__}; an "
            "executor reports what the model can mend as a result with state 'REPROMPT'",
            resource=call.operation.xml_name,
        )
    record = action_record(call, ActionResult(error.message, "FAILURE"), began, ended)
    record["error"] = type(error).__name__
    return record


def timed_out(call: Call, seconds: float | None) -> ActionOutcomeUnknown:
    """The error of an action that did not answer in time."""
    name = call.operation.xml_name
    return ActionOutcomeUnknown(
        f"{name!r} did not answer within {seconds} seconds; it may still take effect. Raise "
        "`Limits(action_seconds=...)` if it needs longer",
        resource=name,
    )


def retrieved_record(
    effect: Retrieve, references: list[dict[str, Any]], times: tuple[int, int]
) -> Record:
    """The journal record of a retrieval.

    Raises:
        DependencyFailed: What was retrieved are no references with texts.
    """
    try:
        kept = [_reference(reference) for reference in references]
    except (AttributeError, KeyError, TypeError):
        raise DependencyFailed(
            f"the knowledge base {effect.knowledge_base_id!r} returned something else than "
            "references: each must be {'content': {'text': '...'}}, with 'location' and 'metadata' "
            "if it has them",
            resource=effect.knowledge_base_id,
        ) from None
    return {"kind": "retrieved", "id": effect.call_id, "references": kept, "times": times}


def _reference(reference: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(reference["content"]["text"], str):
        raise TypeError
    # Bedrock's shape has no empty members.
    return {name: clean(value) for name, value in reference.items() if value}
