"""Which model answers for the id that a caller names, and what callers cannot choose."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestrator.errors import AccessDenied, ResourceNotFound, ValidationError
from orchestrator.models import BedrockModel, LocalModel, OpenAIModel
from orchestrator.server.inference.models import Models
from orchestrator.server.operations import Caller
from orchestrator.server.settings import Settings
from orchestrator.testing import ScriptedModel

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
ANYONE = Caller()


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "replies.jsonl"
    path.write_text('"Hello"\n')
    return path


def test_an_id_is_a_model_of_bedrock():
    model = Models(Settings()).model(ANYONE, CLAUDE)
    assert isinstance(model, BedrockModel)
    assert model.model_id == CLAUDE


def test_one_model_answers_for_one_id_in_all_threads():
    models = Models(Settings())
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda _: models.model(ANYONE, CLAUDE), range(200)))
    assert len(set(map(id, found))) == 1


def test_models_that_callers_named_are_not_kept_without_end():
    models = Models(Settings())
    first = models.model(ANYONE, "amazon.nova-a")
    for number in range(300):
        models.model(ANYONE, f"amazon.nova-b{number}")
    assert models.model(ANYONE, "amazon.nova-a") is not first


def test_the_settings_model_answers_for_everything(script):
    models = Models(Settings(model=f"scripted:{script}"), {"*": ScriptedModel([])})
    found = models.model(Caller("t", ()), CLAUDE)
    assert isinstance(found, ScriptedModel)
    assert models.model(ANYONE, "whatever it is called") is found
    assert found is not None and found._replies == ["Hello"]


def test_patterns_are_tried_in_order(script):
    models = Models(
        Settings(models={"anthropic.*": "local", "*": f"scripted:{script}", "amazon.*": "local"})
    )
    assert isinstance(models.model(ANYONE, CLAUDE), LocalModel)
    assert isinstance(models.model(ANYONE, "amazon.nova-pro-v1:0"), ScriptedModel)


def test_patterns_of_one_spec_share_its_model(script):
    spec = f"scripted:{script}"
    models = Models(Settings(models={"anthropic.*": spec, "amazon.*": spec}))
    assert models.model(ANYONE, CLAUDE) is models.model(ANYONE, "amazon.nova-pro-v1:0")


def test_models_of_the_process_win_over_the_settings(script):
    mine = ScriptedModel([])
    models = Models(Settings(models={"*": f"scripted:{script}"}), {CLAUDE: mine})
    assert models.model(ANYONE, CLAUDE) is mine
    assert models.model(ANYONE, "amazon.nova-pro-v1:0") is not mine


@pytest.mark.parametrize(
    "spec",
    [
        "openai:m@http://10.0.0.1/v1",
        " openai:m@http://10.0.0.1/v1",
        "scripted:/etc/passwd",
        "scripted:/etc/passwd@anthropic.claude-3",
        "replay:/etc/passwd",
        "local:/srv/weights.gguf",
        "local:../weights.GGUF",
    ],
)
def test_callers_name_neither_files_nor_addresses(spec):
    with pytest.raises(ValidationError, match="callers cannot choose"):
        Models(Settings()).model(ANYONE, spec)


def test_callers_may_name_embedded_models():
    models = Models(Settings())
    assert isinstance(models.model(Caller("t", ()), "local"), LocalModel)
    with pytest.raises(ResourceNotFound):
        models.model(ANYONE, "local:none")


def test_what_a_key_does_not_allow_is_refused():
    models = Models(Settings())
    caller = Caller("t", ("amazon.*", "openai:small"))
    assert isinstance(models.model(caller, "amazon.nova-pro-v1:0"), BedrockModel)
    assert isinstance(models.model(caller, "openai:small"), OpenAIModel)
    for refused in (
        CLAUDE,
        "openai:large",
        f"arn:aws:bedrock:us-east-1::foundation-model/{CLAUDE}",
    ):
        with pytest.raises(AccessDenied, match="access key"):
            models.model(caller, refused)


def test_a_mapped_model_needs_no_permission(script):
    models = Models(Settings(models={"anthropic.*": f"scripted:{script}"}))
    assert isinstance(models.model(Caller("t", ()), CLAUDE), ScriptedModel)


def test_a_wrong_spec_of_the_settings_is_told_at_the_start():
    with pytest.raises(ResourceNotFound, match="did you mean"):
        Models(Settings(model="locl"))
    with pytest.raises(ValidationError, match="lacks its second half"):
        Models(Settings(models={"*": "openai:"}))


def test_an_unknown_model_is_told():
    with pytest.raises(ResourceNotFound, match="there is no model 'gpt-4'"):
        Models(Settings()).model(ANYONE, "gpt-4")
