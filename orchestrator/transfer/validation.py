"""What the API's own model says a request may hold: lengths, patterns, choices, needed members."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

Keys = tuple[str | int, ...]

# Longest texts where the service's quotas are above what its model says.
_RAISED = {"Instruction": 20_000}

# Enumerations whose real answers hold more than the model names (`ROUTING_CLASSIFIER`).
_OPEN = ("PromptType",)


def find_violations(operation: str, params: Mapping[str, Any]) -> Iterator[tuple[Keys, str]]:
    """What the service would refuse of a request: the way to each value, and what is wrong."""
    return _check_value(get_input_shape(operation), params, ())


@cache
def get_input_shape(operation: str) -> Any:
    """The shape of the request of an operation of `bedrock-agent`."""
    return _load_service().operation_model(operation).input_shape


@cache
def _load_service() -> Any:
    import botocore.session

    return botocore.session.get_session().get_service_model("bedrock-agent")


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
    pattern = shape.metadata.get("pattern")
    if pattern and len(value) <= 2048 and not _compile_pattern(pattern).fullmatch(value):
        yield at, f"is {value[:80]!r}, which is not of the form that Bedrock takes"
    if shape.enum and value not in shape.enum and shape.name not in _OPEN:
        yield at, f"is {value[:80]!r}; Bedrock takes {', '.join(shape.enum)}"


def _check_length(shape: Any, length: int, unit: str, at: Keys) -> Iterator[tuple[Keys, str]]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    most = _RAISED.get(shape.name, most)
    if least is not None and length < least:
        yield at, f"has {length} {unit}, and Bedrock wants at least {least}"
    if most is not None and length > most:
        yield at, f"has {length:,} {unit}, and Bedrock takes at most {most:,}"


@cache
def _compile_pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)
