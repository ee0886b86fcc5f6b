"""ConverseStream: pieces as they come, whole replies only, and an end to the work when closed."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from model_requests import CLAUDE, ask
from model_servers import Answer, aws_error, aws_stream, event, failure

from orchestrator.errors import DependencyFailed, ThrottlingError, ValidationError
from orchestrator.models import BedrockModel, ModelReply
from orchestrator.models.base import Usage

pytestmark = pytest.mark.usefixtures("aws")


def delta(index, **member):
    return event("contentBlockDelta", {"delta": member, "contentBlockIndex": index})


def text(words, index=0):
    return delta(index, text=words)


START = event("messageStart", {"role": "assistant"})
END = [
    event("contentBlockStop", {"contentBlockIndex": 0}),
    event("messageStop", {"stopReason": "end_turn"}),
    event("metadata", {"usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}}),
]


def tool(index, name, *pieces):
    start = {"toolUse": {"toolUseId": f"t{index}", "name": name}}
    yield event("contentBlockStart", {"start": start, "contentBlockIndex": index})
    for piece in pieces:
        yield delta(index, toolUse={"input": piece})
    yield event("contentBlockStop", {"contentBlockIndex": index})


def streamed(serve, answer):
    return list(BedrockModel(CLAUDE, endpoint_url=serve(answer).url).stream(ask()))


async def gathered(model):
    return [item async for item in model.astream(ask())]


def test_text_comes_in_pieces_and_the_whole_reply_last(serve):
    server = serve(aws_stream(START, text("Three "), text("claims."), *END))
    model = BedrockModel(CLAUDE, endpoint_url=server.url)

    *pieces, reply = model.stream(ask())

    assert pieces == ["Three ", "claims."]
    whole = ModelReply([{"text": "Three claims."}], "end_turn", Usage(3, 2, calls=1))
    assert reply == whole
    assert server.asked[0].path.endswith("/converse-stream")
    assert asyncio.run(gathered(model)) == ["Three ", "claims.", whole]


def test_tool_calls_reasoning_and_text_are_put_together_in_order(serve):
    answer = aws_stream(
        START,
        delta(0, reasoningContent={"text": "I "}),
        delta(0, reasoningContent={"text": "think."}),
        delta(0, reasoningContent={"signature": "sig"}),
        delta(1, reasoningContent={"redactedContent": "c2VjcmV0"}),
        text("I look.", 2),
        *tool(3, "GET__claims__list", '{"ci', 'ty": "Rome"}'),
        *tool(4, "GET__claims__all"),
        event("messageStop", {"stopReason": "tool_use"}),
    )
    *pieces, reply = streamed(serve, answer)
    assert pieces == ["I look."]
    assert reply.stop_reason == "tool_use"
    assert reply.usage == Usage(calls=1)
    assert reply.content == [
        {"reasoningContent": {"reasoningText": {"text": "I think.", "signature": "sig"}}},
        {"reasoningContent": {"redactedContent": "c2VjcmV0"}},
        {"text": "I look."},
        {"toolUse": {"toolUseId": "t3", "name": "GET__claims__list", "input": {"city": "Rome"}}},
        {"toolUse": {"toolUseId": "t4", "name": "GET__claims__all", "input": {}}},
    ]


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("raw", ['{"city": ', '["Rome"]', '{"n": NaN}', "[" * 100_000])
def test_arguments_that_are_no_object_are_kept_as_they_came(serve, raw):
    answer = aws_stream(
        START, *tool(0, "GET__claims__list", raw), event("messageStop", {"stopReason": "tool_use"})
    )
    (reply,) = streamed(serve, answer)
    assert reply.stop_reason == "malformed_tool_use"
    assert reply.content[0]["toolUse"]["input"] == raw


WHOLE = [START, text("Three "), text("claims."), *END]


@pytest.mark.parametrize(
    "answer",
    [
        aws_stream(START, text("Three ")),
        aws_stream(START, text("Three "), cut=True),
        aws_stream(START, text("Three "), text("claims.")[:-9]),
        aws_stream(START, text("Three "), *tool(1, "GET__claims__list", '{"city": ')),
        aws_stream(START, text("Three "), text("x")[:-1] + b"!", *END),
        Answer([START + text("Three "), b"garbage" * 40]),
    ],
    ids=["ended early", "cut", "cut in a frame", "cut in a call", "wrong checksum", "garbage"],
)
def test_a_cut_stream_is_never_an_answer(serve, answer):
    model = BedrockModel(CLAUDE, endpoint_url=serve(answer).url)
    got = []
    with pytest.raises(DependencyFailed, match=CLAUDE):
        got.extend(model.stream(ask()))
    with pytest.raises(DependencyFailed):
        asyncio.run(gathered(model))
    assert all(isinstance(item, str) for item in got)


@pytest.mark.parametrize("size", range(1, 60, 7))
def test_frames_may_be_split_anywhere(serve, size):
    data = b"".join(WHOLE)
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    answer = Answer(pieces, headers={"Content-Type": "application/vnd.amazon.eventstream"})
    assert streamed(serve, answer)[-1].text == "Three claims."


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("throttlingException", ThrottlingError),
        ("validationException", ValidationError),
        ("modelStreamErrorException", DependencyFailed),
        ("internalServerException", DependencyFailed),
        ("serviceUnavailableException", DependencyFailed),
    ],
)
def test_an_exception_in_the_stream_is_the_error_it_names(serve, name, error):
    answer = aws_stream(START, text("Three "), failure(name, "too many tokens"))
    with pytest.raises(error, match="too many tokens") as caught:
        streamed(serve, answer)
    assert name[1:] in str(caught.value)


def test_a_refusal_before_the_stream_is_the_error_it_names(serve):
    with pytest.raises(ValidationError, match="bad request"):
        streamed(serve, aws_error("ValidationException", "bad request"))


def endless():
    yield START
    for number in count():
        yield text(f"{number} " * 1000)


def test_closing_the_iterator_closes_the_connection(serve):
    server = serve(Answer(endless()))
    stream = BedrockModel(CLAUDE, endpoint_url=server.url).stream(ask())
    assert next(stream).startswith("0 ")
    stream.close()
    assert server.hung_up.wait(60)


def test_cancelling_the_task_closes_the_connection(serve):
    server = serve(Answer(endless()))
    model = BedrockModel(CLAUDE, endpoint_url=server.url)

    async def first():
        async for _ in model.astream(ask()):
            await asyncio.Event().wait()

    async def cancelled():
        task = asyncio.create_task(first())
        while not server.asked:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert server.hung_up.wait(60)


def test_a_stream_read_to_its_end_leaves_the_connection_for_the_next(serve):
    server = serve(aws_stream(*WHOLE))
    model = BedrockModel(CLAUDE, endpoint_url=server.url)
    for _ in range(3):
        list(model.stream(ask()))
    assert len({asked.peer for asked in server.asked}) == 1
