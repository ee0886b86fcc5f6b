"""A strict check of JSON against the shapes of AWS's own service models, as botocore ships them."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from botocore.loaders import create_loader
from botocore.model import OperationModel, ServiceModel, Shape
from botocore.parsers import EventStreamJSONParser

_SIZED = {"string": len, "list": len, "map": len, "integer": int, "long": int, "float": float}
# The service itself sends trace ids that are longer than its model says (recorded).
_UNLIKE_THE_SERVICE = frozenset({"TraceId"})
_TYPES = {
    "structure": dict,
    "list": list,
    "map": dict,
    "string": str,
    "boolean": bool,
    "integer": int,
    "long": int,
    "float": (int, float),
    "double": (int, float),
    "timestamp": str,
}


@cache
def service(name: str = "bedrock-agent-runtime") -> ServiceModel:
    return ServiceModel(create_loader().load_service_model(name, "service-2"), name)


def problems(value: Any, shape: str = "TracePart") -> list[str]:
    """Everything in `value` that the shape does not allow."""
    return list(_check(value, service().shape_for(shape), shape))


def _check(value: Any, shape: Shape, at: str) -> Iterator[str]:
    expected = _TYPES[shape.type_name]
    wrong = isinstance(value, bool) and shape.type_name != "boolean"
    if wrong or not isinstance(value, expected):
        yield f"{at}: {type(value).__name__} instead of {shape.type_name}"
        return
    yield from _check_size(value, shape, at)
    if shape.type_name == "structure":
        yield from _check_members(value, shape, at)
    elif shape.type_name == "list":
        for index, item in enumerate(value):
            yield from _check(item, shape.member, f"{at}[{index}]")
    elif shape.type_name == "map":
        for key, item in value.items():
            yield from _check(key, shape.key, f"{at} key {key!r}")
            yield from _check(item, shape.value, f"{at}[{key!r}]")
    elif shape.type_name == "string":
        yield from _check_text(value, shape, at)
    elif shape.type_name == "timestamp":
        yield from _check_time(value, at)


def _check_size(value: Any, shape: Shape, at: str) -> Iterator[str]:
    measure = _SIZED.get(shape.type_name)
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if measure is None or shape.name in _UNLIKE_THE_SERVICE:
        return
    if low is not None and measure(value) < low:
        yield f"{at}: {measure(value)} is under the least {low}"
    if high is not None and measure(value) > high:
        yield f"{at}: {measure(value)} is over the most {high}"


def _check_members(value: dict[str, Any], shape: Any, at: str) -> Iterator[str]:
    for name in value:
        if name not in shape.members:
            yield f"{at}: no member {name!r} in {shape.name}"
    for name in shape.required_members:
        if name not in value:
            yield f"{at}: {name!r} is missing"
    if getattr(shape, "is_tagged_union", False) and len(value) != 1:
        yield f"{at}: {len(value)} members of a union"
    for name, member in shape.members.items():
        if name in value:
            yield from _check(value[name], member, f"{at}.{name}")


def _check_text(value: str, shape: Any, at: str) -> Iterator[str]:
    if shape.enum and value not in shape.enum:
        yield f"{at}: {value!r} is not one of {shape.enum}"
    pattern = shape.metadata.get("pattern")
    if pattern and not re.fullmatch(pattern, value, re.DOTALL):
        yield f"{at}: {value!r} does not match {pattern!r}"
    try:
        value.encode()
    except UnicodeEncodeError:
        yield f"{at}: half a surrogate pair"


def _check_time(value: str, at: str) -> Iterator[str]:
    found = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{9}Z", value)
    if found is None:
        yield f"{at}: {value!r} is not a time with nanoseconds"
    else:
        datetime.datetime.fromisoformat(found[1])


def parsed_by_botocore(part: dict[str, Any], event: str = "trace") -> dict[str, Any]:
    """The part as boto3 would give it to its caller."""
    operation: OperationModel = service().operation_model("InvokeAgent")
    response = {
        "status_code": 200,
        "headers": {":event-type": event, ":message-type": "event"},
        "body": json.dumps(part).encode(),
    }
    parser = EventStreamJSONParser()
    return parser.parse(response, operation.get_event_stream_output())[event]
