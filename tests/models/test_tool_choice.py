"""Which tool a model has to use, as each backend says it."""

from __future__ import annotations

import pytest
from model_requests import CLAUDE, TOOLS, ask
from model_servers import json_answer

from orchestrator.models import BedrockModel, OpenAIModel
from orchestrator.models.recording import request_key

NAME = TOOLS[0]["toolSpec"]["name"]
REPLY = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Three."}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 7, "outputTokens": 2, "totalTokens": 9},
}
COMPLETION = {
    "id": "x",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    ],
}


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("choice", [{"auto": {}}, {"any": {}}, {"tool": {"name": NAME}}, None])
def test_bedrock_is_reported_in_its_own_words(serve, choice):
    server = serve(json_answer(REPLY))
    model = BedrockModel(CLAUDE, endpoint_url=server.url)
    model.complete(ask(tools=TOOLS, tool_choice=choice))
    assert server.asked[0].json["toolConfig"].get("toolChoice") == choice
    assert len(server.asked[0].json["toolConfig"]["tools"]) == 1


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"auto": {}}, "auto"),
        ({"any": {}}, "required"),
        ({"tool": {"name": NAME}}, {"type": "function", "function": {"name": NAME}}),
        (None, None),
    ],
)
def test_chat_completions_are_reported_in_theirs(serve, choice, said):
    server = serve(json_answer(COMPLETION))
    model = OpenAIModel("small", f"{server.url}/v1")
    model.complete(ask(tools=TOOLS, tool_choice=choice))
    assert server.asked[0].json.get("tool_choice") == said


def test_a_recording_knows_it():
    keys = {request_key(ask(tools=TOOLS, tool_choice=it)) for it in (None, {"any": {}})}
    assert len(keys) == 2
