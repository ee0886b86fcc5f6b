"""A server in whose environment AWS's address is its own asks nothing of itself."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from loopback import reserve_port
from serving_support import Start, client

from orchestrator.errors import ResourceNotFound
from orchestrator.support.aws import Settings, Target, get_shared_client, serving_at

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"


@pytest.fixture
def port() -> Iterator[int]:
    with reserve_port() as port:
        yield port


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


@pytest.mark.exhaustive
@pytest.mark.parametrize("workers", [1, 2])
def test_what_it_does_not_have_is_not_found(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int, workers: int
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://localhost:{port}")
    state = ("--state", tmp_path / "state.sqlite", "--workers", workers)
    server = start("--port", port, *state)
    runtime, models = client(server.url), client(server.url, "bedrock-runtime")
    message = {"role": "user", "content": [{"text": "Hello"}]}
    for ask, given in (
        (runtime.retrieve, {"knowledgeBaseId": "ELSEWHERE1", "retrievalQuery": {"text": "dogs"}}),
        (models.converse, {"modelId": CLAUDE, "messages": [message]}),
    ):
        with pytest.raises(ClientError, match="start it without AWS_ENDPOINT_URL") as caught:
            ask(**given)
        assert caught.value.response["Error"]["Code"] == "ResourceNotFoundException"
    server.signal()
    _, log = server.end()
    assert log.count("POST") == 2  # no request was its own


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_all_names_of_this_machine_are_its_own(
    monkeypatch: pytest.MonkeyPatch, port: int, name: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", f"http://{name}:{port}")
    target = Target("the function 'f'", "f", "")
    with serving_at(port), pytest.raises(ResourceNotFound):
        get_shared_client(Settings("lambda"), target)
    with serving_at(port):
        other = Settings("lambda", endpoint_url=f"http://{name}:{port}")  # chosen for this one
        assert get_shared_client(other, target)
    assert get_shared_client(Settings("lambda"), target)  # it is another server's now


def test_others_are_asked(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    target = Target("the function 'f'", "f", "")

    def elsewhere(*_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_DGRAM, 0, "", ("192.0.2.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", elsewhere)
    with serving_at(port):
        for url in (f"http://other.example:{port}", "http://127.0.0.1:9"):
            monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", url)
            assert get_shared_client(Settings("lambda"), target).meta.endpoint_url == url
