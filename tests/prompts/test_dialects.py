"""Dialects: which model gets which, the user's own files, and no way out of the folder."""

import os
import subprocess
import sys

import pytest

from orchestrator.errors import TemplateError
from orchestrator.prompts import STAGES, compile_template, dialect_for, lint_template, load_dialect

ARN = "arn:aws:bedrock:us-east-1:"
SETTINGS = "protocol: tool_use\nparser: tool_use\n"


@pytest.mark.parametrize(
    ("model_id", "name"),
    [
        ("anthropic.claude-3-sonnet-20240229-v1:0", "claude-3"),
        ("us.anthropic.claude-3-haiku-20240307-v1:0", "claude-3"),
        ("us-gov.anthropic.claude-3-haiku-20240307-v1:0", "claude-3"),
        (f"{ARN}:foundation-model/anthropic.claude-3-opus-20240229-v1:0", "claude-3"),
        (f"{ARN}1:inference-profile/eu.anthropic.claude-3-haiku-20240307-v1:0", "claude-3"),
        ("anthropic.claude-3-5-sonnet-20240620-v1:0", "tool-use"),
        ("us.anthropic.claude-3-5-haiku-20241022-v1:0", "tool-use"),
        ("global.anthropic.claude-sonnet-4-20250514-v1:0", "tool-use"),
        ("amazon.nova-pro-v1:0", "tool-use"),
        (f"{ARN}1:application-inference-profile/abc123", "tool-use"),
        ("gpt-4o-mini", "tool-use"),
        ("", "tool-use"),
    ],
)
def test_a_models_id_chooses_its_dialect(model_id, name):
    assert dialect_for(model_id) == name


def test_the_shipped_defaults_are_bedrocks():
    for name, stops in (
        ("tool-use", ["</invoke>", "</answer>", "</error>"]),
        ("claude-3", ["</function_calls>", "</answer>", "</error>"]),
    ):
        dialect = load_dialect(name)
        enabled = {stage: defaults.enabled for stage, defaults in dialect.stages.items()}
        assert enabled == {
            "PRE_PROCESSING": False,
            "ORCHESTRATION": True,
            "KNOWLEDGE_BASE_RESPONSE_GENERATION": True,
            "POST_PROCESSING": False,
        }
        for stage, defaults in dialect.stages.items():
            assert defaults.inference == {
                "maximumLength": 2048,
                "temperature": 0.0,
                "topP": 1.0,
                "topK": 250,
                "stopSequences": stops if stage == "ORCHESTRATION" else ["\n\nHuman:"],
            }


def test_some_models_of_a_dialect_have_settings_of_their_own():
    nova = load_dialect("tool-use", model_id="us.amazon.nova-lite-v1:0")
    assert nova.stages["ORCHESTRATION"].inference["maximumLength"] == 1024
    assert nova.stages["PRE_PROCESSING"].inference["maximumLength"] == 2048
    haiku = load_dialect("claude-3").for_model("anthropic.claude-3-haiku-20240307-v1:0")
    stops = haiku.stages["ORCHESTRATION"].inference["stopSequences"]
    assert stops == ["</invoke>", "</answer>", "</error>"]


@pytest.mark.parametrize("name", ["claude-3", "tool-use"])
@pytest.mark.parametrize("stage", STAGES[:4])
def test_the_shipped_templates_are_clean(name, stage):
    dialect = load_dialect(name)
    defaults = dialect.stages[stage]
    found = lint_template(defaults.template, stage=stage, dialect=dialect, source=defaults.source)
    assert [d for d in found if d.severity != "info"] == []
    template = compile_template(defaults.template, stage=stage, dialect=dialect)
    values = {use.name: f"[{use.name}]" for use in template.placeholders}
    bound = template.bind(values)
    shown = bound.system + str(bound.messages())
    anchors = {"agent_scratchpad", "conversation_history"}
    assert all(value in shown for name, value in values.items() if name not in anchors)


@pytest.mark.parametrize("name", ["claude-3", "tool-use"])
def test_the_shipped_partials_render(name):
    dialect = load_dialect(name)
    parameter = {"name": "n", "type": "integer", "description": "a < b", "required": True}
    tool = {"name": "g::f", "description": "Adds.", "parameters": [parameter]}
    assert dialect.partial("tools", tools=[tool]).split("\n") == [
        "<tool_description>",
        "<tool_name>g::f</tool_name>",
        "<description>Adds.</description>",
        "<parameters>",
        "<parameter>",
        "<name>n</name>",
        "<type>integer</type>",
        "<description>a &lt; b</description>",
        "<is_required>True</is_required>",
        "</parameter>",
        "</parameters>",
        "</tool_description>",
        "",
    ]
    ask = "user::askuser" if name == "claude-3" else "user__askuser"
    assert ask in dialect.partial("ask_user_missing_information")
    assert "<answer_part>" in dialect.partial("knowledge_base_guideline")
    assert dialect.partial("knowledge_base_additional_guideline")
    assert dialect.partial("prompt_session_attributes", attributes={}) == ""
    given = dialect.partial("prompt_session_attributes", attributes={"day": "<1>"})
    assert "<provided_argument_values>" in given
    assert "<name>day</name><value>&lt;1&gt;</value>" in given
    assert "[x]" in dialect.partial("responses", responses=[{"name": "f", "text": "[x]"}])


def test_the_users_own_files_win(tmp_path):
    (tmp_path / "tool-use").mkdir()
    (tmp_path / "tool-use" / "orchestration.json").write_text('{"mine": 1}')
    (tmp_path / "tools.j2").write_text("mine")
    (tmp_path / "responses.j2").write_text("all")
    (tmp_path / "tool-use" / "responses.j2").write_text("one")
    dialect = load_dialect("tool-use", tmp_path)
    stage = dialect.stages["ORCHESTRATION"]
    assert stage.template == '{"mine": 1}'
    assert stage.source == str(tmp_path / "tool-use" / "orchestration.json")
    assert stage.enabled
    assert (dialect.partial("tools"), dialect.partial("responses")) == ("mine", "one")
    assert load_dialect("claude-3", tmp_path).partial("responses") == "all"
    assert "gatekeeper" in dialect.stages["PRE_PROCESSING"].template


def test_a_folder_with_a_dialect_file_is_a_new_dialect(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "dialect.yaml").write_text(
        SETTINGS + 'patterns: ["acme.*", "amazon.nova-*"]\nunknown_value: "?"\nno_repeat: true\n'
    )
    assert dialect_for("us.acme.big-1", tmp_path) == "mine"
    assert dialect_for("amazon.nova-pro-v1:0", tmp_path) == "mine"
    assert dialect_for("us.acme.big-1") == "tool-use"
    dialect = load_dialect("mine", tmp_path)
    assert (dialect.protocol, dialect.parser) == ("tool_use", "tool_use")
    assert (dialect.unknown_value, dialect.no_repeat, dict(dialect.stages)) == ("?", True, {})


def test_a_missing_file_names_the_places_looked_in(tmp_path):
    dialect = load_dialect("tool-use", tmp_path)
    with pytest.raises(TemplateError) as caught:
        dialect.read("mine.json")
    for place in (tmp_path / "tool-use", tmp_path, "templates/tool-use"):
        assert str(place) in str(caught.value)
    assert "'mine.json'" in str(caught.value)
    with pytest.raises(TemplateError, match=r"there is no file 'nothing\.j2'"):
        dialect.partial("nothing")
    with pytest.raises(TemplateError, match="there is no dialect 'unheard-of'"):
        load_dialect("unheard-of")


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/../../x", "..", "a\\b", "c:x", "", "\0"]
)
def test_names_do_not_leave_the_folder(name, tmp_path):
    (tmp_path / "x").write_text("secret")
    overrides = tmp_path / "templates"
    overrides.mkdir()
    with pytest.raises(TemplateError, match="inside the templates folder"):
        load_dialect("tool-use", overrides).read(name)


@pytest.mark.parametrize("name", ["..", "../tool-use", "a/b", "", ".hidden", "a.b"])
def test_names_of_dialects_are_plain(name):
    with pytest.raises(TemplateError, match="not the name of a dialect"):
        load_dialect(name)


def test_links_do_not_leave_the_folder(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.j2").write_text("secret")
    (outside / "dialect.yaml").write_text(SETTINGS)
    overrides = tmp_path / "templates"
    (overrides / "tool-use").mkdir(parents=True)
    os.symlink(outside / "secret.j2", overrides / "tool-use" / "tools.j2")
    os.symlink(outside, overrides / "linked")
    dialect = load_dialect("tool-use", overrides)
    for read in (
        lambda: dialect.partial("tools"),
        lambda: dialect.read("linked/secret.j2"),
        lambda: load_dialect("linked", overrides),
        lambda: dialect_for("x", overrides),
    ):
        with pytest.raises(TemplateError, match="a link to outside the folder"):
            read()


def test_a_link_inside_the_folder_is_fine(tmp_path):
    (tmp_path / "shared.j2").write_text("here")
    os.symlink(tmp_path / "shared.j2", tmp_path / "tools.j2")
    assert load_dialect("tool-use", tmp_path).partial("tools") == "here"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("protocol: morse", "'protocol' must be one of xml, tool_use, text, not 'morse'"),
        ("- a", "must be a mapping"),
        ("a: b: c", "dialect.yaml:1:5: not YAML"),
        (SETTINGS + "stage: {}", "no member 'stage'; it has patterns, extends"),
        (SETTINGS + "parser: 5", "'parser' must be a text"),
        (SETTINGS + "no_repeat: 1", "'no_repeat' must be true or false"),
        (SETTINGS + "stages: {ORCH: {}}", "'stages' has no member 'ORCH'"),
        (SETTINGS + "stages: {ORCHESTRATION: {}}", "ORCHESTRATION needs a 'template'"),
        (SETTINGS + "stages: {ORCHESTRATION: {template: no.json}}", "no file 'no.json'"),
        (SETTINGS + "models: {}", "'models' must be a list"),
        (SETTINGS + "models: [{patterns: x}]", "'patterns' must be a list"),
        (
            SETTINGS + "models: [{stages: {ORCHESTRATION: {inference: {maxTokens: 1}}}}]",
            "no member 'maxTokens'; it has maximumLength",
        ),
        (
            SETTINGS + "models: [{stages: {ORCHESTRATION: {inference: {stopSequences: x}}}}]",
            "must be a list of texts",
        ),
        (
            SETTINGS
            + "models: [{stages: {ORCHESTRATION: {inference: {stopSequences: [a,b,c,d,e]}}}}]",
            "5 stop sequences; Bedrock allows 4",
        ),
    ],
)
def test_mistakes_in_the_settings_name_the_file_and_the_member(settings, reason, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "dialect.yaml").write_text(settings)
    with pytest.raises(TemplateError) as caught:
        load_dialect("mine", tmp_path)
    assert reason in str(caught.value)
    assert "no.json" in reason or "dialect.yaml" in str(caught.value)


def test_a_file_that_is_not_text_or_too_large_is_refused(tmp_path):
    (tmp_path / "a.json").write_bytes(b"\xff\xfe\xff")
    (tmp_path / "b.json").write_bytes(b"x" * 1_000_001)
    dialect = load_dialect("tool-use", tmp_path)
    with pytest.raises(TemplateError, match="cannot be read as UTF-8"):
        dialect.read("a.json")
    with pytest.raises(TemplateError, match="larger than"):
        dialect.read("b.json")


def test_nothing_heavy_is_imported_before_it_is_needed():
    code = (
        "import sys, orchestrator.prompts as p;"
        "assert not {'jinja2', 'yaml', 'boto3', 'pydantic'} & set(sys.modules);"
        "d = p.load_dialect('tool-use');"
        "d.step_messages([], [{'id': '', 'name': '', 'text': '', 'error': False}]);"
        "assert 'jinja2' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
