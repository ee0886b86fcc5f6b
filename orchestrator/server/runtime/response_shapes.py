"""JSON values of the engine as boto3 would give them, told by botocore's service model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any

Converted = Callable[[Any], Any]

_SERVICE = "bedrock-agent-runtime"


@cache
def get_converter(shape: str) -> Converted:
    """What makes a value of a shape as a handler gives it: times for texts, and no more members.

    Members that the shape does not have are left out: those of agents that inline agents' traces
    do not have, and what knowledge bases and agents elsewhere say besides.

    Args:
        shape: The name of a shape of `bedrock-agent-runtime`.
    """
    return _build_converter(_load_model().shape_for(shape), ()) or _identity


@cache
def _load_model() -> Any:
    from botocore.loaders import create_loader
    from botocore.model import ServiceModel

    return ServiceModel(create_loader().load_service_model(_SERVICE, "service-2"), _SERVICE)


def _build_converter(shape: Any, above: tuple[str, ...]) -> Converted | None:
    """How a value of a shape is converted; `None` when it is told as it is."""
    if shape.type_name == "timestamp":
        return _parse_time
    if shape.name in above:  # filters hold themselves, and are the caller's own
        return None
    if shape.type_name == "structure" and not shape.is_document_type:
        above = (*above, shape.name)
        return _build_structure_converter(
            {name: _build_converter(it, above) for name, it in shape.members.items()}
        )
    if shape.type_name == "list":
        return _build_list_converter(_build_converter(shape.member, (*above, shape.name)))
    return None


def _build_structure_converter(members: Mapping[str, Converted | None]) -> Converted:
    def convert_structure(value: Any) -> Any:
        told = {}
        for name, one in value.items():
            if name in members:
                convert = members[name]
                told[name] = one if convert is None else convert(one)
        return told

    return convert_structure


def _build_list_converter(member: Converted | None) -> Converted | None:
    return None if member is None else lambda value: [member(one) for one in value]


def _identity(value: Any) -> Any:
    return value


def _parse_time(value: Any) -> Any:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
