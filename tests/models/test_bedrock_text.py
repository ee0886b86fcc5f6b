"""Raw-text prompts: InvokeModel for text-completion models, Converse for all others."""

from __future__ import annotations

import asyncio
import base64
import json
import os

import pytest
from forking import run_in_child
from model_requests import CLAUDE, ask, user
from model_servers import aws_stream, event, failure, json_answer

from orchestrator.errors import DependencyFailed, ThrottlingError
from orchestrator.models import BedrockModel, ModelReply
from orchestrator.models.base import Usage

pytestmark = pytest.mark.usefixtures("aws")

PROMPT = "\n\nHuman: Hello\n\nAssistant:"
INFERENCE = {
    "maximumLength": 100,
    "temperature": 0,
    "topP": 1,
    "topK": 250,
    "stopSequences": ["</answer>"],
}
COUNTS = {"x-amzn-bedrock-input-token-count": "7", "x-amzn-bedrock-output-token-count": "2"}
METRICS = {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 7, "outputTokenCount": 2}}
CLAUDE_2 = "anthropic.claude-v2:1"
TITAN = "amazon.titan-text-premier-v1:0"


def raw(**members):
    return ask(user(PROMPT), system="", raw_text=True, inference=INFERENCE, **members)


def test_a_text_model_answers_faster_when_it_is_asked_to(serve):
    completion = {"completion": " Hi.", "stop_reason": "stop_sequence"}
    chunk = event("chunk", {"bytes": base64.b64encode(json.dumps(completion).encode()).decode()})
    server = serve(json_answer(completion), aws_stream(chunk))
    model = BedrockModel(CLAUDE_2, endpoint_url=server.url, latency="optimized")
    model.complete(raw())
    list(model.stream(raw()))
    for asked in server.asked:
        assert asked.headers["x-amzn-bedrock-performanceconfig-latency"] == "optimized"


@pytest.mark.parametrize(
    ("model_id", "answer", "body", "stop_reason"),
    [
        (
            CLAUDE_2,
            {"completion": " Hi.", "stop_reason": "stop_sequence", "stop": "</answer>"},
            {
                "prompt": PROMPT,
                "max_tokens_to_sample": 100,
                "temperature": 0,
                "top_p": 1,
                "top_k": 250,
                "stop_sequences": ["</answer>"],
            },
            "stop_sequence",
        ),
        (
            "anthropic.claude-instant-v1",
            {"completion": " Hi.", "stop_reason": "max_tokens"},
            {
                "prompt": PROMPT,
                "max_tokens_to_sample": 100,
                "temperature": 0,
                "top_p": 1,
                "top_k": 250,
                "stop_sequences": ["</answer>"],
            },
            "max_tokens",
        ),
        (
            TITAN,
            {"results": [{"outputText": " Hi.", "completionReason": "FINISH"}]},
            {
                "inputText": PROMPT,
                "textGenerationConfig": {
                    "maxTokenCount": 100,
                    "temperature": 0,
                    "topP": 1,
                    "stopSequences": ["</answer>"],
                },
            },
            "end_turn",
        ),
    ],
)
def test_each_family_is_asked_in_its_own_shape(serve, model_id, answer, body, stop_reason):
    server = serve(json_answer(answer, **COUNTS))
    model = BedrockModel(model_id, endpoint_url=server.url)
    reply = model.complete(raw())
    assert reply == ModelReply([{"text": " Hi."}], stop_reason, Usage(7, 2, calls=1))
    assert server.asked[0].path.endswith("/invoke")
    assert server.asked[0].json == body
    others = {"prompt": "Another", "inputText": "Another", "max_tokens_to_sample": 10**6}
    model.complete(raw(additional=others))
    assert server.asked[1].json == others | body  # fields of an agent's change none of ours


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_asks_with_threads_of_its_own(serve):
    answer = {"completion": " Hi.", "stop_reason": "stop_sequence"}
    model = BedrockModel(CLAUDE_2, endpoint_url=serve(json_answer(answer)).url)

    async def ask_at_once(times):
        replies = await asyncio.gather(*(model.acomplete(raw()) for _ in range(times)))
        assert [reply.text for reply in replies] == [" Hi."] * times

    asyncio.run(ask_at_once(5))
    assert run_in_child(lambda: asyncio.run(ask_at_once(1))) == 0


def chunk(**value):
    return event("chunk", {"bytes": base64.b64encode(json.dumps(value).encode()).decode()})


@pytest.mark.parametrize(
    ("model_id", "chunks"),
    [
        (
            CLAUDE_2,
            [
                chunk(completion=" Hi", stop_reason=None),
                chunk(completion=".", stop_reason=None),
                chunk(completion="", stop_reason="max_tokens", **METRICS),
            ],
        ),
        (
            TITAN,
            [
                chunk(outputText=" Hi", completionReason=None),
                chunk(outputText=".", completionReason="LENGTH", **METRICS),
            ],
        ),
    ],
)
def test_each_family_streams(serve, model_id, chunks):
    server = serve(aws_stream(*chunks))
    *pieces, reply = BedrockModel(model_id, endpoint_url=server.url).stream(raw())
    assert pieces == [" Hi", "."]
    assert reply == ModelReply([{"text": " Hi."}], "max_tokens", Usage(7, 2, calls=1))
    assert server.asked[0].path.endswith("/invoke-with-response-stream")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (aws_stream(chunk(completion=" Hi", stop_reason=None)), DependencyFailed),
        (aws_stream(chunk(completion=" Hi", stop_reason=None), cut=True), DependencyFailed),
        (aws_stream(event("chunk", {"bytes": "bm90IGpzb24="})), DependencyFailed),
        (aws_stream(failure("throttlingException", "slow down")), ThrottlingError),
    ],
    ids=["ended early", "cut", "not json", "throttled"],
)
def test_a_broken_stream_is_never_an_answer(serve, answer, error):
    model = BedrockModel(CLAUDE_2, endpoint_url=serve(answer).url)
    with pytest.raises(error):
        list(model.stream(raw()))


def test_an_answer_that_is_not_json_is_a_failure(serve):
    server = serve(json_answer("text"))
    with pytest.raises(DependencyFailed, match="no answer of Bedrock's API"):
        BedrockModel(CLAUDE_2, endpoint_url=server.url).complete(raw())


def test_a_raw_prompt_for_any_other_model_is_one_user_message_of_converse(serve):
    answer = {"output": {"message": {"content": [{"text": "Hi."}]}}, "stopReason": "end_turn"}
    server = serve(json_answer(answer))
    assert BedrockModel(CLAUDE, endpoint_url=server.url).complete(raw()).text == "Hi."
    assert server.asked[0].path.endswith("/converse")
    assert server.asked[0].json["messages"] == [{"role": "user", "content": [{"text": PROMPT}]}]


def test_half_a_surrogate_pair_does_not_break_the_request(serve):
    server = serve(json_answer({"completion": "ok", "stop_reason": "stop_sequence"}))
    request = ask(user("a\ud800b"), system="", raw_text=True)
    BedrockModel(CLAUDE_2, endpoint_url=server.url).complete(request)
    assert server.asked[0].json["prompt"] == "a?b"
