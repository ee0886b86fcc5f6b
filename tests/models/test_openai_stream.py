"""Streamed chat completions: pieces as they come, whole replies only, an end when closed."""

from __future__ import annotations

import asyncio
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_requests import ask
from model_servers import Answer, json_answer, sse

from orchestrator.errors import DependencyFailed, ThrottlingError, ValidationError
from orchestrator.models import ModelReply, OpenAIModel
from orchestrator.models._chat_completions import EventReader
from orchestrator.models.base import Usage


def chunk(finish_reason=None, **delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def call(index, identity=None, name=None, arguments=None):
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": identity, "type": "function", "function": function}


USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
WHOLE = [
    chunk(role="assistant", content=""),
    chunk(content="Three "),
    chunk(content="claims."),
    chunk("stop"),
    USAGE,
]
REPLY = ModelReply([{"text": "Three claims."}], "end_turn", Usage(7, 2, calls=1))


def model_at(server):
    return OpenAIModel("small", f"{server.url}/v1")


async def gathered(model):
    return [item async for item in model.astream(ask())]


def test_text_comes_in_pieces_and_the_whole_reply_last(serve):
    server = serve(sse(*WHOLE))
    model = model_at(server)
    assert list(model.stream(ask())) == ["Three ", "claims.", REPLY]
    assert asyncio.run(gathered(model)) == ["Three ", "claims.", REPLY]
    assert server.asked[0].json["stream"] is True
    assert server.asked[0].json["stream_options"] == {"include_usage": True}


def test_calls_are_put_together_from_their_pieces(serve):
    answer = sse(
        chunk(reasoning_content="h"),
        chunk(reasoning_content="m"),
        chunk(tool_calls=[call(0, "c1", "f", "")]),
        chunk(tool_calls=[call(0, arguments='{"a"')]),
        chunk(tool_calls=[call(1, "c2", "g", "{}"), call(0, arguments=": 1}")]),
        chunk("tool_calls"),
    )
    (reply,) = model_at(serve(answer)).stream(ask())
    assert reply.stop_reason == "tool_use"
    assert reply.content == [
        {"reasoningContent": {"reasoningText": {"text": "hm"}}},
        {"toolUse": {"toolUseId": "c1", "name": "f", "input": {"a": 1}}},
        {"toolUse": {"toolUseId": "c2", "name": "g", "input": {}}},
    ]


@pytest.mark.parametrize("index", [0, None])
def test_calls_of_one_index_are_distinguished_by_their_ids(serve, index):
    answer = sse(
        chunk(tool_calls=[call(index, "c1", "f", '{"a"')]),
        chunk(tool_calls=[call(index, arguments=": 1}")]),
        chunk(tool_calls=[call(index, "c2", "g", '{"b"')]),
        chunk(tool_calls=[call(index, "c2", arguments=": 2}")]),
        chunk("tool_calls"),
    )
    (reply,) = model_at(serve(answer)).stream(ask())
    assert reply.stop_reason == "tool_use"
    assert reply.content == [
        {"toolUse": {"toolUseId": "c1", "name": "f", "input": {"a": 1}}},
        {"toolUse": {"toolUseId": "c2", "name": "g", "input": {"b": 2}}},
    ]


def test_arguments_cut_by_the_length_are_kept_as_they_came(serve):
    answer = sse(chunk(tool_calls=[call(0, "c1", "f", '{"a": ')]), chunk("length"))
    (reply,) = model_at(serve(answer)).stream(ask())
    assert reply.stop_reason == "malformed_tool_use"
    assert reply.content[0]["toolUse"]["input"] == '{"a": '


@pytest.mark.parametrize(
    "answer",
    [
        sse(chunk(content="Three "), done=False),
        sse(chunk(content="Three ")),
        sse(chunk(content="Three "), cut=True),
        sse(chunk(tool_calls=[call(0, "c1", "f", '{"a": ')]), cut=True),
        sse(chunk(content="Three "), ["no", "object"]),
        sse(chunk(content="Three "), {"choices": [{"delta": {"tool_calls": [3]}}]}),
        Answer([b"data: {broken\n\n"]),
        Answer([b"\x00\xff garbage" * 1000]),
        json_answer({"choices": []}),
    ],
    ids=[
        "no end",
        "only [DONE]",
        "cut",
        "cut in a call",
        "array",
        "shape",
        "json",
        "bytes",
        "plain",
    ],
)
def test_a_cut_stream_is_never_an_answer(serve, answer):
    server = serve(answer)
    model, message = model_at(server), f"'openai:small' at {server.url}"
    got = []
    with pytest.raises(DependencyFailed, match=message):
        got.extend(model.stream(ask()))
    with pytest.raises(DependencyFailed, match=message):
        asyncio.run(gathered(model))
    assert all(isinstance(item, str) for item in got)


@pytest.mark.parametrize("cut", [True, False])
def test_what_breaks_after_the_end_takes_nothing_from_the_reply(serve, cut):
    answer = sse(*WHOLE, cut=cut, done=False)
    assert list(model_at(serve(answer)).stream(ask()))[-1] == REPLY


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "overloaded"}, DependencyFailed),
        ({"message": "overloaded", "code": 429}, ThrottlingError),
        ({"message": "overloaded", "code": 400}, ValidationError),
        ("overloaded", DependencyFailed),
    ],
)
def test_an_error_in_the_stream_is_reported(serve, error, kind):
    model = model_at(serve(sse(chunk(content="Three "), {"error": error})))
    with pytest.raises(kind, match="overloaded"):
        list(model.stream(ask()))


def endless():
    for number in count():
        yield b'data: {"choices": [{"delta": {"content": "%d"}}]}\n\n' % number * 1000


def test_closing_the_iterator_closes_the_connection(serve):
    server = serve(Answer(endless()))
    stream = model_at(server).stream(ask())
    assert next(stream) == "0"
    stream.close()
    assert server.hung_up.wait(60)


def test_cancelling_the_task_closes_the_connection(serve):
    server = serve(Answer(endless()))
    model = model_at(server)

    async def cancelled():
        async def first(begun):
            async for _ in model.astream(ask()):
                begun.set()
                await asyncio.Event().wait()

        begun = asyncio.Event()
        task = asyncio.create_task(first(begun))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert server.hung_up.wait(60)


def test_a_stream_read_to_its_end_leaves_the_connection_for_the_next(serve):
    server = serve(sse(*WHOLE))
    model = model_at(server)
    for _ in range(3):
        list(model.stream(ask()))
    assert len({asked.peer for asked in server.asked}) == 1


EVENTS = (
    'data: {"a": "\u2028é"}\r\n\r\n: comment\n\nevent: x\ndata:{"b": 2}\n\ndata: [DONE]\n\n'
).encode()


@given(st.lists(st.integers(0, len(EVENTS)), max_size=6))
def test_events_may_be_split_anywhere(cuts):
    reader, bounds = EventReader(), [0, *sorted(cuts), len(EVENTS)]
    found = []
    for start, end in pairwise(bounds):
        found += reader.feed(EVENTS[start:end])
    assert found == [{"a": "\u2028é"}, {"b": 2}]


def test_a_line_without_an_end_is_not_collected_for_ever():
    reader = EventReader()
    with pytest.raises(ValueError, match="too long"):
        for _ in range(20):
            list(reader.feed(b"x" * 1_000_000))
