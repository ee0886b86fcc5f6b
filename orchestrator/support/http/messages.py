"""Requests and responses of HTTP/1.1 as bytes, without any I/O (RFC 9112)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from orchestrator.support.http.failures import BadResponse, Disconnected

_LONGEST_HEAD = 65_536
_LONGEST_LINE = 256  # a chunk's size with its extensions
_MOST_FIELDS = 256
_MOST_INTERIM = 8  # responses 1xx before the real one

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n\0]*)?")
_BARE_END = re.compile(rb"(?:\A|[^\r])\n")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")
_LENGTH = re.compile("[0-9]{1,18}")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n\0]*)?")
_UNSAFE = re.compile("[\r\n\0]")


def encode_head(method: str, target: str, fields: Iterable[tuple[str, str]]) -> bytes:
    """A request's head.

    Raises:
        ValueError: A part of it has a line's end in it, and would become more fields.
    """
    lines = [f"{method} {target} HTTP/1.1", *[f"{name}: {value}" for name, value in fields]]
    if _UNSAFE.search("".join(lines)):
        raise ValueError("a header field has a line's end in it")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class ResponseReader:
    """Reads one response from a connection's bytes, in whatever pieces they come.

    Attributes:
        status: The status; 0 until the head has come whole.
        headers: The header fields by their names in small letters; equal ones are joined.
        complete: Whether the response has come to its end.
        reusable: Whether the connection may be used again once the response is complete.
    """

    __slots__ = (
        *("_held", "_interim", "_lead", "_left", "_read"),
        *("complete", "headers", "reusable", "status"),
    )

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.complete = False
        self.reusable = False
        self._held = bytearray()  # of a part that has not come whole
        self._interim = 0
        self._left = 0  # bytes of the body, or of its chunk, that are still to come
        self._lead = 0  # the line's end between a chunk's data and the next chunk's size
        self._read: Callable[[bytes], bytes] = self._read_head

    def feed(self, data: bytes) -> bytes:
        """Takes what came; returns what of the body is in it.

        Raises:
            BadResponse: It is no response.
        """
        return self._read(data)

    def finish(self) -> None:
        """Takes the connection's end.

        Raises:
            Disconnected: It came before the response's.
        """
        if self._read == self._read_rest:
            self.complete = True
        if not self.complete:
            raise Disconnected("the connection ended before the response did")

    def _read_head(self, data: bytes) -> bytes:
        held = self._held
        seen = max(len(held) - 3, 0)
        held += data
        end = held.find(b"\r\n\r\n", seen)
        if end < 0 and _BARE_END.search(held, seen):  # such a head may never end
            raise BadResponse("a line of the response's head has a wrong end")
        if (len(held) if end < 0 else end) > _LONGEST_HEAD:
            raise BadResponse("the response's head is too long")
        if end < 0:
            return b""
        head, rest = bytes(held[:end]), bytes(held[end + 4 :])
        held.clear()
        self._take_head(head)
        return self._read(rest) if rest else b""

    def _take_head(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n", _MOST_FIELDS + 1)
        found = _STATUS.fullmatch(first)
        if found is None or len(lines) > _MOST_FIELDS:
            raise BadResponse("what came is no response of HTTP/1.1")
        status = int(found[2])
        if 100 <= status < 200:
            self._interim += 1
            if status == 101 or self._interim > _MOST_INTERIM:
                raise BadResponse("the server answers with interim responses only")
            return
        headers = self.headers
        for line in lines:
            field = _FIELD.fullmatch(line)
            if field is None:
                raise BadResponse("a header field of the response is none")
            name, value = field[1].decode("ascii").lower(), field[2].decode("latin-1").rstrip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        self.status = status
        self._choose_body(modern=found[1] == b"1")

    def _choose_body(self, *, modern: bool) -> None:
        headers = self.headers
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        self.reusable = modern and "close" not in headers.get("connection", "").lower()
        if self.status in (204, 304):
            self._end(b"")
        elif coding is not None:
            if coding.lower() != "chunked" or length is not None or not modern:
                raise BadResponse("the response's length is told in an unknown or an unsafe way")
            self._read = self._read_chunks
        elif length is not None:
            first, *others = re.split("[ \t]*,[ \t]*", length)
            if not _LENGTH.fullmatch(first) or any(other != first for other in others):
                raise BadResponse("the response's length is no number, or two")
            self._left = int(first)
            self._read = self._read_length
            if not self._left:
                self._end(b"")
        else:
            self.reusable = False
            self._read = self._read_rest

    def _end(self, more: bytes | bytearray) -> None:
        self.complete = True
        self._read = self._refuse
        self._refuse(more)

    def _refuse(self, data: bytes | bytearray) -> bytes:
        # What nobody asked for may be an answer to somebody else's request.
        if data:
            self.reusable = False
        return b""

    def _read_length(self, data: bytes) -> bytes:
        left = self._left
        self._left = left - len(data)
        if self._left > 0:
            return data
        self._end(data[left:])
        return data[:left]

    def _read_rest(self, data: bytes) -> bytes:
        return data

    def _read_chunks(self, data: bytes) -> bytes:
        if self._held:
            data = bytes(self._held) + data
            self._held.clear()
        pieces = []
        at = 0
        while True:
            if self._left:
                piece = data[at : at + self._left]
                at += len(piece)
                self._left -= len(piece)
                pieces.append(piece)
                if self._left:
                    break
            start = at + self._lead
            end = data.find(b"\r\n", start, start + _LONGEST_LINE)
            if end < 0:
                self._hold_line(data[at:])
                break
            found = _CHUNK.fullmatch(data, start, end)
            if found is None or (self._lead and data[at:start] != b"\r\n"):
                raise BadResponse("a chunk of the response is none")
            self._left = int(found[1], 16)
            self._lead, at = 2, end + 2
            if not self._left:
                # With the line's end before them, no trailers are an empty line, too.
                self._read = self._read_trailers
                self._read_trailers(data[end:])
                break
        return b"".join(pieces)

    def _hold_line(self, line: bytes) -> None:
        if len(line) > _LONGEST_LINE:
            raise BadResponse("a chunk's line is too long")
        self._held += line

    def _read_trailers(self, data: bytes) -> bytes:
        held = self._held
        seen = max(len(held) - 3, 0)
        held += data
        end = held.find(b"\r\n\r\n", seen)
        if len(held) > _LONGEST_HEAD:
            raise BadResponse("the response's trailers are too long")
        if end >= 0:
            self._end(held[end + 4 :])
        return b""
