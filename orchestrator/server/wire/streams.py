"""Writes the events of an answer as messages of AWS's event streams."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any
from zlib import crc32

from botocore.model import Shape, StructureShape

from orchestrator.server.operations import EventStream, Fault
from orchestrator.server.wire.faults import WrongOutput, choose_exception, get_members
from orchestrator.server.wire.responses import check_problems, encode_json, get_response_writer
from orchestrator.server.wire.values import Problems, Walk

_TYPES = {"blob": "application/octet-stream", "string": "text/plain"}
# The name of the events that tell of a turn, and of their member that does.
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
        """A trace in which the longest texts are cut, so that it is small enough.

        No turn fails because of what is told about it.
        """
        most = LARGEST_PAYLOAD // 2
        while most >= _SHORTEST_TEXT:
            _, payload = self._encode_body(_shorten_texts(members, most), Problems())
            if len(payload) <= LARGEST_PAYLOAD:
                return payload
            most //= 2
        left = {name: value for name, value in members.items() if name != _TRACE}
        return self._encode_body(left, Problems())[1]

    def _encode_body(self, members: Mapping[str, Any], problems: Problems) -> tuple[str, bytes]:
        rest = dict(members)
        if self._payload is None:
            encoded = self._body.walk(rest, None, problems)
            return "application/json", encode_json(encoded, problems)
        value = rest.pop(self._payload, None)
        encoded = self._walks[self._payload](value, (None, self._payload), problems)
        self._body.walk(rest, None, problems)
        kind = self._shapes[self._payload].type_name
        if kind == "blob":
            payload = bytes(value) if isinstance(value, (bytes, bytearray)) else b""
        else:
            payload = str(value).encode() if kind == "string" else encode_json(encoded, problems)
        return _TYPES.get(kind, "application/json"), payload


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
        return encode_frame(
            {**headers, ":content-type": "application/json"}, encode_json(encoded, Problems())
        )

    def encode_stream(
        self, stream: EventStream, fault_of: Callable[[BaseException], Fault]
    ) -> MessageStream:
        """The messages of a stream; the last one is an exception when something went wrong."""
        return MessageStream(self, stream, fault_of)


class MessageStream(AsyncIterator[bytes]):
    """The messages of one event stream. Closing them closes the events, begun or not."""

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
        except Exception as error:
            await self.aclose()
            return self._writer.encode_error(self._fault_of(error))

    async def aclose(self) -> None:
        """Closes what tells the events; nothing follows."""
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
