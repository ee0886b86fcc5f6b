"""AWS's event streams: frames of bytes to the JSON objects in them, checksums checked.

Format: AWS, "Amazon event stream encoding" (prelude of total length, headers' length and checksum;
headers; payload; checksum).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import Any
from zlib import crc32

from orchestrator.models._encoding import decode
from orchestrator.support.safe_json import read_json_at

_PRELUDE = Struct(">III")
_CHECKSUM = Struct(">I")
_OVERHEAD = 16
_LONGEST = 24 * 1024 * 1024
_LONGEST_HEAD = 16_384  # botocore takes long for it; real ones have a hundred bytes


class Frames:
    """The events of one response, as `{event type: JSON object}`.

    Raises, while it is read, botocore's `EventStreamError` for an exception in the stream and its
    `ParserError` for bytes that are no events.
    """

    def __init__(self, raw: Any, request_id: str = "") -> None:
        """Reads nothing yet; errors have the id that Bedrock gave to the request."""
        self._raw = raw
        self._request_id = request_id

    def close(self) -> None:
        """Closes the response; the connection too, unless the response was read to its end."""
        self._raw.close()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        reader = FrameReader(self._request_id)
        for piece in self._raw.stream():
            yield from reader.feed(piece)


class FrameReader:
    """Reads events from bytes, in whatever pieces they come; errors as `Frames` raises them."""

    def __init__(self, request_id: str = "") -> None:
        """Has read nothing yet."""
        self._request_id = request_id
        self._rest: bytes | bytearray = b""
        # Headers are the same bytes for every event of a kind.
        self._headers: dict[bytes, tuple[str, Any]] = {}

    def feed(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """The events that end in `piece`."""
        data = _join(self._rest, piece) if self._rest else piece
        start, end = 0, len(data)
        while end - start >= _PRELUDE.size:
            size, length, checksum = _PRELUDE.unpack_from(data, start)
            prelude = crc32(data[start : start + 8])
            if (
                prelude != checksum
                or length > _LONGEST_HEAD
                or not _OVERHEAD + length <= size <= _LONGEST
            ):
                raise _build_error("what came is no event")
            stop = start + size
            if stop > end:
                break
            (checksum,) = _CHECKSUM.unpack_from(data, stop - 4)
            if crc32(data[start + 8 : stop - 4], prelude) != checksum:
                raise _build_error("an event's checksum is wrong")
            payload = start + 12 + length
            head = bytes(data[start + 12 : payload])
            kind, headers = self._headers.get(head) or self._read_headers(head)
            if not kind:
                raise _exception(headers, bytes(data[payload : stop - 4]), self._request_id)
            yield {kind: _object(data[payload : stop - 4])}
            start = stop
        self._rest = data[start:] if start else data

    def _read_headers(self, head: bytes) -> tuple[str, Any]:
        from botocore.eventstream import EventStreamHeaderParser

        try:
            headers = EventStreamHeaderParser().parse(head)
        except (ValueError, KeyError, IndexError, StructError):
            raise _build_error("an event's headers cannot be read") from None
        kind = headers.get(":event-type", "") if headers.get(":message-type") == "event" else ""
        found = (kind, headers)
        if len(self._headers) < 64:
            self._headers[head] = found
        return found


def _join(data: bytes | bytearray, piece: bytes) -> bytes | bytearray:
    # A frame may come in ever so many pieces; only few are worth a copy of all for each.
    if len(data) > _SMALL and isinstance(data, bytes):
        data = bytearray(data)
    data += piece
    return data


_SMALL = 65_536


def _object(payload: bytes | bytearray) -> Any:
    if not payload:
        return {}
    try:
        # `json.loads` takes three times as long for a token: it finds out the encoding, and looks
        # for white space.
        text = payload.decode()
        value, end = read_json_at(text)
        if end == len(text):
            return value
    except (ValueError, RecursionError):
        pass
    return _decode_slowly(payload)


def _decode_slowly(payload: bytes | bytearray) -> Any:
    try:
        return decode(payload)
    except ValueError:
        raise _build_error("an event's payload is not JSON") from None


def _exception(headers: Any, payload: bytes, request_id: str) -> Exception:
    from botocore.exceptions import EventStreamError

    if headers.get(":message-type") == "exception":
        told = _object(payload)
        text = told.get("message") or told.get("Message") if isinstance(told, dict) else ""
        code = headers.get(":exception-type", "")
    else:
        code, text = headers.get(":error-code", ""), headers.get(":error-message", "")
    error = {"Code": code, "Message": text or ""}
    response: Any = {"Error": error, "ResponseMetadata": {"RequestId": request_id}}
    return EventStreamError(response, "ConverseStream")


def _build_error(what: str) -> Exception:
    from botocore.eventstream import ParserError

    return ParserError(what)
