"""AWS's event-stream encoding: a message of headers and a payload, with two checksums.

No kept library with an encoder installs on Python 3.11, and the format is small: four bytes of the
whole length, four of the headers' length, a CRC-32 of these eight; the headers, each a name, a type
and a value; the payload; a CRC-32 of all before it. Integers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import datetime
from zlib import crc32

HeaderValue = bool | int | str | bytes | datetime

LARGEST_PAYLOAD = 16 * 1024 * 1024
"""Bytes of payload that a message may have: what every decoder takes."""
_LARGEST_HEADERS = 128 * 1024
_LARGEST_VALUE = 0xFFFF
_LARGEST_NAME = 0xFF


def encode_frame(headers: Mapping[str, HeaderValue], payload: bytes) -> bytes:
    """One message.

    Raises:
        ValueError: Something in it is larger than a decoder takes.
    """
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
    told = name.encode()
    if not 0 < len(told) <= _LARGEST_NAME:
        raise ValueError(f"{len(told)} bytes are no length of a header's name: use 1 to 255")
    return bytes((len(told),)) + told + _encode_value(value)


def _encode_value(value: HeaderValue) -> bytes:
    if isinstance(value, bool):
        return b"\0" if value else b"\1"
    if isinstance(value, int):
        return struct.pack("!Bq", 5, value)
    if isinstance(value, datetime):
        return struct.pack("!Bq", 8, round(value.timestamp() * 1000))
    kind, told = (7, value.encode()) if isinstance(value, str) else (6, value)
    if len(told) > _LARGEST_VALUE:
        raise ValueError(f"a header's value of {len(told)} bytes is over the {_LARGEST_VALUE}")
    return struct.pack("!BH", kind, len(told)) + told
