"""From the texts that people write to models."""

from __future__ import annotations

import pytest

import orchestrator.models as models
from orchestrator.errors import OrchestratorError, ResourceNotFound, ValidationError
from orchestrator.models import (
    BedrockModel,
    OpenAIModel,
    RecordingModel,
    ReplayModel,
    ScriptedModel,
    resolve_model,
)


@pytest.mark.parametrize(
    "spec",
    [
        "anthropic.claude-3-5-sonnet-20240620-v1:0",
        "anthropic.claude-v2:1",
        "us.amazon.nova-lite-v1:0",
        "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "openai.gpt-oss-20b-1:0",
        "meta.llama3-1-8b-instruct-v1:0",
        "newvendor.model-v1:0",
        "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-3-haiku-20240307-v1:0",
        "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abcdef123456",
        "arn:aws-us-gov:bedrock:us-gov-west-1:123456789012:provisioned-model/abcdef123456",
        " amazon.nova-lite-v1:0 ",
    ],
)
def test_bedrock_ids_profiles_and_arns(spec):
    model = resolve_model(spec)
    assert isinstance(model, BedrockModel)
    assert model.model_id == spec.strip()


@pytest.mark.parametrize(
    ("spec", "url"),
    [
        ("openai:llama3.2@http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1"),
        ("openai:llama3.2@https://user@host/v1/", "https://user@host/v1"),
        ("openai:llama3.2", "https://api.openai.com/v1"),
    ],
)
def test_openai_compatible_servers(spec, url):
    model = resolve_model(spec)
    assert isinstance(model, OpenAIModel)
    assert model.model_id == "openai:llama3.2"
    assert model._url == f"{url}/chat/completions"


def test_files_are_found_from_the_folder_that_is_given(tmp_path, monkeypatch):
    (tmp_path / "replies.jsonl").write_text('"one"\n')
    scripted = resolve_model("scripted:replies.jsonl", folder=tmp_path)
    assert isinstance(scripted, ScriptedModel)
    named = resolve_model("scripted:replies.jsonl@amazon.nova-pro-v1:0", folder=tmp_path)
    assert (scripted.model_id, named.model_id) == ("scripted", "amazon.nova-pro-v1:0")
    RecordingModel(scripted, tmp_path / "run.jsonl").complete(
        models.ModelRequest("ORCHESTRATION", "", [])
    )
    monkeypatch.chdir(tmp_path)
    assert isinstance(resolve_model("replay:run.jsonl"), ReplayModel)
    assert isinstance(resolve_model(f"replay:{tmp_path}/run.jsonl", folder="/"), ReplayModel)


def test_a_model_is_itself():
    model = ScriptedModel([])
    assert resolve_model(model) is model


@pytest.mark.parametrize(
    ("spec", "error", "hint"),
    [
        ("", ValidationError, "''"),
        (None, ValidationError, "None"),
        ("antropic.claude-v2", ResourceNotFound, "did you mean 'anthropic.claude-v2'"),
        ("us.antropic.claude-v2", ResourceNotFound, "did you mean 'us.anthropic.claude-v2'"),
        ("gpt-4o", ResourceNotFound, "did you mean 'openai:gpt-4o'"),
        ("gpt-4.1", ResourceNotFound, "did you mean 'openai:gpt-4.1'"),
        ("llama3.2", ResourceNotFound, "'llama3.2'"),
        ("qwen.gguf", ResourceNotFound, "did you mean 'local:qwen.gguf'"),
        ("./run.jsonl", ResourceNotFound, "did you mean 'replay:./run.jsonl'"),
        ("script:run.x", ResourceNotFound, "did you mean 'scripted:run.x'"),
        ("locl", ResourceNotFound, "did you mean 'local'"),
        ("claude", ResourceNotFound, "'claude'"),
        ("anthropic.claude v2", ResourceNotFound, "'anthropic.claude v2'"),
        ("openai:", ValidationError, "'openai:'"),
        ("openai:@http://127.0.0.1/v1", ValidationError, "names no model"),
        ("openai:m@127.0.0.1:11434", ValidationError, "http://"),
        ("openai:m@http://", ValidationError, "'http://'"),
        ("scripted:", ValidationError, "'scripted:'"),
        ("scripted:run.jsonl@", ValidationError, "no model after the @"),
        ("scripted:nothing.jsonl", ResourceNotFound, "nothing.jsonl"),
        ("replay:nothing.jsonl", ResourceNotFound, "nothing.jsonl"),
        ("local:no-such-model", OrchestratorError, "no-such-model"),
    ],
)
def test_what_names_no_model_is_named_with_a_way_out(spec, error, hint):
    with pytest.raises(error) as caught:
        resolve_model(spec)
    assert hint in caught.value.message


def test_every_public_name_is_there():
    assert all(getattr(models, name) is not None for name in models.__all__)
    assert set(models.__all__) <= set(dir(models))
    with pytest.raises(AttributeError, match="Nothing"):
        _ = models.Nothing
