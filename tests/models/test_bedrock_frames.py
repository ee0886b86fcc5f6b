"""The reader of AWS's event streams, against botocore's own and against any bytes."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer, ParserError
from botocore.exceptions import EventStreamError
from hypothesis import given
from hypothesis import strategies as st
from model_servers import event, failure, frame

from orchestrator.models.bedrock.frames import Frames


class Raw:
    """An HTTP response as urllib3 hands it over, in the given pieces."""

    def __init__(self, data: bytes, cuts: list[int]) -> None:
        self._data = data
        self._bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
        self.closed = False

    def stream(self):
        for start, end in pairwise(self._bounds):
            yield self._data[start:end]

    def close(self):
        self.closed = True


kinds = st.sampled_from(["messageStart", "contentBlockDelta", "messageStop"])
values = st.recursive(st.none() | st.integers() | st.text(), lambda v: st.lists(v), max_leaves=5)
events = st.lists(st.tuples(kinds, st.dictionaries(st.text(), values, max_size=3)), max_size=6)
cuts = st.lists(st.integers(0, 10_000), max_size=6)


@given(events, cuts)
def test_it_reads_what_botocore_reads_however_the_bytes_are_split(said, cuts):
    data = b"".join(event(kind, payload) for kind, payload in said)
    theirs = EventStreamBuffer()
    theirs.add_data(data)
    expected = [{e.headers[":event-type"]: json.loads(e.payload)} for e in theirs]
    assert list(Frames(Raw(data, cuts))) == expected == [{kind: value} for kind, value in said]


@given(st.binary(max_size=200), cuts)
def test_any_bytes_are_events_or_a_parser_error(data, cuts):
    try:
        assert list(Frames(Raw(data, cuts))) == []
    except ParserError:
        pass


@given(st.integers(0, 200), st.integers(1, 255))
def test_any_changed_byte_is_noticed(place, change):
    data = bytearray(event("contentBlockDelta", {"delta": {"text": "Three claims."}}))
    data[place % len(data)] ^= change
    try:
        found = list(Frames(Raw(bytes(data), [])))
    except ParserError:
        return
    assert found == []  # the length grew: the rest never came


def frame_of(head: bytes) -> bytes:
    prelude = struct.pack(">II", 18 + len(head), len(head))
    prelude += struct.pack(">I", crc32(prelude))
    message = prelude + head + b"{}"
    return message + struct.pack(">I", crc32(message))


EVENT = b"\x0d:message-type\x07\x00\x05event"


@pytest.mark.parametrize("kind", range(12))
def test_headers_that_cannot_be_read_are_a_parser_error(kind):
    for value in (b"", b"\0", b"\xff\xffab", b"\xff" * 8):
        head = EVENT + b"\x0b:event-type" + bytes([kind]) + value
        try:
            list(Frames(Raw(frame_of(head), [])))
        except (ParserError, EventStreamError):
            pass


def test_a_long_head_is_refused_before_it_has_come():
    head = EVENT + b"\x01a\x00" * 6_000
    with pytest.raises(ParserError):
        list(Frames(Raw(frame_of(head)[:20], [])))


def test_an_exception_comes_after_the_events_before_it():
    data = event("messageStart", {}) + failure("throttlingException", "slow down")
    frames = iter(Frames(Raw(data, [])))
    assert next(frames) == {"messageStart": {}}
    with pytest.raises(EventStreamError) as caught:
        next(frames)
    assert caught.value.response["Error"] == {"Code": "throttlingException", "Message": "slow down"}


def test_an_error_without_a_payload_is_reported_by_its_headers():
    headers = {
        ":message-type": "error",
        ":error-code": "InternalFailure",
        ":error-message": "it broke",
    }
    with pytest.raises(EventStreamError, match="it broke"):
        list(Frames(Raw(frame(headers, b""), [])))


@pytest.mark.parametrize("payload", [b"[]", b'"text"', b"{}"])
def test_an_exception_without_a_message_is_still_one(payload):
    headers = {":message-type": "exception", ":exception-type": "validationException"}
    with pytest.raises(EventStreamError, match="validationException"):
        list(Frames(Raw(frame(headers, payload), [])))


def test_closing_closes_the_response():
    raw = Raw(b"", [])
    Frames(raw).close()
    assert raw.closed
