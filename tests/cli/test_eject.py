"""`orchestrator templates eject`: the shipped prompt of a stage as the agent's own file."""

import json
from pathlib import Path

import pytest
import yaml

from orchestrator import Agent
from orchestrator.prompts import STAGES, dialect_for
from orchestrator.support.content_root import content_root
from orchestrator.testing import ScriptedModel

MODELS = {
    "claude-2": "anthropic.claude-instant-v1",
    "claude-2.1": "anthropic.claude-v2:1",
    "claude-3": "anthropic.claude-3-sonnet-20240229-v1:0",
    "deepseek": "us.deepseek.r1-v1:0",
    "general": "openai.gpt-oss-120b-1:0",
    "llama-3": "meta.llama3-1-70b-instruct-v1:0",
    "local": "local",
    "mistral": "mistral.mistral-large-2402-v1:0",
    "nova": "amazon.nova-pro-v1:0",
    "titan": "amazon.titan-text-premier-v1:0",
    "tool-use": "anthropic.claude-3-5-sonnet-20240620-v1:0",
}


def prompts_of(folder, model_id):
    agent = Agent.load(folder, model=ScriptedModel([], model_id))
    found = {}
    for stage in STAGES:
        prompt = agent.render(stage, "Where is my order?")
        messages = [(it["role"], it["content"]) for it in prompt.messages]
        found[stage] = (str(prompt.system), messages, prompt.tools, prompt.inference)
    return found


def test_every_dialect_is_ejected_here():
    assert set(MODELS) == {it.parent.name for it in (content_root() / "templates").glob("*/*.yaml")}
    assert {name: dialect_for(it) for name, it in MODELS.items()} == {it: it for it in MODELS}


@pytest.mark.parametrize("dialect", MODELS)
def test_an_ejected_prompt_is_the_one_that_was_sent(run, shop, dialect):
    before = prompts_of("shop", MODELS[dialect])
    for stage in STAGES:
        done = run("templates", "eject", stage, "shop", "--model", MODELS[dialect], "--json")
        assert done.exit_code == 0, done.stderr
        told = json.loads(done.stdout)
        assert (told["stage"], told["dialect"]) == (stage, dialect)
        assert "add" not in told
    assert prompts_of("shop", MODELS[dialect]) == before
    agent = Agent.load("shop", model=ScriptedModel([], MODELS[dialect]))
    for stage, plan in agent.plan.stages.items():
        assert plan.enabled
        assert plan.creation_mode == "OVERRIDDEN"
        assert Path(plan.template.source).parent.name == "templates", stage
    linted = run("lint", "shop", "--model", MODELS[dialect])
    assert linted.exit_code == 0 and "warning" not in linted.stdout


def test_the_next_steps_are_told_and_work(run, shop):
    done = run("templates", "eject", "post-processing", "shop")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "wrote shop/templates/post_processing.json: POST_PROCESSING of the dialect 'local'",
        "shop/agent.yaml names it",
        "POST_PROCESSING was off and runs from now on",
        "",
        '  orchestrator render shop POST_PROCESSING "Hello"  see what the model is sent',
        "  orchestrator lint shop                            check it after a change",
    ]
    shown = run("render", "shop", "POST_PROCESSING", "Hello")
    assert "template shop/templates/post_processing.json" in shown.stdout


def test_a_changed_line_is_what_the_model_reads(run, shop):
    assert run("templates", "eject", "ORCHESTRATION", "shop").exit_code == 0
    file = Path("shop/templates/orchestration.json")
    text = file.read_text()
    file.write_text(text.replace("$instruction$", "$instruction$ Answer like a pirate.", 1))
    assert "Answer like a pirate." in run("render", "shop", "Hello").stdout


def test_the_folder_is_the_working_directory_unless_it_is_given(run, shop, monkeypatch):
    monkeypatch.chdir("shop")
    assert run("templates", "eject", "ORCHESTRATION").exit_code == 0
    assert Path("templates/orchestration.json").is_file()


def test_comments_of_the_definition_stay(run, shop):
    before = Path("shop/agent.yaml").read_text()
    assert run("templates", "eject", "ORCHESTRATION", "shop").exit_code == 0
    after = Path("shop/agent.yaml").read_text()
    assert after.startswith(before)
    assert after.removeprefix(before).startswith("promptOverrideConfiguration:\n")


def test_line_ends_of_windows_stay(run, shop):
    file = Path("shop/agent.yaml")
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert run("templates", "eject", "ORCHESTRATION", "shop").exit_code == 0
    text = file.read_bytes()
    assert text.count(b"\n") == text.count(b"\r\n")


def test_nothing_is_overwritten_without_force(run, shop):
    assert run("templates", "eject", "ORCHESTRATION", "shop").exit_code == 0
    file = Path("shop/templates/orchestration.json")
    default = file.read_text()
    file.write_text(mine := default.replace("$instruction$", "Mine. $instruction$"))
    refused = run("templates", "eject", "ORCHESTRATION", "shop")
    assert refused.exit_code == 2
    assert "'shop/templates/orchestration.json' is there already" in refused.stderr
    assert "--force" in refused.stderr
    assert file.read_text() == mine
    definition = Path("shop/agent.yaml").read_text()
    assert run("templates", "eject", "ORCHESTRATION", "shop", "--force").exit_code == 0
    assert file.read_text() == default
    assert Path("shop/agent.yaml").read_text() == definition


@pytest.mark.parametrize(
    "own",
    [
        "templates/orchestration.prompty",
        "templates/orchestration.txt",
        "templates/local/orchestration.json",
    ],
)
def test_no_second_template_is_put_beside_ones_own(run, shop, own):
    file = Path("shop", own)
    file.parent.mkdir(exist_ok=True)
    file.write_text("$question$")
    refused = run("templates", "eject", "ORCHESTRATION", "shop", "--force")
    assert refused.exit_code == 2
    assert f"'shop/{own}' is the agent's own template of ORCHESTRATION already" in refused.stderr
    assert not Path("shop/templates/orchestration.json").exists()
    assert "promptOverride" not in Path("shop/agent.yaml").read_text()


def add_prompt(**members):
    prompt = {"promptType": "ORCHESTRATION", **members}
    with Path("shop/agent.yaml").open("a") as file:
        file.write(
            yaml.safe_dump({"promptOverrideConfiguration": {"promptConfigurations": [prompt]}})
        )


def test_a_file_that_the_definition_names_is_the_place(run, shop):
    Path("shop/templates/mine.json").write_text('{"messages": []}')
    add_prompt(basePromptTemplateFile="templates/mine.json", promptState="DISABLED")
    assert run("templates", "eject", "ORCHESTRATION", "shop").exit_code == 2
    done = run("templates", "eject", "ORCHESTRATION", "shop", "--force")
    assert done.exit_code == 0
    assert "ORCHESTRATION was off and runs from now on" in done.stdout
    assert "$instruction$" in Path("shop/templates/mine.json").read_text()
    assert not Path("shop/templates/orchestration.json").exists()


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"basePromptTemplate": "$question$"}, "has its text here already"),
        ({"basePromptTemplateFile": "templates/mine.prompty"}, "another language"),
        (
            {"basePromptTemplateFile": "templates/mine.txt", "templateFormat": "handlebars"},
            "is written in handlebars",
        ),
    ],
)
def test_a_template_that_cannot_be_replaced_is_named_with_its_place(run, shop, members, reason):
    Path("shop/templates/mine.prompty").write_text("system:\nHi\n\nuser:\n{{question}}\n")
    Path("shop/templates/mine.txt").write_text("{{question}}")
    add_prompt(**members)
    refused = run("templates", "eject", "ORCHESTRATION", "shop", "--force")
    assert refused.exit_code == 2
    assert reason in refused.stderr
    assert "shop/agent.yaml:2" in refused.stderr
    assert not Path("shop/templates/orchestration.json").exists()


def test_a_definition_that_cannot_be_changed_is_left_and_told(run, shop):
    with Path("shop/agent.yaml").open("a") as file:
        file.write("promptOverrideConfiguration: {promptConfigurations: []}\n")
    before = Path("shop/agent.yaml").read_text()
    done = run("templates", "eject", "PRE_PROCESSING", "shop")
    assert done.exit_code == 0
    assert "add this to promptConfigurations" in done.stdout
    told = [line for line in done.stdout.splitlines() if line.startswith(("  - ", "    "))]
    (member,) = yaml.safe_load("\n".join(told))
    assert member == {
        "promptType": "PRE_PROCESSING",
        "promptCreationMode": "OVERRIDDEN",
        "promptState": "ENABLED",
        "basePromptTemplateFile": "templates/pre_processing.json",
    }
    assert Path("shop/agent.yaml").read_text() == before
    again = run("templates", "eject", "PRE_PROCESSING", "shop", "--force", "--json")
    assert json.loads(again.stdout)["add"] == member


def test_a_custom_dialect_gives_what_it_extends(run, shop):
    folder = Path("shop/templates/mine")
    folder.mkdir()
    (folder / "dialect.yaml").write_text('extends: nova\npatterns: ["*acme-1*"]\n')
    model = "openai:acme-1@http://127.0.0.1:9/v1"
    done = run("templates", "eject", "ORCHESTRATION", "shop", "--model", model, "--json")
    assert json.loads(done.stdout)["dialect"] == "mine"
    nova = content_root() / "templates" / "nova" / "orchestration.json"
    assert Path("shop/templates/orchestration.json").read_text() == nova.read_text()


def test_templates_that_are_a_link_are_not_written_through(run, shop, tmp_path):
    outside = tmp_path / "outside"
    Path("shop/templates").rename(outside)
    Path("shop/templates").symlink_to(outside)
    refused = run("templates", "eject", "ORCHESTRATION", "shop")
    assert refused.exit_code == 2
    assert "leads out of the agent's folder" in refused.stderr
    assert not (outside / "orchestration.json").exists()


def test_an_unknown_stage_is_told_the_nearest(run, shop):
    refused = run("templates", "eject", "orchestartion", "shop")
    assert refused.exit_code == 2
    assert "did you mean ORCHESTRATION?" in refused.stderr
