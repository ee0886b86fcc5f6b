"""The data types of inputs and outputs (Bedrock: FlowNodeIODataType)."""

from __future__ import annotations

from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "String": str,
    "Number": (int, float),
    "Boolean": bool,
    "Object": dict,
    "Array": list,
}


def is_of_type(value: Any, type: str) -> bool:
    """Whether a value is of a data type."""
    # `True` is a number for Python, and none for JSON.
    if isinstance(value, bool):
        return type == "Boolean"
    return isinstance(value, _TYPES[type])


def name_type(value: Any) -> str:
    """The data type of a value; `null` for none."""
    return next((name for name in _TYPES if is_of_type(value, name)), "null")
