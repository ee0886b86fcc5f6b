"""Custom orchestrations in place of the built-in loop: a Lambda function, or Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrator.engine.orchestration import Orchestration
from orchestrator.flows.custom.lambda_loop import LambdaOrchestration
from orchestrator.flows.custom.operations import ToolResult
from orchestrator.flows.custom.python_loop import (
    Checked,
    CustomTurn,
    ModelAnswer,
    Orchestrator,
    PythonOrchestration,
    Request,
    ToolResults,
)

__all__ = [
    "Checked",
    "CustomTurn",
    "LambdaOrchestration",
    "ModelAnswer",
    "Orchestration",
    "Orchestrator",
    "PythonOrchestration",
    "Request",
    "ToolResult",
    "ToolResults",
    "orchestration_of",
]


def orchestration_of(given: Orchestration | Callable[..., Any]) -> Orchestration:
    """The orchestration that `Agent(orchestration=given)` means.

    Args:
        given: A generator function of a `CustomTurn`, an orchestration, or something that makes
            one, as a `Flow` does.

    Raises:
        DefinitionError: It is neither.
    """
    if isinstance(given, LambdaOrchestration | PythonOrchestration):
        return given
    if hasattr(given, "run") and hasattr(given, "name"):
        return given
    if hasattr(given, "as_orchestration"):
        orchestration: Orchestration = given.as_orchestration()
        return orchestration
    if callable(given):
        return PythonOrchestration(given)
    from orchestrator.errors import DefinitionError

    raise DefinitionError(
        "an orchestration is a generator function of the turn, LambdaOrchestration(...) or "
        f"load_flow(...), not {type(given).__name__}"
    )
