"""AWS's event stream encoding, read for ConverseStream.

botocore's own reader parses every event against the service model, 14 µs of CPU for each token;
this one checks the same checksums and decodes the JSON. Format: AWS, "Amazon event stream
encoding" (prelude of total length, headers' length and checksum; headers; payload; checksum).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from struct import Struct
from typing import Any
from zlib import crc32

_PRELUDE = Struct(">III")
_CHECKSUM = Struct(">I")
_OVERHEAD = 16
_LONGEST = 24 * 1024 * 1024


class Frames:
    """The events of one response, as `{event type: JSON object}`.

    Raises, while it is read, botocore's `EventStreamError` for an exception in the stream and its
    `ParserError` for bytes that are no events.
    """

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        # Headers are the same bytes for every event of a kind.
        self._headers: dict[bytes, tuple[str, Any]] = {}

    def close(self) -> None:
        """Closes the response; the connection too, unless the response was read to its end."""
        self._raw.close()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        data = b""
        for piece in self._raw.stream():
            data = data + piece if data else piece
            start = 0
            while (size := _size(data, start)) and start + size <= len(data):
                frame = data[start : start + size]
                start += size
                yield self._event(frame)
            data = data[start:]

    def _event(self, frame: bytes) -> dict[str, Any]:
        length = int.from_bytes(frame[4:8], "big")
        if crc32(frame[:-4]) != _CHECKSUM.unpack(frame[-4:])[0] or length > len(frame) - _OVERHEAD:
            raise _build_error("an event's checksum is wrong")
        head = frame[12 : 12 + length]
        kind, headers = self._headers.get(head) or self._read_headers(head)
        payload = frame[12 + length : -4]
        if not kind:
            raise _exception(headers, payload)
        return {kind: _object(payload)}

    def _read_headers(self, head: bytes) -> tuple[str, Any]:
        from botocore.eventstream import EventStreamHeaderParser

        try:
            headers = EventStreamHeaderParser().parse(head)
        except (ValueError, KeyError, IndexError) as error:
            raise _build_error("an event's headers cannot be read") from error
        kind = headers.get(":event-type", "") if headers.get(":message-type") == "event" else ""
        found = (kind, headers)
        if len(self._headers) < 64:
            self._headers[head] = found
        return found


def _size(data: bytes, start: int) -> int:
    """The size of the frame at `start`; 0 when its prelude has not come whole."""
    if len(data) - start < _PRELUDE.size:
        return 0
    size, _, checksum = _PRELUDE.unpack_from(data, start)
    if crc32(data[start : start + 8]) != checksum or not _OVERHEAD <= size <= _LONGEST:
        raise _build_error("what came is no event")
    return int(size)


def _object(payload: bytes) -> Any:
    try:
        return json.loads(payload) if payload else {}
    except ValueError as error:
        raise _build_error("an event's payload is not JSON") from error


def _exception(headers: Any, payload: bytes) -> Exception:
    from botocore.exceptions import EventStreamError

    if headers.get(":message-type") == "exception":
        error = _object(payload)
        text = error.get("message") or error.get("Message") if isinstance(error, dict) else ""
        code = headers.get(":exception-type", "")
    else:
        code, text = headers.get(":error-code", ""), headers.get(":error-message", "")
    return EventStreamError({"Error": {"Code": code, "Message": text or ""}}, "ConverseStream")


def _build_error(what: str) -> Exception:
    from botocore.eventstream import ParserError

    return ParserError(what)
