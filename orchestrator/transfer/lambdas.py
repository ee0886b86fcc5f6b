"""The Lambda functions of an agent, by what they do for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["CUSTOM", "PARSER", "list_lambdas", "select_lambdas"]

PARSER = "overrideLambda"
CUSTOM = "customOrchestration"


def list_lambdas(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The Lambda functions that an agent names, and what for: action groups, or the two others."""
    for group in data.get("actionGroups") or ():
        if arn := (group.get("actionGroupExecutor") or {}).get("lambda"):
            yield str(group.get("actionGroupName")), str(arn)
    overrides = data.get("promptOverrideConfiguration") or {}
    if arn := overrides.get("overrideLambda"):
        yield PARSER, str(arn)
    executor = (data.get("customOrchestration") or {}).get("executor") or {}
    if arn := executor.get("lambda"):
        yield CUSTOM, str(arn)


def select_lambdas(lambdas: Mapping[str, str], agent: str) -> dict[str, str]:
    """Of the functions that were named with `[<agent>/]<what>`, those of one agent."""
    own = f"{agent}/"
    return {
        **{name: arn for name, arn in lambdas.items() if "/" not in name},
        **{name.removeprefix(own): arn for name, arn in lambdas.items() if name.startswith(own)},
    }
