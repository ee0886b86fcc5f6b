"""Writes what a handler returned, or an error, as an HTTP answer, checked against the model.

A value of the wrong kind, a member that is missing and one that the model does not have cannot be
answered: the handler is wrong. A value of the right kind that is against a length, range, pattern
or enum is answered and logged: it may be a model's or an action's own, and a client that AWS gives
such values takes them.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from botocore.model import OperationModel, Shape, StructureShape

from orchestrator.server.operations import Fault
from orchestrator.server.wire.faults import UNMODELLED, WrongOutput, choose_exception, get_members
from orchestrator.server.wire.shapes import Walks, get_write_walks, operation_model
from orchestrator.server.wire.values import Problems, Walk, format_time

if TYPE_CHECKING:
    from orchestrator.server.wire.streams import MessageStream

_LOG = logging.getLogger("orchestrator.server")
_JSON = "application/json"
_ENCODE = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
).encode
# A pattern of AWS may have 700 characters, which nobody reads in a log.
_LONG = 200
_UNSAFE = re.compile(r"[^\t\x20-\x7e\x80-\xff]")


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An HTTP answer."""

    status: int  # the HTTP status
    headers: dict[str, str] = field(default_factory=dict)  # by their names
    # The whole body, or the pieces of an event stream as they come. Closing that closes what tells
    # the events.
    body: bytes | MessageStream = b""


@cache
def get_response_writer(service: str, operation: str) -> ResponseWriter:
    """The writer of an operation's answers, compiled once."""
    return ResponseWriter(operation_model(service, operation))


class ResponseWriter:
    """Writes the answers of one operation."""

    def __init__(self, model: OperationModel) -> None:
        self.name = model.name
        self.status = int(model.http.get("responseCode", 200))
        self.errors: dict[str, Any] = {shape.name: shape for shape in model.error_shapes}
        self.walks = get_write_walks(model.service_model.service_name)
        self.stream: Any = model.get_event_stream_output()
        shape = model.output_shape
        self._members: Mapping[str, Shape] = shape.members if shape is not None else {}
        self._payload = shape.serialization.get("payload") if shape is not None else None
        self._headers = _list_header_members(self._members, self.walks)
        named = {name for name, *_ in self._headers} | {self._payload}
        body = frozenset(self._members) - named
        self._structure = self.walks.structure(shape, names=body) if shape is not None else None
        self._required = tuple(
            name
            for name in (shape.required_members if shape is not None else ())
            if name in named and not (self.stream is not None and name == self._payload)
        )

    def answer(self, output: Mapping[str, Any]) -> HttpResponse:
        """The answer to a request."""
        problems = Problems()
        headers, rest = self._write_headers(output, problems)
        kind, body = self._write_body(rest, problems)
        check_problems(problems, self.name)
        if body:
            headers.setdefault("Content-Type", kind)
        return HttpResponse(self.status, headers, body)

    def stream_headers(self, members: Mapping[str, Any]) -> dict[str, str]:
        """The headers of an event stream, which tell the answer's other members."""
        problems = Problems()
        headers, rest = self._write_headers(members, problems)
        for name in rest:
            problems.add((None, name), "Member must be one that the answer's headers tell")
        check_problems(problems, self.name)
        return headers

    def _write_headers(
        self, output: Mapping[str, Any], problems: Problems
    ) -> tuple[dict[str, str], dict[str, Any]]:
        rest = {name: value for name, value in output.items() if value is not None}
        for name in self._required:
            if name not in rest:
                problems.add((None, name), "Member must not be null")
        headers: dict[str, str] = {}
        for name, wire, shape, walk in self._headers:
            value = rest.pop(name, None)
            if value is not None:
                walk(value, (None, name), problems)
                text = _to_header_text(shape, value)
                if _UNSAFE.search(text):
                    problems.add((None, name), "Member must have no control characters")
                headers[wire] = text
        return headers, rest

    def _write_body(self, output: dict[str, Any], problems: Problems) -> tuple[str, bytes]:
        if self._payload is None:
            if self._structure is None or self.status == 204:
                result: Any = {}
                for name in output:
                    problems.add((None, name), "Member must not be there: the answer has no body")
                return _JSON, b"" if self.status == 204 else b"{}"
            result = self._structure.walk(output, None, problems)
            return _JSON, encode_json(result, problems)
        value = output.pop(self._payload, None)
        for name in output:
            problems.add((None, name), "Member must not be there")
        if value is None:
            return _JSON, b""
        return _encode_payload(
            self._members[self._payload], self._payload, value, self.walks, problems
        )


def _list_header_members(
    members: Mapping[str, Shape], walks: Walks
) -> list[tuple[str, str, Shape, Walk]]:
    return [
        (name, member.serialization.get("name", name), member, walks.walk(member))
        for name, member in members.items()
        if member.serialization.get("location") == "header"
    ]


def _encode_payload(
    shape: Shape, name: str, value: Any, walks: Walks, problems: Problems
) -> tuple[str, bytes]:
    if shape.type_name == "blob":
        if isinstance(value, bytes | bytearray):
            return "application/octet-stream", bytes(value)
        problems.add((None, name), "Member must be bytes")
    result = walks.walk(shape)(value, (None, name), problems)
    if shape.type_name == "string":
        return "text/plain", str(value).encode()
    return _JSON, encode_json(result, problems)


def _to_header_text(shape: Shape, value: Any) -> str:
    if shape.type_name == "boolean":
        return "true" if value else "false"
    if isinstance(value, datetime):
        form = shape.serialization.get("timestampFormat", "rfc822")
        return str(format_time(value, form))
    return str(value)


def encode_json(value: Any, problems: Problems) -> bytes:
    """JSON; nothing when there are problems, for then it cannot be made."""
    if any(not problem.limit for problem in problems.found):
        return b""
    return _ENCODE(value).encode()


def check_problems(problems: Problems, place: str) -> None:
    """Raises what cannot be answered, and logs, once, what the model would not allow.

    Raises:
        WrongOutput: A value is of the wrong kind, missing, or not in the model.
    """
    if not problems:
        return
    wrong = [f"{it.place}: {it.constraint}" for it in problems.found if not it.limit]
    if wrong:
        raise WrongOutput(f"{place} gave back what it does not model: {'; '.join(wrong)}")
    for problem in problems.found:
        _log_limit(place, re.sub(r"\.\d+\.", ".N.", problem.place), problem.constraint)


@cache
def _log_limit(place: str, path: str, constraint: str) -> None:
    result = constraint if len(constraint) <= _LONG else "Member must have another form"
    _LOG.warning("%s answered what its model does not allow: %s: %s", place, path, result)


def build_error_response(
    fault: Fault, errors: Mapping[str, StructureShape], walks: Walks | None
) -> HttpResponse:
    """The answer to a request that failed, as the nearest exception of those that are modelled."""
    name = choose_exception(fault.name, errors)
    shape = errors.get(name)
    result: dict[str, Any] = {"message": fault.message}
    status = UNMODELLED.get(name, 500)
    if shape is not None and walks is not None:
        status = int(shape.metadata.get("error", {}).get("httpStatusCode", 400))
        known = {n: value for n, value in get_members(fault).items() if n in shape.members}
        result = walks.structure(shape).walk(known, None, Problems())
    body = _ENCODE(result).encode()
    return HttpResponse(status, {"Content-Type": _JSON, "x-amzn-ErrorType": name}, body)
