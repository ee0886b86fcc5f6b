"""Writes what a handler returned, or an error, as an HTTP response or as an AWS event stream.

Everything is checked against the service's model. A value of the wrong kind, a missing member and
one that the model does not have cannot be written: the handler is wrong. A value of the right kind
that breaks a length, range, pattern or enum is written and logged: it may come from a model or an
action, and clients of AWS accept such values.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, lru_cache
from typing import Any
from zlib import crc32

from botocore.model import OperationModel, Shape, StructureShape

from orchestrator.server.operations import EventStream, Fault
from orchestrator.server.wire.faults import UNMODELLED, WrongOutput, choose_exception, get_members
from orchestrator.server.wire.shapes import Walks, get_write_walks, operation_model
from orchestrator.server.wire.values import Problems, Walk, format_time
from orchestrator.support.logs import get_logger
from orchestrator.support.user_code import is_own_failure

_LOG = get_logger("orchestrator.server")
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
    # The whole body, or the pieces of an event stream as they come. Closing the stream closes the
    # generator of its events.
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
        self._headers = [
            (name, member.serialization.get("name", name), member, self.walks.walk(member))
            for name, member in self._members.items()
            if member.serialization.get("location") == "header"
        ]
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
        """The headers of an event stream, which hold the answer's other members."""
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
        shape = self._members[self._payload]
        return _encode_payload(shape, self._payload, value, self.walks.walk(shape), problems)


def _encode_payload(
    shape: Shape, name: str, value: Any, walk: Walk, problems: Problems
) -> tuple[str, bytes]:
    """The type and the bytes of the member that is the whole body."""
    if shape.type_name == "blob" and isinstance(value, bytes | bytearray):
        return "application/octet-stream", bytes(value)
    result = walk(value, (None, name), problems)
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


# The name of the events that trace a turn, and of their member with the trace.
_TRACE = "trace"
# Characters that are left of a text that is cut.
_SHORTEST_TEXT = 256


@cache
def get_stream_writer(service: str, operation: str) -> StreamWriter:
    """The writer of an operation's events, compiled once."""
    return StreamWriter(service, operation)


class EventWriter:
    """Writes the events of one name."""

    def __init__(self, name: str, shape: StructureShape, walks: Any, place: str) -> None:
        self._place = f"{place}'s event {name}"
        self._traces = name == _TRACE
        self._start = {":message-type": "event", ":event-type": name}
        self._headers = [n for n, it in shape.members.items() if "eventheader" in it.serialization]
        payloads = [n for n, it in shape.members.items() if "eventpayload" in it.serialization]
        self._payload = payloads[0] if payloads else None
        self._shapes: Mapping[str, Shape] = shape.members
        placed = {*self._headers, *payloads}
        self._body = walks.structure(shape, names=frozenset(shape.members) - placed)
        self._walks: dict[str, Walk] = {name: walks.walk(shape.members[name]) for name in placed}

    def encode(self, members: Mapping[str, Any]) -> bytes:
        """The message of an event."""
        problems = Problems()
        rest = dict(members)
        headers: dict[str, HeaderValue] = dict(self._start)
        for name in self._headers:
            value = rest.pop(name, None)
            if value is not None:
                self._walks[name](value, (None, name), problems)
                headers[name] = value
        kind, payload = self._encode_body(rest, problems)
        if self._traces and len(payload) > LARGEST_PAYLOAD:
            payload = self._shorten_trace(rest)
        check_problems(problems, self._place)
        headers[":content-type"] = kind
        try:
            return encode_frame(headers, payload)
        except ValueError as error:
            raise WrongOutput(f"{self._place}: {error}") from None

    def _shorten_trace(self, members: Mapping[str, Any]) -> bytes:
        """A trace in which the longest texts are cut, so that it is small enough."""
        # A turn must not fail because its trace is too long for one message.
        most = LARGEST_PAYLOAD // 2
        while most >= _SHORTEST_TEXT:
            _, payload = self._encode_body(_shorten_texts(members, most), Problems())
            if len(payload) <= LARGEST_PAYLOAD:
                return payload
            most //= 2
        left = {name: value for name, value in members.items() if name != _TRACE}
        return self._encode_body(left, Problems())[1]

    def _encode_body(self, members: Mapping[str, Any], problems: Problems) -> tuple[str, bytes]:
        name = self._payload
        if name is None:
            return _JSON, encode_json(self._body.walk(members, None, problems), problems)
        rest = dict(members)
        value = rest.pop(name, None)
        self._body.walk(rest, None, problems)
        return _encode_payload(self._shapes[name], name, value, self._walks[name], problems)


class StreamWriter:
    """Writes the event streams of one operation."""

    def __init__(self, service: str, operation: str) -> None:
        out = get_response_writer(service, operation)
        assert out.stream is not None
        self._walks = out.walks
        self._place = operation
        self._errors: dict[str, tuple[str, StructureShape]] = {}
        self._events: dict[str, EventWriter] = {}
        for name, shape in out.stream.members.items():
            if shape.metadata.get("exception"):
                self._errors[shape.name] = (name, shape)
            else:
                self._events[name] = EventWriter(name, shape, out.walks, operation)

    def encode_event(self, name: str, members: Mapping[str, Any]) -> bytes:
        """The message of an event."""
        if name not in self._events:
            raise WrongOutput(f"{self._place} has no event {name!r}, but {sorted(self._events)}")
        return self._events[name].encode(members)

    def encode_error(self, fault: Fault) -> bytes:
        """The message of an exception, as the nearest one that the stream models."""
        known = choose_exception(fault.name, self._errors)
        if known not in self._errors:
            headers = {":message-type": "error", ":error-code": known}
            return encode_frame({**headers, ":error-message": fault.message[:1000]}, b"")
        name, shape = self._errors[known]
        members = {n: value for n, value in get_members(fault).items() if n in shape.members}
        encoded = self._walks.structure(shape).walk(members, None, Problems())
        headers = {":message-type": "exception", ":exception-type": name}
        return encode_frame({**headers, ":content-type": _JSON}, encode_json(encoded, Problems()))


class MessageStream(AsyncIterator[bytes]):
    """The messages of one event stream; the last one is an exception when something failed.

    Closing them closes the events, begun or not.
    """

    def __init__(
        self, writer: StreamWriter, stream: EventStream, fault_of: Callable[[BaseException], Fault]
    ) -> None:
        self._writer = writer
        self._events = stream.events
        self._fault_of = fault_of
        self._done = False

    async def __anext__(self) -> bytes:
        """The next message."""
        if self._done:
            raise StopAsyncIteration
        try:
            name, members = await anext(self._events)
            return self._writer.encode_event(name, members)
        except StopAsyncIteration:
            self._done = True
            raise
        except BaseException as error:
            if not is_own_failure(error):
                raise
            await self.aclose()
            return self._writer.encode_error(self._fault_of(error))

    async def aclose(self) -> None:
        """Closes the generator of the events; nothing follows."""
        self._done = True
        await self._events.aclose()


def _shorten_texts(value: Any, most: int) -> Any:
    """The same value with no text of more characters than that; a cut one says so."""
    if isinstance(value, str):
        more = len(value) - most
        if more <= 0:
            return value
        return (
            f"{value[:most]}... ({more:,} more characters are left out here: an event may have at "
            f"most {LARGEST_PAYLOAD:,} bytes)"
        )
    if isinstance(value, Mapping):
        return {name: _shorten_texts(one, most) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shorten_texts(one, most) for one in value]
    return value


# AWS's event-stream encoding. No maintained library with an encoder installs on Python 3.11, and
# the format is small: four bytes of the whole length, four of the headers' length, a CRC-32 of the
# eight; the headers, each a name, a type and a value; the payload; a CRC-32 of all before it.
# Integers are big-endian.
HeaderValue = bool | int | str | bytes | datetime

LARGEST_PAYLOAD = 16 * 1024 * 1024
"""Bytes of payload that a message may have: what every decoder takes."""
_LARGEST_HEADERS = 128 * 1024
_LARGEST_VALUE = 0xFFFF
_LARGEST_NAME = 0xFF


def encode_frame(headers: Mapping[str, HeaderValue], payload: bytes) -> bytes:
    """One message."""
    head = b"".join(_encode_header(name, value) for name, value in headers.items())
    if len(head) > _LARGEST_HEADERS or len(payload) > LARGEST_PAYLOAD:
        raise ValueError(
            f"an event of {len(payload)} bytes is over the {LARGEST_PAYLOAD} that one message of "
            "an event stream may have: send it in pieces"
        )
    prelude = struct.pack("!II", 16 + len(head) + len(payload), len(head))
    message = b"".join((prelude, struct.pack("!I", crc32(prelude)), head, payload))
    return message + struct.pack("!I", crc32(message))


# Most events have the same few.
@lru_cache(256, typed=True)
def _encode_header(name: str, value: HeaderValue) -> bytes:
    encoded = name.encode()
    if not 0 < len(encoded) <= _LARGEST_NAME:
        raise ValueError(f"{len(encoded)} bytes are no length of a header's name: use 1 to 255")
    return bytes((len(encoded),)) + encoded + _encode_value(value)


def _encode_value(value: HeaderValue) -> bytes:
    if isinstance(value, bool):
        return b"\0" if value else b"\1"
    if isinstance(value, int):
        return struct.pack("!Bq", 5, value)
    if isinstance(value, datetime):
        return struct.pack("!Bq", 8, round(value.timestamp() * 1000))
    kind, encoded = (7, value.encode()) if isinstance(value, str) else (6, value)
    if len(encoded) > _LARGEST_VALUE:
        raise ValueError(f"a header's value of {len(encoded)} bytes is over the {_LARGEST_VALUE}")
    return struct.pack("!BH", kind, len(encoded)) + encoded
