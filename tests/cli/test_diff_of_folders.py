"""`orchestrator diff FOLDER FOLDER`: what differs in two agents, and in what their models read."""

import json
import shutil
from pathlib import Path

import pytest

from orchestrator.support.content_root import content_root


@pytest.fixture
def other(shop):
    """A copy of the shop."""
    return Path(shutil.copytree(shop, "other"))


def replace_in(file, old, new):
    text = Path(file).read_text()
    assert old in text
    Path(file).write_text(text.replace(old, new))


def test_a_copy_has_no_difference(run, shop, other):
    done = run("diff", "shop", "other")
    assert (done.exit_code, done.stdout) == (0, "no difference between shop and other\n")
    told = json.loads(run("diff", "shop", "other/agent.yaml", "--json").stdout)
    assert told == {"same": True, "changes": []}


def test_a_changed_instruction_is_shown_in_every_prompt_that_has_it(run, shop, other):
    replace_in("other/agent.yaml", "small bookshop with", "large bookshop with")
    done = run("diff", "shop", "other", "--question", "Where is 1042?")
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    heads = [line for line in lines if line.startswith("+++")]
    assert heads == ["+++ b/agent.yaml", "+++ b/prompt of ORCHESTRATION"]
    shown = lines[lines.index(heads[1]) :]
    assert [it[:44] for it in shown if it[:1] in ("+", "-")][1:] == [
        "-  You help the customers of a small booksho",
        "+  You help the customers of a large booksho",
    ]


def test_a_template_and_a_stage_that_is_on_in_one_only(run, shop, other):
    assert run("templates", "eject", "POST_PROCESSING", "other").exit_code == 0
    told = json.loads(run("diff", "shop", "other", "--json").stdout)
    assert told["same"] is False
    changes = {it["path"]: (it["before"], it["after"]) for it in told["changes"]}
    assert list(changes) == [
        "agent.yaml",
        "templates/post_processing.json",
        "prompt of POST_PROCESSING",
    ]
    before, after = changes["prompt of POST_PROCESSING"]
    assert before is None
    assert "template templates/post_processing.json" in after
    # What the other way round was added is taken away.
    back = run("diff", "other", "shop")
    assert "--- a/prompt of POST_PROCESSING\n+++ /dev/null\n" in back.stdout


def test_a_template_that_counts_by_its_name_alone(run, shop, other):
    default = content_root() / "templates" / "local" / "orchestration.json"
    text = default.read_text().replace("$instruction$", "$instruction$ Be brief.", 1)
    Path("other/templates/orchestration.json").write_text(text)
    done = run("diff", "shop", "other")
    assert done.exit_code == 1
    assert "agent.yaml" not in done.stdout
    assert "-template templates/local/orchestration.json" in done.stdout
    assert "+template templates/orchestration.json" in done.stdout
    assert "Be brief." in done.stdout


def test_order_and_spelling_are_no_difference(run, shop, other):
    replace_in("other/agent.yaml", "agentName:", "agent_name:")
    replace_in("other/action_groups/orders/openapi.yaml", 'version: "1.0"', "version: '1.0'")
    assert run("diff", "shop", "other").exit_code == 0


def test_the_agents_that_are_led_are_compared(run, place):
    for folder in ("one", "two"):
        shutil.copytree(content_root() / "examples" / "team", folder)
    replace_in("two/billing/agent.yaml", "instruction: >-\n", "instruction: >-\n  Be polite.\n")
    done = run("diff", "one", "two")
    assert done.exit_code == 1
    heads = [line for line in done.stdout.splitlines() if line.startswith("+++")]
    assert heads == [
        "+++ b/collaborators/billing/agent.yaml",
        "+++ b/collaborators/billing/prompt of ORCHESTRATION",
    ]


def test_both_are_shown_for_another_model(run, shop, other):
    replace_in("other/agent.yaml", "foundationModel: local", "foundationModel: local:0.5b")
    model = "anthropic.claude-v2:1"
    done = run("diff", "shop", "other", "--model", model)
    assert "prompt of" not in done.stdout
    assert "+++ b/prompt of ORCHESTRATION" in run("diff", "shop", "other").stdout


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("nowhere",), "there is no agent at 'nowhere'"),
        (("broken",), "instruction must be a text"),
        (("other", "--version", "3"), "'other' is a folder"),
        (("--model", "local"), "--model and --question are for two folders"),
        (("ABCDEFGHIJ", "--question", "Hi"), "--model and --question are for two folders"),
    ],
)
def test_trouble_is_no_difference(run, shop, other, words, match):
    Path("broken").mkdir()
    Path("broken/agent.yaml").write_text("agentName: a\ninstruction: 7\n")
    done = run("diff", "shop", *words)
    assert done.exit_code == 2
    assert match in done.stderr


def test_trouble_of_what_an_agent_depends_on_is_no_difference_either(run, shop, other):
    Path("other/action_groups/orders/handler.py").write_text("raise RuntimeError('broken')\n")
    done = run("diff", "shop", "other")
    assert done.exit_code == 2


def test_a_folder_may_have_a_name_like_an_id(run, shop, other):
    other.rename("ABCDEFGHIJ")
    assert run("diff", "shop", "ABCDEFGHIJ").exit_code == 0
