"""The API's own model: data in any spelling → members of requests, and what a request may hold.

Templates write `AgentName` or `agent_name`, a block as a list of one, a number as a text: what is
meant follows from the shape of the request's member.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from orchestrator.definition.agent import RAISED_LENGTHS
from orchestrator.errors import DefinitionError
from orchestrator.support.documents import Keys
from orchestrator.support.safe_json import json_or

# Enumerations whose real answers hold more than the model names (`ROUTING_CLASSIFIER`).
_OPEN = ("PromptType",)


def find_violations(operation: str, params: Mapping[str, Any]) -> Iterator[tuple[Keys, str]]:
    """What the service would refuse of a request: the way to each value, and what is wrong."""
    return _check_value(get_input_shape(operation), params, ())


@cache
def get_input_shape(operation: str, service: str = "bedrock-agent") -> Any:
    """The shape of the request of an operation."""
    return _load_service(service).operation_model(operation).input_shape


@cache
def _load_service(name: str) -> Any:
    import botocore.session

    return botocore.session.get_session().get_service_model(name)


def _check_value(shape: Any, value: Any, at: Keys) -> Iterator[tuple[Keys, str]]:
    if shape.type_name == "structure" and isinstance(value, Mapping):
        if not getattr(shape, "is_document_type", False):
            yield from _check_structure(shape, value, at)
    elif shape.type_name == "map" and isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _check_value(shape.key, name, (*at, name))
            yield from _check_value(shape.value, inner, (*at, name))
    elif shape.type_name == "list" and isinstance(value, (list, tuple)):
        yield from _check_length(shape, len(value), "items", at)
        for index, inner in enumerate(value):
            yield from _check_value(shape.member, inner, (*at, index))
    elif shape.type_name == "string" and isinstance(value, str):
        yield from _check_text(shape, value, at)


def _check_structure(shape: Any, value: Mapping[str, Any], at: Keys) -> Iterator[tuple[Keys, str]]:
    for name in shape.required_members:
        if name not in value:
            yield (*at, name), "is missing, and Bedrock needs it"
    for name, inner in value.items():
        if name in shape.members:
            yield from _check_value(shape.members[name], inner, (*at, name))
        else:
            yield (*at, name), "is nothing that Bedrock takes"


def _check_text(shape: Any, value: str, at: Keys) -> Iterator[tuple[Keys, str]]:
    yield from _check_length(shape, len(value), "characters", at)
    if not matches_pattern(shape, value):
        yield at, f"is {value[:80]!r}, which is not of the form that Bedrock takes"
    if shape.enum and value not in shape.enum and shape.name not in _OPEN:
        yield at, f"is {value[:80]!r}; Bedrock takes {', '.join(shape.enum)}"


def matches_pattern(shape: Any, value: str) -> bool:
    """Whether a text is of the form that its shape asks for."""
    pattern = shape.metadata.get("pattern")
    return not pattern or len(value) > 2048 or re.fullmatch(pattern, value) is not None


def _check_length(shape: Any, length: int, unit: str, at: Keys) -> Iterator[tuple[Keys, str]]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    most = RAISED_LENGTHS.get(shape.name, most)
    if least is not None and length < least:
        yield at, f"has {length} {unit}, and Bedrock wants at least {least}"
    if most is not None and length > most:
        yield at, f"has {length:,} {unit}, and Bedrock takes at most {most:,}"


# Members that others call differently, without case and underscores.
_OTHER_NAMES = {
    "maxlength": "maximumLength",
    "parentactionsignature": "parentActionGroupSignature",
}

_MAP_KEY = "map_block_key"


def to_request_members(
    operation: str, data: Mapping[str, Any], left: list[str], *, service: str = "bedrock-agent"
) -> dict[str, Any]:
    """The members of a request; names of members that it does not have are added to `left`.

    Raises:
        DefinitionError: A value stands where a mapping has to be.
    """
    return _convert_structure(get_input_shape(operation, service), data, left)


def _convert_structure(shape: Any, data: Any, left: list[str]) -> dict[str, Any]:
    if isinstance(data, list):  # a block that can stand once
        data = data[0] if data else {}
    names = {_fold_name(name): name for name in shape.members}
    members = {}
    for key, value in _unwrap_functions(_require_mapping(shape, data)).items():
        name = names.get(_OTHER_NAMES.get(_fold_name(key), "").lower() or _fold_name(key))
        if name is None:
            left.append(str(key))
        elif value is not None:
            members[name] = _convert_value(shape.members[name], value, left)
    return {name: value for name, value in members.items() if value is not None}


def _require_mapping(shape: Any, data: Any) -> Mapping[str, Any]:
    if isinstance(data, Mapping):
        return data
    raise DefinitionError(f"{str(data)[:40]!r} stands where a mapping has to be ({shape.name})")


def _unwrap_functions(data: Mapping[str, Any]) -> Mapping[str, Any]:
    # Terraform has a block around the functions of a schema.
    inner = data.get("member_functions")
    if isinstance(inner, list) and inner and isinstance(inner[0], Mapping):
        return inner[0]
    return data


def _convert_value(shape: Any, value: Any, left: list[str]) -> Any:
    kind = shape.type_name
    if getattr(shape, "is_document_type", False):
        return json_or(value, value) if isinstance(value, str) else value
    if kind == "structure":
        return _convert_structure(shape, value, left)
    if kind == "list":
        items = value if isinstance(value, list) else [value]
        return [_convert_value(shape.member, it, left) for it in items if it is not None]
    if kind == "map":
        return _convert_map(shape, value, left)
    return _convert_scalar(kind, value)


def _convert_map(shape: Any, value: Any, left: list[str]) -> Any:
    if isinstance(value, list) and all(map(_has_map_key, value)):
        value = {it[_MAP_KEY]: {k: v for k, v in it.items() if k != _MAP_KEY} for it in value}
    items = _require_mapping(shape, value).items()
    return {
        str(name): _convert_value(shape.value, it, left) for name, it in items if it is not None
    }


def _has_map_key(item: Any) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get(_MAP_KEY), str)


def _convert_scalar(kind: str, value: Any) -> Any:
    # A value of another type that can only mean one thing is converted. Others are left, and the
    # validation reports them.
    if kind == "string":
        return _convert_text(value)
    if kind == "boolean" and isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower(), value)
    if kind in ("integer", "long", "float", "double") and isinstance(value, str):
        with suppress(ValueError):
            return int(value) if kind in ("integer", "long") else float(value)
    if kind in ("integer", "long") and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _convert_text(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):  # a document that somebody has parsed already
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return str(value)


def _fold_name(name: object) -> str:
    return str(name).replace("_", "").lower()
