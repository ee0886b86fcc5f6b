"""Event streams, byte by byte as botocore's own decoder reads them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from botocore.eventstream import EventStream as BotocoreStream
from botocore.eventstream import EventStreamBuffer
from botocore.exceptions import EventStreamError
from botocore.model import ServiceModel
from botocore.parsers import EventStreamJSONParser
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shape_values import STREAMED, Operation, values

from orchestrator.errors import DependencyFailed, LimitExceeded, ThrottlingError
from orchestrator.server.operations import EventStream, Fault
from orchestrator.server.wire.faults import WrongOutput, as_fault
from orchestrator.server.wire.responses import (
    LARGEST_PAYLOAD,
    EventWriter,
    MessageStream,
    encode_frame,
    get_stream_writer,
)
from orchestrator.server.wire.shapes import Walks, operation_model

# For each of many operations.
SOME = settings(max_examples=settings().max_examples // 5, suppress_health_check=list(HealthCheck))
WRITTEN = [it for it in STREAMED if it[1] != "InvokeModelWithBidirectionalStream"]
INVOKE = ("bedrock-agent-runtime", "InvokeAgent")


def named(operation: Operation) -> str:
    return "-".join(operation)


class _Raw:
    """The body of an HTTP answer, as botocore's stream takes it."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def stream(self) -> Iterator[bytes]:
        yield from self._pieces

    def close(self) -> None:
        pass


def read_by_botocore(operation: Operation, *pieces: bytes) -> BotocoreStream:
    shape = operation_model(*operation).get_event_stream_output()
    return BotocoreStream(_Raw(list(pieces)), shape, EventStreamJSONParser(), operation[1])


def events_of(operation: Operation) -> dict[str, Any]:
    members = operation_model(*operation).get_event_stream_output().members
    return {name: it for name, it in members.items() if not it.metadata.get("exception")}


def errors_of(operation: Operation) -> dict[str, Any]:
    members = operation_model(*operation).get_event_stream_output().members
    return {name: it for name, it in members.items() if it.metadata.get("exception")}


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(marks)]


HEADER = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.text(st.characters(codec="utf-8"), max_size=30),
    st.binary(max_size=30),
)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)


@given(
    messages=st.lists(
        st.tuples(st.dictionaries(NAMES, HEADER, max_size=4), st.binary(max_size=200)), max_size=4
    ),
    places=st.lists(st.integers(0, 10_000), max_size=6),
)
def test_messages_are_read_however_they_are_cut(
    messages: list[tuple[dict[str, Any], bytes]], places: list[int]
) -> None:
    buffer, read = EventStreamBuffer(), []
    for piece in cut(b"".join(encode_frame(*it) for it in messages), places):
        buffer.add_data(piece)
        read += [(event.headers, event.payload) for event in buffer]
    assert read == messages


def test_a_time_in_a_header_is_milliseconds() -> None:
    buffer = EventStreamBuffer()
    buffer.add_data(encode_frame({"at": datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)}, b""))
    assert next(buffer).headers == {"at": 1767323045678}


@pytest.mark.parametrize(
    ("headers", "payload"),
    [
        ({"": "x"}, b""),
        ({"n" * 256: "x"}, b""),
        ({"n": "x" * 65_536}, b""),
        ({f"n{number}": "x" * 60_000 for number in range(3)}, b""),
        ({}, b"x" * (LARGEST_PAYLOAD + 1)),
    ],
    ids=["no name", "long name", "long value", "many headers", "large payload"],
)
def test_what_no_decoder_takes_is_refused(headers: dict[str, Any], payload: bytes) -> None:
    with pytest.raises(ValueError):
        encode_frame(headers, payload)


def test_the_largest_payload_is_read_by_botocore() -> None:
    buffer = EventStreamBuffer()
    buffer.add_data(encode_frame({}, bytes(LARGEST_PAYLOAD)))
    assert len(next(buffer).payload) == LARGEST_PAYLOAD


@pytest.mark.parametrize("operation", WRITTEN, ids=named)
@SOME
@given(data=st.data())
def test_every_event_is_read_as_it_was_told(operation: Operation, data: st.DataObject) -> None:
    writer = get_stream_writer(*operation)
    kinds = events_of(operation)
    told = [
        (name, data.draw(values(kinds[name])))
        for name in data.draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=3))
    ]
    sent = b"".join(writer.encode_event(*event) for event in told)
    places = data.draw(st.lists(st.integers(0, 10_000), max_size=4))
    assert list(read_by_botocore(operation, *cut(sent, places))) == [{n: it} for n, it in told]


@pytest.mark.parametrize("operation", WRITTEN, ids=named)
def test_every_exception_arrives_as_its_own(operation: Operation) -> None:
    for name, shape in errors_of(operation).items():
        told = get_stream_writer(*operation).encode_error(
            Fault(shape.name, "It \u2260 what was asked.")
        )
        with pytest.raises(EventStreamError) as caught:
            list(read_by_botocore(operation, told))
        error = caught.value.response["Error"]
        assert (error["Code"], error["Message"]) == (name, "It \u2260 what was asked.")


async def _played(operation: Operation, stream: EventStream) -> list[bytes]:
    def to_fault(error: BaseException) -> Fault:
        return as_fault(error, "r-1")

    return [piece async for piece in MessageStream(get_stream_writer(*operation), stream, to_fault)]


def _after_a_chunk(error: Exception) -> EventStream:
    async def events() -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        yield "chunk", {"bytes": b"Hel"}
        raise error

    return EventStream(events())


@pytest.mark.parametrize(
    ("operation", "error", "code"),
    [
        (INVOKE, ThrottlingError("Slow down."), "throttlingException"),
        (INVOKE, DependencyFailed("It broke.", resource="g::f"), "dependencyFailedException"),
        (INVOKE, LimitExceeded("Enough.", limit="model_calls"), "serviceQuotaExceededException"),
        (
            ("bedrock-agent-runtime", "InvokeInlineAgent"),
            Fault("ModelNotReadyException", "Not yet."),
            "dependencyFailedException",
        ),
        (
            ("bedrock-runtime", "InvokeModelWithResponseStream"),
            DependencyFailed("It broke."),
            "modelStreamErrorException",
        ),
        (INVOKE, KeyError("secret"), "internalServerException"),
        (INVOKE, Fault("NoSuchException", "?"), "internalServerException"),
    ],
    ids=lambda it: "" if isinstance(it, tuple) else str(it)[:20],
)
def test_what_goes_wrong_in_mid_stream_is_its_last_message(
    operation: Operation, error: Exception, code: str
) -> None:
    pieces = asyncio.run(_played(operation, _after_a_chunk(error)))
    stream = iter(read_by_botocore(operation, *pieces))
    assert next(stream) == {"chunk": {"bytes": b"Hel"}}
    with pytest.raises(EventStreamError) as caught:
        next(stream)
    assert caught.value.response["Error"]["Code"] == code
    assert "secret" not in str(caught.value)


def test_an_exception_tells_its_other_members() -> None:
    error = DependencyFailed("It broke.", resource="weather::get")
    told = get_stream_writer(*INVOKE).encode_error(as_fault(error, "r-1"))
    buffer = EventStreamBuffer()
    buffer.add_data(told)
    told = json.loads(next(buffer).payload)
    assert told == {"resourceName": "weather::get", "message": "It broke."}


@pytest.mark.parametrize(
    ("name", "members", "says"),
    [
        ("chnuk", {}, "chnuk"),
        ("chunk", {"text": "x"}, "text"),
        ("chunk", {"bytes": "x"}, "bytes"),
        ("returnControl", {"invocationInputs": [{"functionInvocationInput": {}}]}, "actionGroup"),
        ("files", {"files": [{"bytes": bytes(LARGEST_PAYLOAD)}]}, "pieces"),
    ],
    ids=["no such event", "no such member", "wrong kind", "missing", "too large"],
)
def test_an_event_that_is_not_modelled_is_a_mistake_of_ours(
    name: str, members: dict[str, Any], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(WrongOutput, match=says):
        get_stream_writer(*INVOKE).encode_event(name, members)
    caplog.clear()  # a file that is too large is also over the model's limit


@pytest.mark.parametrize("event", [{"bytes": b"x"}, {"bytes": 1}], ids=["closed", "our mistake"])
@pytest.mark.parametrize("reads", [0, 1, 2])
def test_the_events_are_closed_with_the_answer(event: dict[str, Any], reads: int) -> None:
    closed = []

    async def events() -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        try:
            while True:
                yield "chunk", event
        finally:
            closed.append(True)

    async def client() -> None:
        begun = events()
        await anext(begun)
        told = MessageStream(
            get_stream_writer(*INVOKE), EventStream(begun), lambda error: as_fault(error, "r")
        )
        for _ in range(reads):
            await anext(told, None)
        await told.aclose()
        assert await anext(told, None) is None

    asyncio.run(client())
    assert closed == [True]


def test_events_may_have_headers_and_a_payload() -> None:
    """No operation has such events today; the model says how they would be written."""
    model = _model_of_events()
    event = EventWriter("word", model.shape_for("Word"), Walks(writing=True), "Speak")
    raw = event.encode({"loud": True, "count": 3, "sound": b"\xff\0"})
    shape = model.shape_for("Stream")
    parser = EventStreamJSONParser()
    (read,) = BotocoreStream(_Raw([raw]), shape, parser, "Speak")
    assert read == {"word": {"loud": True, "count": 3, "sound": b"\xff\0"}}


def _model_of_events() -> ServiceModel:
    word = {
        "loud": {"shape": "Flag", "eventheader": True},
        "count": {"shape": "Count", "eventheader": True},
        "sound": {"shape": "Sound", "eventpayload": True},
    }
    shapes = {
        "Stream": {
            "type": "structure",
            "eventstream": True,
            "members": {"word": {"shape": "Word"}},
        },
        "Word": {"type": "structure", "event": True, "members": word},
        "Flag": {"type": "boolean"},
        "Count": {"type": "long"},
        "Sound": {"type": "blob"},
    }
    return ServiceModel({"metadata": {}, "operations": {}, "shapes": shapes}, "speech")
