"""Templates with other endings in an agent's folder: read, or named by `lint`."""

from __future__ import annotations

import json

import pytest

from orchestrator import Agent
from orchestrator.errors import DefinitionError
from orchestrator.testing import ScriptedModel

HAIKU = "anthropic.claude-3-haiku-20240307-v1:0"
CLAUDE_2 = "anthropic.claude-v2"
AGENT = f"""agentName: inn
foundationModel: {HAIKU}
instruction: You help the guests of an inn with their rooms and meals.
"""
BODY = json.dumps(
    {"system": "The inn. $instruction$", "messages": [{"role": "user", "content": "$question$"}]}
)
TEXT = "The inn. $instruction$\n\nHuman: $question$\n\nAssistant: $agent_scratchpad$"


@pytest.fixture
def inn(place):
    (place / "templates").mkdir()
    (place / "agent.yaml").write_text(AGENT)
    return place


def prompt_of(folder, model_id=HAIKU):
    agent = Agent.load(folder, model=ScriptedModel(["<answer>Yes."], model_id))
    prompt = agent.render("ORCHESTRATION", "Is there a room?")
    return f"{prompt.system or ''} {prompt.messages}"


@pytest.mark.parametrize("model_id", [HAIKU, CLAUDE_2, "amazon.nova-pro-v1:0", "local"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("orchestration.json", BODY),
        ("orchestration.txt", BODY),
        ("orchestration.md", BODY),
        ("orchestration.j2", "The inn. {{ instruction }} {{ question }}"),
        ("orchestration.hbs", "The inn. {{instruction}} {{question}}"),
    ],
)
def test_every_ending_is_read(run, inn, name, text, model_id):
    (inn / "templates" / name).write_text(text)
    shown = prompt_of(inn, model_id)
    assert "The inn. You help the guests" in shown and "Is there a room?" in shown
    found = json.loads(run("lint", ".", "--json", "--model", model_id).stdout)["diagnostics"]
    assert [one for one in found if one["code"] == "unused-template"] == []


@pytest.mark.parametrize("name", ["orchestration.txt", "orchestration.md", "orchestration.json"])
def test_plain_text_is_for_models_that_read_text(run, inn, name):
    (inn / "templates" / name).write_text(TEXT)
    assert "The inn. You help the guests" in prompt_of(inn, CLAUDE_2)
    # (Bedrock: the same text on a Claude 3 agent is refused.)
    with pytest.raises(DefinitionError, match=f"{name}:1:1: .*Invalid JSON in the prompt"):
        Agent.load(inn)
    done = run("lint", ".")
    assert done.exit_code == 1 and f"templates/{name}:1:1: error" in done.stdout


def test_two_of_them_are_one_too_many(run, inn):
    for name in ("orchestration.md", "orchestration.txt"):
        (inn / "templates" / name).write_text(TEXT)
    with pytest.raises(DefinitionError, match=r"there are orchestration.txt and orchestration.md"):
        Agent.load(inn)
    done = run("lint", ".")
    assert done.exit_code == 1 and "keep one of them" in done.stdout


def test_one_for_each_of_two_dialects(run, inn):
    (inn / "templates" / "orchestration.json").write_text(BODY.replace("The inn", "JSON"))
    (inn / "templates" / "orchestration.txt").write_text(TEXT.replace("The inn", "Text"))
    assert "JSON. You" in prompt_of(inn) and "Text. You" in prompt_of(inn, CLAUDE_2)
    assert (
        "templates/orchestration.txt: info: 'orchestration.txt' is not used with the dialect "
        "'claude-3', which reads 'orchestration.json' [unused-template]"
    ) in run("lint", ".").stdout
    assert "'orchestration.json' is not used with the dialect 'claude-2'" in (
        run("lint", ".", "--model", CLAUDE_2).stdout
    )


def test_a_template_that_the_definition_replaces_is_named(run, inn):
    (inn / "templates" / "orchestration.json").write_text(BODY)
    override = "promptType: ORCHESTRATION, promptCreationMode: OVERRIDDEN, basePromptTemplate"
    (inn / "agent.yaml").write_text(
        f"{AGENT}promptOverrideConfiguration: "
        f"{{promptConfigurations: [{{{override}: {json.dumps(BODY)!r}}}]}}\n"
    )
    shown = run("lint", ".").stdout
    assert (
        "warning: 'orchestration.json' is not used: agent.yaml has its own ORCHESTRATION"
    ) in shown


@pytest.mark.parametrize(
    "name",
    [
        *("orchestration.yaml", "orchestration.tmpl", "orchestration", "Orchestration.json"),
        *("tools.txt", "instruction.md", "common/tools.j2"),
    ],
)
def test_what_nothing_reads_is_named(run, inn, name):
    file = inn / "templates" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("x")
    done = run("lint", ".")
    assert f"nothing reads {name!r}" in done.stdout or "there is no dialect 'common'" in done.stdout


def test_texts_about_memory_are_named_too(run, inn):
    memory = inn / "memory"
    memory.mkdir()
    for name in ("memory_guideline.j2", "memory_guidelines.j2", "notes.txt"):
        (memory / name).write_text("- Remember.")
    lines = [line for line in run("lint", ".").stdout.splitlines() if "nothing reads" in line]
    assert [line.partition(":")[0] for line in lines] == [
        "memory/memory_guidelines.j2",
        "memory/notes.txt",
    ]
