"""The boto3 client behind BedrockModel: made late, made once, or brought along."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import boto3
import pytest
from botocore.stub import Stubber
from model_requests import CLAUDE, TOOLS, ask, user
from model_servers import json_answer

from orchestrator.errors import ThrottlingError
from orchestrator.models import BedrockModel
from orchestrator.models.bedrock.client import connect

pytestmark = pytest.mark.usefixtures("aws")

REPLY = {
    "output": {"message": {"role": "assistant", "content": [{"text": "ok"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
    "metrics": {"latencyMs": 1},
}


def client_of(model):
    return connect(model._settings, model._target).client


def test_making_a_model_imports_neither_boto3_nor_asyncio():
    code = (
        "import sys; from orchestrator.models import BedrockModel, resolve_model;"
        "BedrockModel('m'); resolve_model('amazon.nova-lite-v1:0');"
        "sys.exit(bool({'asyncio', 'boto3', 'botocore'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_models_with_equal_options_share_one_client_even_when_made_at_once():
    models = [BedrockModel(f"m{n}", endpoint_url="http://127.0.0.1:9") for n in range(8)]
    together = Barrier(8)

    def client(model):
        together.wait()
        return client_of(model)

    with ThreadPoolExecutor(8) as pool:
        clients = set(pool.map(client, models))
    assert len(clients) == 1
    assert client_of(BedrockModel("m", endpoint_url="http://127.0.0.1:10")) not in clients


def test_other_credentials_in_the_environment_are_another_client(monkeypatch):
    model = BedrockModel("m")
    first = client_of(model)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    assert client_of(model) is not first


def test_the_client_waits_longer_than_botocore_and_has_as_many_connections_as_callers():
    config = client_of(BedrockModel("m", max_concurrency=7)).meta.config
    assert config.read_timeout == 300
    assert config.max_pool_connections == 7
    assert config.retries["mode"] == "standard"


@pytest.mark.parametrize(
    ("model_id", "region", "expected"),
    [
        (CLAUDE, None, "eu-central-1"),
        (CLAUDE, "us-west-2", "us-west-2"),
        ("arn:aws:bedrock:ap-south-1:123456789012:inference-profile/x", None, "ap-south-1"),
    ],
)
def test_the_region_is_the_given_one_or_the_arns_or_the_environments(model_id, region, expected):
    assert client_of(BedrockModel(model_id, region=region)).meta.region_name == expected


def test_a_client_of_ones_own_sees_plain_converse_parameters():
    client = boto3.client("bedrock-runtime", region_name="eu-central-1")
    with Stubber(client) as stub:
        expected = {
            "modelId": CLAUDE,
            "system": [{"text": "Be brief."}],
            "inferenceConfig": {"maxTokens": 9},
            "toolConfig": {"tools": TOOLS},
            "messages": [{"role": "user", "content": [{"text": "Hello"}]}],
        }
        stub.add_response("converse", REPLY, expected)
        stub.add_client_error("converse", "ThrottlingException", "slow down", 429)
        model = BedrockModel(CLAUDE, client=client)
        request = ask(user("Hello"), tools=TOOLS, inference={"maximumLength": 9})
        assert model.complete(request).text == "ok"
        with pytest.raises(ThrottlingError, match="slow down"):
            asyncio.run(model.acomplete(request))


def test_a_client_of_ones_own_sends_what_ours_sends(serve):
    server = serve(json_answer(REPLY))
    client = boto3.client("bedrock-runtime", "eu-central-1", endpoint_url=server.url)
    request = ask(user("Hello"), tools=TOOLS, inference={"topK": 9})
    BedrockModel(CLAUDE, client=client).complete(request)
    BedrockModel(CLAUDE, client=client).complete(request)
    BedrockModel(CLAUDE, endpoint_url=server.url).complete(request)
    assert len({asked.body for asked in server.asked}) == 1


def test_other_operations_of_a_client_of_ones_own_are_untouched(serve):
    server = serve(json_answer(REPLY))
    client = boto3.client("bedrock-runtime", "eu-central-1", endpoint_url=server.url)
    BedrockModel(CLAUDE, client=client)
    client.converse(modelId="m", messages=[{"role": "user", "content": [{"text": "mine"}]}])
    assert server.asked[0].json == {"messages": [{"role": "user", "content": [{"text": "mine"}]}]}


def test_many_tasks_wait_at_the_same_time(serve):
    together = Barrier(20)

    def when_all_are_there():
        together.wait(60)
        yield b'{"output":{"message":{"content":[{"text":"ok"}]}}}'

    from model_servers import Answer

    answers = [Answer(when_all_are_there()) for _ in range(20)]
    model = BedrockModel(CLAUDE, endpoint_url=serve(*answers).url)

    async def all_of_them():
        return await asyncio.gather(*(model.acomplete(ask()) for _ in range(20)))

    assert [reply.text for reply in asyncio.run(all_of_them())] == ["ok"] * 20
