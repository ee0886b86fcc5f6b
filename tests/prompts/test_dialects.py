"""Dialects: which model gets which, the user's own files, and no way out of the folder."""

import os
import subprocess
import sys

import pytest

from orchestrator.errors import TemplateError
from orchestrator.prompts import STAGES, compile_template, dialect_for, lint_template, load_dialect
from orchestrator.prompts.placeholders import FAMILIES

ANCHORS = {"agent_scratchpad", "conversation_history"}
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
        ("anthropic.claude-instant-v1", "claude-2"),
        ("anthropic.claude-v2", "claude-2"),
        ("anthropic.claude-v2:0:18k", "claude-2"),
        ("anthropic.claude-v2:1", "claude-2.1"),
        ("anthropic.claude-v2:1:200k", "claude-2.1"),
        ("amazon.titan-text-premier-v1:0", "titan"),
        ("meta.llama3-1-70b-instruct-v1:0", "llama-3"),
        ("us.meta.llama3-2-11b-instruct-v1:0", "llama-3"),
        ("us.meta.llama4-scout-17b-instruct-v1:0", "llama-3"),
        ("mistral.mistral-large-2402-v1:0", "mistral"),
        ("amazon.nova-pro-v1:0", "nova"),
        (f"{ARN}1:inference-profile/apac.amazon.nova-micro-v1:0", "nova"),
        ("us.deepseek.r1-v1:0", "deepseek"),
        ("deepseek.v3-v1:0", "tool-use"),
        ("openai.gpt-oss-120b-1:0", "general"),
        ("cohere.command-r-plus-v1:0", "general"),
        ("gpt-oss-20b", "general"),
        (f"{ARN}1:application-inference-profile/abc123", "tool-use"),
        ("gpt-4o-mini", "tool-use"),
        ("", "tool-use"),
    ],
)
def test_a_models_id_chooses_its_dialect(model_id, name):
    assert dialect_for(model_id) == name


HUMAN = ["\n\nHuman:"]
CLAUDE = {"maximumLength": 2048, "temperature": 0.0, "topP": 1.0, "topK": 250}
ONE_CALL = ["</invoke>", "</answer>", "</error>"]


@pytest.mark.parametrize(
    ("name", "stops"),
    [
        ("tool-use", ONE_CALL),
        ("claude-3", ["</function_calls>", "</answer>", "</error>"]),
        ("claude-2.1", ONE_CALL),
        ("claude-2", ["</function_call>", "</answer>", "</error>"]),
    ],
)
def test_the_defaults_of_claude_are_bedrocks(name, stops):
    stages = load_dialect(name).stages
    assert tuple(stages) == STAGES
    assert {stage for stage in STAGES if not stages[stage].enabled} == {
        "PRE_PROCESSING",
        "KNOWLEDGE_BASE_RESPONSE_GENERATION",
        "POST_PROCESSING",
    }
    inference = {stage: defaults.inference for stage, defaults in stages.items()}
    assert inference.pop("ORCHESTRATION") == {**CLAUDE, "stopSequences": stops}
    assert inference.pop("ROUTING_CLASSIFIER") == {"maximumLength": 512, "temperature": 0.0}
    memory = {**CLAUDE, "maximumLength": 4096, "stopSequences": HUMAN}
    assert inference.pop("MEMORY_SUMMARIZATION") == memory
    assert len(inference) == 3
    assert all(one == {**CLAUDE, "stopSequences": HUMAN} for one in inference.values())


def test_the_defaults_of_nova_are_as_recorded():
    stages = load_dialect("nova").stages
    assert stages["ORCHESTRATION"].inference == {
        "maximumLength": 1024,
        "temperature": 1.0,
        "topP": 1.0,
        "topK": 1,
        "stopSequences": ["</answer>", "\n\n<thinking>", "\n<thinking>", " <thinking>"],
    }
    assert stages["ROUTING_CLASSIFIER"].inference == {}


@pytest.mark.parametrize("name", ["general", "mistral"])
def test_models_that_bedrock_does_not_optimise_have_no_limits(name):
    # Recorded of gpt-oss: a limit on the reply makes reasoning models fail.
    inference = {stage: it.inference for stage, it in load_dialect(name).stages.items()}
    assert inference.pop("ORCHESTRATION") == {"stopSequences": ["</answer>"]}
    assert inference.pop("ROUTING_CLASSIFIER") == {}
    assert all(one == {} for one in inference.values())


@pytest.mark.parametrize("name", FAMILIES)
def test_settings_fit_what_the_models_take(name):
    for defaults in load_dialect(name).stages.values():
        inference = defaults.inference
        if name == "titan":  # AWS: "Amazon Titan Text models"
            assert inference["stopSequences"] == ["User:"]
        if name in ("titan", "llama-3", "mistral", "deepseek"):
            assert "topK" not in inference
        if name == "nova":
            assert inference.get("topK", 1) <= 128


def test_some_models_of_a_dialect_have_settings_of_their_own():
    haiku = load_dialect("claude-3").for_model("anthropic.claude-3-haiku-20240307-v1:0")
    assert haiku.stages["ORCHESTRATION"].inference["stopSequences"] == ONE_CALL
    assert haiku.stages["PRE_PROCESSING"].inference["maximumLength"] == 2048


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("stage", STAGES)
def test_the_shipped_templates_are_clean(name, stage):
    dialect = load_dialect(name)
    defaults = dialect.stages[stage]
    found = lint_template(defaults.template, stage=stage, dialect=dialect, source=defaults.source)
    assert [d for d in found if d.severity != "info"] == []
    template = compile_template(defaults.template, stage=stage, dialect=dialect)
    values = {use.name: f"[{use.name}]" for use in template.placeholders}
    bound = template.bind(values)
    shown = bound.system + str(bound.messages())
    assert all(value in shown for name, value in values.items() if name not in ANCHORS)


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


def test_a_dialect_that_extends_another_has_its_files_and_settings(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "dialect.yaml").write_text(
        "extends: nova\npatterns: [acme.*]\nunknown_value: '?'\n"
        "stages: {ORCHESTRATION: {inference: {maximumLength: 9}}, POST_PROCESSING: {enabled: true}}"
    )
    (mine / "tools.j2").write_text("my tools")
    dialect, nova = load_dialect("mine", tmp_path), load_dialect("nova")
    assert (dialect.name, dialect.family, dialect.parser) == ("mine", "nova", "tool_use")
    assert dialect.unknown_value == "?"
    assert dialect.stages["ORCHESTRATION"].template == nova.stages["ORCHESTRATION"].template
    assert dialect.stages["ORCHESTRATION"].inference == {"maximumLength": 9}
    assert dialect.stages["POST_PROCESSING"].enabled
    assert dialect.stages["POST_PROCESSING"].inference == nova.stages["POST_PROCESSING"].inference
    assert dialect.partial("tools") == "my tools"
    assert dialect.partial("thought") == load_dialect("tool-use").partial("thought")


def test_own_files_of_what_is_extended_count_where_the_dialect_has_none(tmp_path):
    (tmp_path / "tool-use").mkdir()
    for name in ("thought.j2", "orchestration.json"):
        (tmp_path / "tool-use" / name).write_text('{"mine": 1}')
    nova = load_dialect("nova", tmp_path)
    assert nova.partial("thought") == '{"mine": 1}'
    assert "Thought: <thinking>" in nova.stages["ORCHESTRATION"].template  # its own wins
    (tmp_path / "thought.j2").write_text("all")
    assert nova.partial("thought") != "all"  # compiled once
    assert load_dialect("nova", tmp_path).partial("thought") == "all"


def test_circles_of_extends_are_refused(tmp_path):
    for name, other in (("one", "two"), ("two", "one")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dialect.yaml").write_text(f"extends: {other}\n")
    with pytest.raises(TemplateError, match=r"'extends' names the dialect 'one', which extends"):
        load_dialect("one", tmp_path)


def test_texts_about_memory_are_in_a_folder_beside_the_templates(tmp_path):
    own, memory = tmp_path / "templates", tmp_path / "memory"
    own.mkdir()
    memory.mkdir()
    (memory / "memory_guideline.j2").write_text("Mine.")
    (memory / "memory_summarization.json").write_text('{"mine": 1}')
    (memory / "memory_summarization.txt").write_text("mine")
    (memory / "tools.j2").write_text("not looked at")
    dialect = load_dialect("tool-use", own)
    assert dialect.partial("memory_guideline") == "Mine."
    assert dialect.stages["MEMORY_SUMMARIZATION"].template == '{"mine": 1}'
    assert load_dialect("titan", own).stages["MEMORY_SUMMARIZATION"].template == "mine"
    assert "<tool_description>" not in dialect.partial("tools", tools=[])
    (own / "memory_guideline.j2").write_text("Nearer.")
    assert load_dialect("tool-use", own).partial("memory_guideline") == "Nearer."
    with pytest.raises(TemplateError, match="memory"):
        dialect.partial("memory_of_an_elephant")


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
        (SETTINGS + "extends: mine", "'extends' names the dialect 'mine', which extends itself"),
        (SETTINGS + "extends: gone", "'extends' names the dialect 'gone', which is not there"),
        (SETTINGS + "extends: [a]", "'extends' must be a text"),
        (SETTINGS + "turn_markers: Human", "'turn_markers' must be a list of texts"),
        ("protocol: morse", "'protocol' must be one of xml, tool_use, text, not 'morse'"),
        ("- a", "must be a mapping"),
        ("a: b: c", "dialect.yaml:1:5: this colon begins a second value"),
        (SETTINGS + "stage: {}", "no member 'stage'; it has patterns, extends"),
        ("protocol: tool_use\nparser: 5", "'parser' must be a text"),
        (SETTINGS + "parser: 5", "dialect.yaml:3:1: 'parser' is given twice, first in line 2"),
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
        "p.step_messages(d, [], [{'id': '', 'name': '', 'text': '', 'error': False}]);"
        "assert 'jinja2' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
