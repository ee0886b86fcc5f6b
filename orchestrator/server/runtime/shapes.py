"""JSON values of the engine as boto3 would give them, told by botocore's service model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any

__all__ = ["told_as"]

Converted = Callable[[Any], Any]

_SERVICE = "bedrock-agent-runtime"


@cache
def told_as(shape: str) -> Converted:
    """What makes times of a value's texts, where its shape has timestamps; the rest is shared.

    Members of the value itself that its shape does not have are left out: trace parts of agents
    name them, and those of inline agents do not.

    Args:
        shape: The name of a shape of `bedrock-agent-runtime`.
    """
    model = _model().shape_for(shape)
    convert = _of(model, ()) or _same
    if model.type_name != "structure":
        return convert
    known = frozenset(model.members)
    return lambda value: convert({name: it for name, it in value.items() if name in known})


@cache
def _model() -> Any:
    from botocore.loaders import create_loader
    from botocore.model import ServiceModel

    return ServiceModel(create_loader().load_service_model(_SERVICE, "service-2"), _SERVICE)


def _of(shape: Any, above: tuple[str, ...]) -> Converted | None:
    """How a value of a shape is converted; `None` when nothing in it is a time."""
    if shape.type_name == "timestamp":
        return _time
    if shape.name in above:  # filters and documents hold themselves, and no times
        return None
    if shape.type_name == "structure":
        found = {name: _of(it, (*above, shape.name)) for name, it in shape.members.items()}
        return _in_structure({name: it for name, it in found.items() if it is not None})
    if shape.type_name == "list":
        return _in_list(_of(shape.member, (*above, shape.name)))
    return None


def _in_structure(members: Mapping[str, Converted]) -> Converted | None:
    if not members:
        return None

    def converted(value: Any) -> Any:
        return {name: members[name](one) if name in members else one for name, one in value.items()}

    return converted


def _in_list(member: Converted | None) -> Converted | None:
    return None if member is None else lambda value: [member(one) for one in value]


def _same(value: Any) -> Any:
    return value


def _time(value: Any) -> Any:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
