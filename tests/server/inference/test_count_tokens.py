"""CountTokens through boto3: what models count, and those that cannot."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.validate import validate_parameters
from inference_support import CLAUDE, HELLO, NOVA, TOOL, body, served
from model_servers import aws_error, json_answer

from orchestrator.models import BedrockModel
from orchestrator.server.wire.shapes import operation_model
from orchestrator.testing import ScriptedModel

PNG = {"image": {"format": "png", "source": {"bytes": b"PNG"}}}
CONVERSE = {
    "system": [{"text": "Be brief."}],
    "messages": [{"role": "user", "content": [{"text": "Hello"}, PNG]}],
    "toolConfig": {"tools": [TOOL], "toolChoice": {"any": {}}},
    "additionalModelRequestFields": {"top_k": 4},
}
TITAN = "amazon.titan-text-premier-v1:0"


class Counting(ScriptedModel):
    """Counts messages and tools."""

    def count(self, request: Any) -> int:
        self.requests.append(request)
        return 10 * len(request.messages) + len(request.tools)


def test_what_a_model_counts_is_told() -> None:
    with served(Counting([], CLAUDE)) as server:
        count = server.client.count_tokens
        assert count(modelId=CLAUDE, input={"converse": CONVERSE})["inputTokens"] == 11
        given = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 5, "messages": HELLO}
        given["messages"] = [{"role": "user", "content": "Hello"}]
        invoked = {"invokeModel": {"body": json.dumps(given)}}
        assert count(modelId=CLAUDE, input=invoked)["inputTokens"] == 10
        first, second = server.model.requests
        assert first.system == "Be brief." and first.tool_choice == {"any": {}}
        assert second.messages[0]["content"] == [{"text": "Hello"}]


def test_a_model_that_cannot_count_is_no_model_for_it() -> None:
    with served(ScriptedModel([], CLAUDE)) as server:
        with pytest.raises(ClientError, match="cannot count tokens") as error:
            server.client.count_tokens(modelId=CLAUDE, input={"converse": {"messages": HELLO}})
        assert error.value.response["Error"]["Code"] == "ValidationException"
        with pytest.raises(ClientError, match="'messages' is empty"):
            server.client.count_tokens(modelId=CLAUDE, input={"converse": {}})
        with pytest.raises(ClientError, match="not a JSON object"):
            server.client.count_tokens(modelId=CLAUDE, input={"invokeModel": {"body": b"x"}})


@pytest.mark.usefixtures("aws")
def test_bedrocks_models_are_counted_by_bedrock(serve: Any) -> None:
    amazon = serve(json_answer({"inputTokens": 42}))
    with served(BedrockModel(NOVA, endpoint_url=amazon.url)) as server:
        found = server.client.count_tokens(modelId=NOVA, input={"converse": CONVERSE})
    assert found["inputTokens"] == 42
    (asked,) = amazon.asked
    assert asked.path.endswith("/count-tokens")
    sent = asked.json["input"]["converse"]
    assert sent["messages"][0]["content"][1]["image"]["source"]["bytes"] == "UE5H"
    sent["messages"][0]["content"].pop()
    wanted = {**CONVERSE, "messages": [{"role": "user", "content": [{"text": "Hello"}]}]}
    del sent["additionalModelRequestFields"], wanted["additionalModelRequestFields"]
    assert sent == wanted
    shape = operation_model("bedrock-runtime", "CountTokens").input_shape
    validate_parameters({"modelId": NOVA, "input": asked.json["input"]}, shape)


@pytest.mark.usefixtures("aws")
def test_a_text_completion_is_counted_as_one(serve: Any) -> None:
    amazon = serve(json_answer({"inputTokens": 7}))
    given = {"inputText": "Hello", "textGenerationConfig": {"maxTokenCount": 9}}
    with served(BedrockModel(TITAN, endpoint_url=amazon.url)) as server:
        invoked = {"invokeModel": {"body": body(given)["body"]}}
        assert server.client.count_tokens(modelId=TITAN, input=invoked)["inputTokens"] == 7
    assert set(amazon.asked[0].json["input"]) == {"invokeModel"}


@pytest.mark.usefixtures("aws")
def test_what_bedrock_says_of_a_model_that_it_does_not_count_for(serve: Any) -> None:
    wrong = "The provided model doesn't support counting tokens."
    amazon = serve(aws_error("ValidationException", wrong, 400))
    with served(BedrockModel(NOVA, endpoint_url=amazon.url)) as server:
        with pytest.raises(ClientError, match="doesn't support counting") as error:
            server.client.count_tokens(modelId=NOVA, input={"converse": {"messages": HELLO}})
    assert error.value.response["Error"]["Code"] == "ValidationException"
