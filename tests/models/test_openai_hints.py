"""A key that is missing, and a model that the server does not have: what would help."""

from __future__ import annotations

import asyncio
import json

import pytest
from model_requests import ask
from model_servers import Answer, json_answer

from orchestrator.errors import AccessDenied, OrchestratorError, ResourceNotFound
from orchestrator.models import OpenAIModel

MISSING = json_answer({"error": {"message": "model 'lama3.1' not found"}}, 404)


def names(*ids):
    return json_answer({"object": "list", "data": [{"id": one} for one in ids]})


def failure_of(model, asynchronous=False) -> OrchestratorError:
    with pytest.raises(OrchestratorError) as caught:
        if asynchronous:
            asyncio.run(model.acomplete(ask()))
        else:
            model.complete(ask())
    return caught.value


@pytest.fixture
def no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_without_a_key_openai_is_not_asked(no_key, asynchronous):
    failure = failure_of(OpenAIModel("gpt-4.1"), asynchronous)
    assert type(failure) is AccessDenied and not failure.signed_in
    assert "set the environment variable OPENAI_API_KEY" in failure.message
    assert "'openai:gpt-4.1@http://localhost:11434/v1', with its base URL" in failure.message


@pytest.mark.parametrize(
    ("environment", "key", "expected"),
    [
        ("", None, "wants a key (HTTP 401), and none was sent: set the environment variable OPEN"),
        ("canary-1", None, "refused the key in OPENAI_API_KEY (HTTP 401)"),
        ("", "canary-2", "refused the key that was passed (api_key=...) (HTTP 401)"),
    ],
)
def test_a_refused_key_is_named_by_where_it_is_from(serve, monkeypatch, environment, key, expected):
    monkeypatch.setenv("OPENAI_API_KEY", environment)
    server = serve(json_answer({"error": {"message": "no"}}, 401))
    failure = failure_of(OpenAIModel("m", server.url, api_key=key))
    assert type(failure) is AccessDenied and expected in failure.message
    assert "canary" not in failure.message


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_model_that_is_not_there_is_told_from_those_that_are(serve, asynchronous):
    server = serve(MISSING)
    server.listing = names("qwen3", "llama3.1:8b")
    failure = failure_of(OpenAIModel("lama3.1:8b", f"{server.url}/v1"), asynchronous)
    assert type(failure) is ResourceNotFound
    assert failure.message == (
        f"the server at {server.url}/v1 has no model 'lama3.1:8b': did you mean 'llama3.1:8b'? "
        "It has 'llama3.1:8b', 'qwen3'"
    )
    assert server.listed == ["/v1/models"]
    assert len(server.asked) == 1


def test_of_many_models_ten_are_shown(serve):
    server = serve(MISSING)
    server.listing = names(*(f"model-{number:02}" for number in range(40)))
    message = failure_of(OpenAIModel("xyz", server.url)).message
    assert message.endswith("'model-09' and 30 more") and "did you mean" not in message


LONG = "m" * 900


@pytest.mark.parametrize(
    "listing",
    [
        Answer(b"", 501),
        Answer(b"no json"),
        Answer(b'{"data": [3, {"id": 4}, {}]}'),
        Answer(b"[" * 100_000),
        names(),
        names(LONG),
        names("lama3.1"),  # it has the model, and something else is not there
        Answer(b" " * 100_000 for _ in range(20)),
    ],
)
def test_what_is_no_list_of_models_changes_nothing(serve, listing):
    server = serve(MISSING)
    server.listing = listing
    message = failure_of(OpenAIModel("lama3.1", server.url)).message
    assert "has no model 'lama3.1', or no chat completions there: model 'lama3.1' not" in message


def test_a_server_that_repeats_the_key_as_a_name_is_not_believed(serve):
    server = serve(MISSING)
    server.listing = names("key-canary-0123456789", "other")
    failure = failure_of(OpenAIModel("m", server.url, api_key="key-canary-0123456789"))
    assert "canary" not in failure.message and "'other'" in failure.message


def test_the_hint_of_a_missing_key_is_about_keys(no_key, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from orchestrator.cli import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.yaml").write_text(
        "agentName: a\ninstruction: You help people.\nfoundationModel: openai:gpt-4.1\n"
    )
    done = CliRunner().invoke(app, ["invoke", ".", "Hi", "--json"])
    assert done.exit_code == 1
    error = json.loads(done.stdout)["error"]
    assert "OPENAI_API_KEY" in error["message"] and error["hint"] == "--model local needs no key"
