"""Schemas of action groups: compared by what they say, made of functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from orchestrator.actions import Operation
from orchestrator.errors import DefinitionError
from orchestrator.support.documents import Rules, parse

_RULES = Rules(aliases=True, any_names=False)


def is_same_schema(one: str, other: str) -> bool:
    """Whether two texts of API schemas say the same, however they are written."""
    if one == other:
        return True
    try:
        # What is JSON is YAML, too.
        return bool(parse(one, rules=_RULES).data == parse(other, rules=_RULES).data)
    except DefinitionError:
        return False


def to_function_schema(operations: Iterable[Operation]) -> dict[str, Any]:
    """Bedrock's `functionSchema` of functions in Python."""
    functions = [
        {
            "name": operation.name,
            "description": operation.description,
            "requireConfirmation": "ENABLED" if operation.require_confirmation else "DISABLED",
            "parameters": {
                it.name: {
                    "type": it.type if it.type != "object" else "string",
                    "description": it.description,
                    "required": it.required,
                }
                for it in operation.parameters
            },
        }
        for operation in operations
    ]
    return {"functions": functions}
