"""Our own backend for Bedrock, pointed at our own server, is the model behind the server."""

from __future__ import annotations

import asyncio
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inference_support import CLAUDE, REDACTED, THINKS, THOUGHT, TOOL, TOOL_USE

from orchestrator.message import Message
from orchestrator.models import BedrockModel, Model, ModelReply, ModelRequest
from orchestrator.models.base import Usage
from orchestrator.testing import ScriptedModel

pytestmark = pytest.mark.usefixtures("aws")

CONTENTS: list[tuple[str, list[dict[str, Any]]]] = [
    ("end_turn", [{"text": "Zwölf \u2028 😀"}]),
    ("tool_use", [{"text": "I look."}, TOOL_USE]),
    ("tool_use", [TOOL_USE, {"toolUse": {"toolUseId": "t-2", "name": "weather", "input": {}}}]),
    ("tool_use", [THOUGHT, {"text": "I look."}, TOOL_USE]),
    ("end_turn", [REDACTED, THOUGHT, {"text": "Twelve."}]),
    ("max_tokens", [{"text": "Twel"}]),
    ("stop_sequence", [{"text": "<answer>Twelve"}]),
    ("content_filtered", []),
    (
        "malformed_tool_use",
        [{"toolUse": {"toolUseId": "t-1", "name": "weather", "input": '{"city": "Zü'}}],
    ),
]


def ask(**members: Any) -> ModelRequest:
    return ModelRequest("ORCHESTRATION", "Be brief.", [_user("How many?")], **members)


def _user(*texts: str) -> Message:
    return Message("user", [{"text": text} for text in texts])


def whole(model: Model, request: ModelRequest) -> ModelReply:
    return model.complete(request)


def streamed(model: Model, request: ModelRequest) -> ModelReply:
    *pieces, reply = model.stream(request)
    assert isinstance(reply, ModelReply)
    assert "".join(map(str, pieces)) == reply.text
    return reply


def asynchronous(model: Model, request: ModelRequest) -> ModelReply:
    return asyncio.run(model.acomplete(request))


@pytest.mark.parametrize("way", [whole, streamed, asynchronous])
@pytest.mark.parametrize(("reason", "content"), CONTENTS)
def test_a_reply_arrives_as_it_was_given(start, way, reason, content):
    reply = ModelReply(content, reason, Usage(11, 7, 5, 3, 1))
    server = start([reply], chunk=3)
    thinks = any("reasoningContent" in block for block in content)
    model = BedrockModel(CLAUDE, endpoint_url=server.url)
    found = way(model, ask(additional=THINKS if thinks else {}))
    assert found.content == content
    assert found.stop_reason == reason
    assert found.usage == Usage(11, 7, 5, 3, 1)


def test_a_request_arrives_as_it_was_made(start):
    server = start(["ok"])
    result = {"toolUseId": "t-1", "content": [{"text": "rain"}], "status": "success"}
    asked = ModelRequest(
        "ORCHESTRATION",
        "Be brief.",
        [
            _user("How is it?", "There."),
            Message("assistant", [THOUGHT, {"text": "I look."}, TOOL_USE]),
            Message("user", [{"toolResult": result}]),
            Message("assistant", [{"text": "<thinking>"}]),
        ],
        (TOOL,),
        {"maximumLength": 9, "temperature": 0.5, "stopSequences": ["</answer>"]},
        {"top_k": 250, "anthropic_beta": ["x"]},
        tool_choice={"tool": {"name": "weather"}},
    )
    BedrockModel(CLAUDE, endpoint_url=server.url).complete(asked)
    (got,) = server.model.requests
    assert got.system == "Be brief."
    assert got.messages == list(asked.messages)
    assert list(got.tools) == [TOOL]
    assert got.inference == asked.inference
    assert got.additional == asked.additional
    assert got.tool_choice == asked.tool_choice
    assert got.call_format is not None
    assert [one.name for one in got.call_format.operations] == ["weather"]


def test_the_first_words_come_before_the_last(start):
    class Slow(ScriptedModel):
        def stream(self, request: ModelRequest) -> Any:
            yield "First"
            assert heard.wait(60)
            yield " last"
            yield ModelReply([{"text": "First last"}])

    heard = Event()
    server = start(Slow([], CLAUDE))
    pieces = BedrockModel(CLAUDE, endpoint_url=server.url).stream(ask())
    assert next(pieces) == "First"
    heard.set()
    assert next(pieces) == " last"


def test_thoughts_that_nobody_asked_for_are_told_after_the_text(start):
    server = start([[THOUGHT, {"text": "Twelve."}]], chunk=3)
    found = streamed(BedrockModel(CLAUDE, endpoint_url=server.url), ask())
    assert found.content == [{"text": "Twelve."}, THOUGHT]


def test_a_text_completion_arrives_as_it_was_given(start):
    reply = ModelReply([{"text": "Twelve."}], "max_tokens", Usage(3, 2, calls=1))
    for model_id in ("anthropic.claude-v2:1", "amazon.titan-text-express-v1"):
        server = start([reply, reply], chunk=3)
        model = BedrockModel(model_id, endpoint_url=server.url)
        inference = {"maximumLength": 9, "temperature": 0.5, "stopSequences": ["Human:"]}
        asked = ModelRequest("", "", [_user("Human: how many?")], (), inference, raw_text=True)
        assert (whole(model, asked).text, whole(model, asked).stop_reason) == (
            "Twelve.",
            "max_tokens",
        )
        for got in server.model.requests:
            assert got.raw_text
            assert got.messages == [_user("Human: how many?")]
            assert got.inference == inference


def test_a_streamed_text_completion_tells_its_costs(start):
    server = start([ModelReply([{"text": "Twelve."}], "end_turn", Usage(3, 2, calls=1))], chunk=3)
    model = BedrockModel("anthropic.claude-v2:1", endpoint_url=server.url)
    *pieces, reply = model.stream(ModelRequest("", "", [_user("how many?")], raw_text=True))
    assert pieces == ["Twe", "lve", "."]
    assert reply.usage == Usage(3, 2, calls=1)


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
_INPUT = st.dictionaries(st.text(max_size=9), st.integers(-9, 9) | _TEXT, max_size=3)


@st.composite
def _contents(draw: Any) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [{"text": draw(_TEXT)}]
    for number in range(draw(st.integers(0, 3))):
        use = {"toolUseId": f"t-{number}", "name": "weather", "input": draw(_INPUT)}
        blocks.append({"toolUse": use})
    return blocks


def test_any_reply_arrives_streamed(start):
    model = ScriptedModel([], CLAUDE, chunk=2)
    server = start(model)
    backend = BedrockModel(CLAUDE, endpoint_url=server.url)

    @given(_contents())
    def arrives(content: list[dict[str, Any]]) -> None:
        model._replies.append(content)
        assert streamed(backend, ask()).content == content

    arrives()
