"""Random values of the shapes of AWS's service models, and botocore's own side of the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from botocore.awsrequest import HeadersDict, create_request_object, prepare_request_dict
from botocore.model import OperationModel, Shape
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from hypothesis import strategies as st

from orchestrator.server.wire.shapes import SERVICES, operation_model, service_model
from orchestrator.server.wire.values import compile_pattern

Operation = tuple[str, str]
ALL: list[Operation] = [
    (service, name) for service in SERVICES for name in service_model(service).operation_names
]
# boto3 has no call for an event stream of requests: it needs HTTP/2.
CALLED = [it for it in ALL if it[1] != "InvokeModelWithBidirectionalStream"]
STREAMED = [it for it in ALL if operation_model(*it).get_event_stream_output() is not None]

_TEXT = st.characters(codec="utf-8")
_HEADER = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=20)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(_TEXT, max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(_TEXT, max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)
# Texts that a strategy would seldom find: long enough, or of a category that has no class.
_KNOWN = {
    r"^\P{C}*$": st.text(st.characters(exclude_categories=("C",)), min_size=1, max_size=9),
    r"\p{L}[\p{L}\p{M}0-9_]*( [\p{L}\p{M}0-9_]+)*": st.just("Grüße 1"),
    r"[^\p{C}]*": st.text(st.characters(exclude_categories=("C",)), max_size=9),
}


@cache
def values(shape: Shape, depth: int = 0) -> st.SearchStrategy[Any]:
    """What a boto3 caller may give for a shape."""
    if getattr(shape, "is_document_type", False):
        return st.dictionaries(st.text(_TEXT, max_size=3), _JSON, max_size=3)
    return _MAKERS[shape.type_name](shape, depth)


def _structure(shape: Any, depth: int) -> st.SearchStrategy[Any]:
    @cache
    def member(name: str) -> st.SearchStrategy[Any]:
        found: Any = shape.members[name]
        if found.serialization.get("location") in ("header", "uri") and found.type_name == "string":
            return values(found).filter(_fits_in_header) if _limited(found) else _HEADER
        return values(found, depth + 1)

    names = [n for n, it in shape.members.items() if not it.serialization.get("eventstream")]
    names = [n for n in names if not getattr(shape.members[n], "is_eventstream", False)]
    if shape.is_tagged_union:
        flat = [n for n in names if depth < 4 or shape.members[n].type_name not in _DEEP] or names
        return st.sampled_from(flat).flatmap(lambda n: st.fixed_dictionaries({n: member(n)}))
    required = [n for n in names if n in shape.required_members]
    optional = [
        n
        for n in names
        if n not in required and (depth < 3 or shape.members[n].type_name not in _DEEP)
    ]
    return st.fixed_dictionaries(
        {n: st.deferred(lambda n=n: member(n)) for n in required},
        optional={n: st.deferred(lambda n=n: member(n)) for n in optional},
    )


_DEEP = ("structure", "list", "map")


def _limited(shape: Any) -> bool:
    return bool(shape.enum or "pattern" in shape.metadata or shape.metadata.get("min", 0) > 1)


def _fits_in_header(text: str) -> bool:
    return text == text.strip() and text.isascii() and text.isprintable() and text != ""


def _list(shape: Any, depth: int) -> st.SearchStrategy[Any]:
    low = shape.metadata.get("min", 0)
    high = min(shape.metadata.get("max", low + 2), low + (2 if depth < 3 else 0))
    return st.lists(
        st.deferred(lambda: values(shape.member, depth + 1)), min_size=low, max_size=max(low, high)
    )


def _map(shape: Any, depth: int) -> st.SearchStrategy[Any]:
    low = shape.metadata.get("min", 0)
    part = st.deferred(lambda: values(shape.value, depth + 1))
    high = min(shape.metadata.get("max", low + 1), low + 1)
    return st.dictionaries(values(shape.key), part, min_size=low, max_size=max(low, high))


def _string(shape: Any, depth: int) -> st.SearchStrategy[str]:
    if shape.enum:
        return st.sampled_from(list(shape.enum))
    return _strings(
        shape.metadata.get("pattern"), shape.metadata.get("min", 0), shape.metadata.get("max")
    )


@cache
def _strings(pattern: str | None, low: int, high: int | None) -> st.SearchStrategy[str]:
    if pattern is None:
        return st.text(_TEXT, min_size=low, max_size=max(low, min(low + 5, high or low + 5)))
    if pattern in _KNOWN:
        return _KNOWN[pattern]
    sizes = range(low, min(low + 3, high or low) + 1)
    plain = ["a" * size for size in sizes if size > 1 and compile_pattern(pattern)("a" * size)]
    if plain:
        return st.sampled_from(plain)
    python = pattern.replace("/d", r"\d")
    if python.startswith(".*(^"):  # nothing can be before a beginning, which takes long to find out
        python = python.removeprefix(".*").removesuffix(".*")
    found = st.from_regex(python, fullmatch=True, alphabet=_TEXT)
    return found.filter(lambda text: low <= len(text) <= (high or 2000))


def _whole(shape: Any, depth: int) -> st.SearchStrategy[int]:
    bits = 31 if shape.type_name == "integer" else 63
    low, high = shape.metadata.get("min", -(2**bits)), shape.metadata.get("max", 2**bits - 1)
    return st.integers(int(low), int(high))


def _number(shape: Any, depth: int) -> st.SearchStrategy[float]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    return st.floats(low, high, allow_nan=False, allow_infinity=False)


def _time(shape: Any, depth: int) -> st.SearchStrategy[datetime]:
    found = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))
    if shape.serialization.get("timestampFormat") == "iso8601":
        return found
    return found.map(lambda it: it.replace(microsecond=0))


def _blob(shape: Any, depth: int) -> st.SearchStrategy[bytes]:
    low = shape.metadata.get("min", 0)
    return st.binary(min_size=low, max_size=low + 20)


_MAKERS: dict[str, Any] = {
    "structure": _structure,
    "list": _list,
    "map": _map,
    "string": _string,
    "integer": _whole,
    "long": _whole,
    "float": _number,
    "double": _number,
    "boolean": lambda shape, depth: st.booleans(),
    "timestamp": _time,
    "blob": _blob,
}


def sent(model: OperationModel, params: dict[str, Any]) -> tuple[Any, ...]:
    """Method, raw path, query, headers and body of the request that botocore would send."""
    made = create_serializer("rest-json").serialize_to_request(params, model)
    prepare_request_dict(made, "http://127.0.0.1:1")
    prepared = create_request_object(made).prepare()
    url = urlsplit(prepared.url)
    headers = {name.lower(): str(value) for name, value in prepared.headers.items()}
    body = prepared.body or b""
    return prepared.method, url.path, url.query, headers, bytes(body)


def parsed(model: OperationModel, status: int, headers: dict[str, str], body: bytes) -> Any:
    """What botocore makes of an answer."""
    told = BytesIO(body) if model.has_streaming_output and status < 300 else body
    response = {"status_code": status, "headers": HeadersDict(headers), "body": told}
    found = create_parser("rest-json").parse(response, model.output_shape)
    found.pop("ResponseMetadata")
    return {name: it.read() if it is told else it for name, it in found.items()}
