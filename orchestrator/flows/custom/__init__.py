"""Custom orchestrations in place of the built-in loop: a Lambda function, or Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrator.engine.plan import Orchestration
from orchestrator.errors import DefinitionError
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


def orchestration_of(value: Orchestration | Callable[..., Any]) -> Orchestration:
    """The orchestration that `Agent(orchestration=value)` means.

    Raises:
        DefinitionError: It is neither.
    """
    if hasattr(value, "run") and hasattr(value, "name"):
        return value
    if hasattr(value, "as_orchestration"):
        orchestration: Orchestration = value.as_orchestration()
        return orchestration
    if callable(value):
        return PythonOrchestration(value)
    raise DefinitionError(
        "an orchestration is a generator function of the turn, LambdaOrchestration(...) or "
        f"load_flow(...), not {type(value).__name__}"
    )
