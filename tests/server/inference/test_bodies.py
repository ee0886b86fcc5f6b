"""The bodies of InvokeModel: Anthropic's, Converse's, prompts, and those that are none of them."""

from __future__ import annotations

import base64
import json
from contextlib import closing
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st
from inference_support import CLAUDE, REDACTED, THINKS, THOUGHT, TOOL, TOOL_USE, body

from orchestrator.errors import ValidationError
from orchestrator.models import ModelReply
from orchestrator.models.base import Usage
from orchestrator.server.inference.bodies import parse_body

PNG = base64.b64encode(b"\x89PNG").decode()
ANTHROPIC: dict[str, Any] = {
    "anthropic_version": "bedrock-2023-05-31",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Hello"}],
}
NOVA: dict[str, Any] = {"messages": [{"role": "user", "content": [{"text": "Hello"}]}]}
CLAUDE_2 = {"prompt": "\n\nHuman: Hello\n\nAssistant:", "max_tokens_to_sample": 9}
TITAN = {"inputText": "Hello", "textGenerationConfig": {"maxTokenCount": 9}}
REPLY = ModelReply([{"text": "Hi."}, TOOL_USE], "tool_use", Usage(9, 4, 2, 1, 1))


def invoke(server: Any, given: Any) -> Any:
    return json.loads(server.client.invoke_model(**body(given))["body"].read())


def chunks(server: Any, given: Any) -> list[Any]:
    answer = server.client.invoke_model_with_response_stream(**body(given))
    with closing(answer["body"]) as stream:
        return [json.loads(event["chunk"]["bytes"]) for event in stream]


def test_a_message_of_anthropic(start):
    server = start([ModelReply([THOUGHT, REDACTED, *REPLY.content], "tool_use", REPLY.usage)])
    answer = invoke(server, ANTHROPIC)
    assert answer.pop("id").startswith("msg_bdrk_")
    assert answer == {
        "type": "message",
        "role": "assistant",
        "model": CLAUDE,
        "content": [
            {"type": "thinking", "thinking": "Rain?", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "c2VjcmV0"},
            {"type": "text", "text": "Hi."},
            {"type": "tool_use", "id": "t-1", "name": "weather", "input": {"city": "Zürich"}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 9,
            "cache_creation_input_tokens": 1,
            "cache_read_input_tokens": 2,
            "output_tokens": 4,
        },
    }


def test_the_events_of_anthropic(start):
    server = start([ModelReply([THOUGHT, REDACTED, *REPLY.content], "tool_use", REPLY.usage)])
    first, *events, last = chunks(server, {**ANTHROPIC, **THINKS})
    assert first["type"] == "message_start" and first["message"]["content"] == []
    assert [(event["type"], event.get("index")) for event in events] == [
        ("content_block_start", 0),
        ("content_block_delta", 0),
        ("content_block_delta", 0),
        ("content_block_stop", 0),
        ("content_block_start", 1),
        ("content_block_stop", 1),
        ("content_block_start", 2),
        ("content_block_delta", 2),
        ("content_block_stop", 2),
        ("content_block_start", 3),
        ("content_block_delta", 3),
        ("content_block_stop", 3),
        ("message_delta", None),
    ]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert deltas == [
        {"type": "thinking_delta", "thinking": "Rain?"},
        {"type": "signature_delta", "signature": "c2ln"},
        {"type": "text_delta", "text": "Hi."},
        {"type": "input_json_delta", "partial_json": '{"city": "Zürich"}'},
    ]
    assert events[4]["content_block"] == {"type": "redacted_thinking", "data": "c2VjcmV0"}
    assert events[-1]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert events[-1]["usage"] == {"input_tokens": 9, "output_tokens": 4}
    assert last["type"] == "message_stop"
    metrics = last["amazon-bedrock-invocationMetrics"]
    assert (metrics["inputTokenCount"], metrics["outputTokenCount"]) == (9, 4)


def test_what_a_body_of_anthropic_asks(start):
    server = start(["ok"])
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    result = [{"type": "text", "text": "rain"}, {"type": "image", "source": source}]
    pdf = {"type": "base64", "media_type": "application/pdf", "data": PNG}
    note = {"type": "text", "media_type": "text/plain", "data": "A note."}
    invoke(
        server,
        {
            **ANTHROPIC,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "x"}}],
            "temperature": 0,
            "top_p": 0.5,
            "top_k": 7,
            "stop_sequences": ["x"],
            **THINKS,
            "tools": [
                {"name": "weather", "description": "Now.", "input_schema": {"type": "object"}}
            ],
            "tool_choice": {"type": "any"},
            "messages": [
                {"role": "user", "content": "How?"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Rain?", "signature": "c2ln"},
                        {"type": "redacted_thinking", "data": "c2VjcmV0"},
                        {
                            "type": "tool_use",
                            "id": "t-1",
                            "name": "weather",
                            "input": {"city": "Z"},
                        },
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t-1", "content": result},
                        {"type": "tool_result", "tool_use_id": "t-1", "is_error": True},
                        {"type": "document", "title": "paper", "source": pdf},
                        {"type": "document", "source": note},
                    ],
                },
            ],
        },
    )
    (got,) = server.model.requests
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    assert got.system == "Be brief."
    assert got.inference == {
        "maximumLength": 9,
        "temperature": 0,
        "topP": 0.5,
        "topK": 7,
        "stopSequences": ["x"],
    }
    assert got.additional == THINKS
    assert got.tool_choice == {"any": {}}
    assert got.tools[0]["toolSpec"]["inputSchema"] == {"json": {"type": "object"}}
    assert [message["content"] for message in got.messages] == [
        [{"text": "How?"}],
        [
            THOUGHT,
            {"reasoningContent": {"redactedContent": b"secret"}},
            {"toolUse": {"toolUseId": "t-1", "name": "weather", "input": {"city": "Z"}}},
        ],
        [
            {
                "toolResult": {
                    "toolUseId": "t-1",
                    "content": [{"text": "rain"}, image],
                    "status": "success",
                }
            },
            {"toolResult": {"toolUseId": "t-1", "content": [], "status": "error"}},
            {"document": {"format": "pdf", "name": "paper", "source": {"bytes": b"\x89PNG"}}},
            {"document": {"format": "txt", "name": "document", "source": {"text": "A note."}}},
        ],
    ]


def test_converse_as_a_body(start):
    server = start([REPLY, REPLY], chunk=2)
    asked = {
        **NOVA,
        "schemaVersion": "messages-v1",
        "system": "Be brief.",
        "inferenceConfig": {"max_new_tokens": 9, "temperature": 0, "topP": 0.5, "topK": 7},
        "toolConfig": {"tools": [TOOL]},
    }
    answer = invoke(server, asked)
    assert answer["output"]["message"] == {"role": "assistant", "content": REPLY.content}
    assert answer["stopReason"] == "tool_use"
    assert answer["usage"]["totalTokens"] == 16
    (got,) = server.model.requests
    assert got.system == "Be brief."
    assert got.inference == {"maximumLength": 9, "temperature": 0, "topP": 0.5, "topK": 7}
    assert list(got.tools) == [TOOL]
    first, *events, last = chunks(server, asked)
    assert first == {"messageStart": {"role": "assistant"}}
    texts = [it["contentBlockDelta"]["delta"] for it in events if "contentBlockDelta" in it]
    assert "".join(delta.get("text", "") for delta in texts) == "Hi."
    assert events[-1] == {"messageStop": {"stopReason": "tool_use"}}
    assert last["metadata"]["usage"]["inputTokens"] == 9
    assert last["amazon-bedrock-invocationMetrics"]["outputTokenCount"] == 4


def test_images_of_a_converse_body_are_bytes(start):
    server = start(["ok"])
    image = {"image": {"format": "png", "source": {"bytes": PNG}}}
    invoke(server, {"messages": [{"role": "user", "content": [image]}]})
    assert server.model.requests[0].messages[0]["content"] == [
        {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    ]


def test_prompts_as_bodies(start):
    server = start([ModelReply([{"text": "Hi."}], "max_tokens")] * 4)
    assert invoke(server, CLAUDE_2)["completion"] == "Hi."
    assert invoke(server, TITAN)["results"] == [{"outputText": "Hi.", "completionReason": "LENGTH"}]
    *_, last = chunks(server, CLAUDE_2)
    assert last["stop_reason"] == "max_tokens"
    first, _ = chunks(server, TITAN)
    assert (first["outputText"], first["completionReason"]) == ("Hi.", None)
    assert all(request.raw_text for request in server.model.requests)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"prompt": "Hello", "max_gen_len": 9}, "none of the forms"),
        ({"inputText": "embed me"}, "none of the forms"),
        ({"messages": [{"role": "user", "content": "Hello"}]}, "none of the forms"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}, "none of"),
        ({"message": "Hello", "chat_history": []}, "none of the forms"),
        ([], "not a JSON object"),
        ("text", "not a JSON object"),
        ({**ANTHROPIC, "messages": "Hello"}, "'messages' must be a list"),
        ({**ANTHROPIC, "messages": []}, "at least one message"),
        ({**ANTHROPIC, "max_tokens": "many"}, "maxTokens"),
        ({**ANTHROPIC, "top_k": -1}, "'top_k' must be a whole number"),
        ({**ANTHROPIC, "messages": [{"role": "user", "content": [{"type": "video"}]}]}, "'video'"),
        (
            {
                **ANTHROPIC,
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image", "source": {"type": "url", "url": "http://x"}}
                        ],
                    }
                ],
            },
            "is 'base64', or 'text'",
        ),
        ({**ANTHROPIC, "tools": [{"type": "bash_20250124", "name": "bash"}]}, "bash_20250124"),
        ({**CLAUDE_2, "prompt": ["x"]}, "'prompt' must be a text"),
        ({**NOVA, "inferenceConfig": "x"}, "'inferenceConfig' must be an object"),
    ],
)
def test_other_bodies_are_refused_with_a_way_out(start, given, said):
    server = start(["never"])
    for ask in (invoke, chunks):
        with pytest.raises(ClientError, match=said) as caught:
            ask(server, given)
        assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert server.model.requests == []


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "source", "content", "role", "messages", "tools", "input", "id"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_NAMES = st.sampled_from(
    [*ANTHROPIC, "system", "tools", "tool_choice", "top_k", "inferenceConfig", "toolConfig"]
)


@given(st.sampled_from([ANTHROPIC, NOVA, CLAUDE_2, TITAN, {}]), st.dictionaries(_NAMES, _JSON))
def test_any_body_is_understood_or_refused(good, changed):
    try:
        found = parse_body(body({**good, **changed}), "id")
    except ValidationError:
        return
    assert isinstance(found.params, dict)
