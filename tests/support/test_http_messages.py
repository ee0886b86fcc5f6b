"""The reader of HTTP/1.1 responses: whole however they are split, and nothing that is unsafe."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.support.http import BadResponse, Disconnected, ResponseReader, encode_head

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def read(*pieces: bytes) -> tuple[ResponseReader, bytes]:
    reader = ResponseReader()
    return reader, b"".join([reader.feed(piece) for piece in pieces])


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    return b"%x%s\r\n%s\r\n" % (len(data), extension, data)


bodies = st.lists(st.binary(min_size=1, max_size=40), max_size=5)
cuts = st.lists(st.integers(0, 300), max_size=8)


def split(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


@given(bodies, cuts, st.sampled_from([b"", b";name=value"]), st.booleans())
def test_chunks_are_put_together_wherever_they_are_cut(pieces, places, extension, trailers):
    end = b"0\r\n" + (b"X-Checksum: 1\r\n" if trailers else b"") + b"\r\n"
    data = CHUNKED + b"".join(chunk(piece, extension) for piece in pieces) + end
    reader, body = read(*split(data, places))
    assert body == b"".join(pieces)
    assert reader.complete and reader.reusable


@given(st.binary(max_size=200), cuts)
def test_a_body_has_the_length_that_it_says(body, places):
    data = OK + b"Content-Length: %d\r\n\r\n" % len(body) + body
    reader, found = read(*split(data, places))
    assert (found, reader.complete, reader.reusable) == (body, True, True)


@given(st.binary(max_size=300), cuts)
def test_any_bytes_are_a_response_or_refused(data, places):
    for begin in (b"", OK, CHUNKED):
        try:
            read(*split(begin + data, places))
        except BadResponse:
            pass


def test_interim_responses_are_passed_over_and_fields_joined():
    reader, body = read(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nA: b\r\n\r\n"
        + OK
        + b"X-A: 1\r\nx-a:2 \r\nContent-Length: 2\r\n\r\nok"
    )
    assert (reader.status, body, reader.headers["x-a"]) == (200, b"ok", "1, 2")


@pytest.mark.parametrize(
    "data",
    [
        OK + b"Content-Length: 2\r\n\r\nokHTTP/1.1 200 OK",
        CHUNKED + b"0\r\n\r\nmore",
        OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ],
)
def test_what_another_request_must_not_meet_ends_the_connection(data):
    reader, _ = read(data)
    assert reader.complete and not reader.reusable


def test_equal_lengths_are_one():
    reader, body = read(OK + b"Content-Length: 2\r\ncontent-length: 2\r\n\r\nok")
    assert (body, reader.complete, reader.reusable) == (b"ok", True, True)


def test_a_body_without_a_length_ends_with_the_connection():
    reader, body = read(OK + b"\r\n", b"a", b"b")
    assert (body, reader.complete) == (b"ab", False)
    reader.finish()
    assert reader.complete and not reader.reusable


@pytest.mark.parametrize(
    "data", [b"", OK, OK + b"Content-Length: 3\r\n\r\nok", CHUNKED + chunk(b"ok"), CHUNKED + b"5\r"]
)
def test_an_end_before_the_responses_is_none(data):
    reader, _ = read(data)
    with pytest.raises(Disconnected):
        reader.finish()


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        OK + b"A b: c\r\n\r\n",
        OK + b"A: b\r\n c\r\n\r\n",
        OK + b"A: b\nC: d\r\n\r\n",
        b"HTTP/1.1 200 OK\nA: b\n\n",
        b"\n",
        OK + b"A: b\r\n\n",
        OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n",
        OK + b"Content-Length: 2, 2,\r\n\r\n",
        OK + b"Content-Length: -2\r\n\r\n",
        OK + b"Content-Length: 2_0\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 9,
        OK + b"A: b\r\n" * 300 + b"\r\n",
        OK + b"A: " + b"b" * 70_000,
        CHUNKED + b"0x5\r\nhello\r\n",
        CHUNKED + b"+5\r\nhello\r\n",
        CHUNKED + b"-5\r\nhello\r\n",
        CHUNKED + b"5 5\r\nhello\r\n",
        CHUNKED + b"5\r\nhelloworld\r\n0\r\n\r\n",
        CHUNKED + b"f" * 17 + b"\r\n",
        CHUNKED + b"5;" + b"x" * 300,
        CHUNKED + b"0\r\n" + b"A: b\r\n" * 20_000,
    ],
)
def test_what_is_no_response_or_may_be_read_in_two_ways_is_refused(data):
    with pytest.raises(BadResponse):
        read(data)
    with pytest.raises(BadResponse):
        read(*(data[place : place + 1] for place in range(len(data))))


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r", "\0"])
def test_no_value_becomes_another_field(end):
    with pytest.raises(ValueError, match="line's end"):
        encode_head("POST", "/", [("A", f"b{end}C: d")])
