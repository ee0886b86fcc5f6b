"""`orchestrator render`: the exact prompt, without a model."""

import json

import pytest
from cli_support import ANSWER


def test_no_model_has_to_be_there(run, shop):
    done = run("render", shop, "Where is order 1042?")
    assert done.exit_code == 0
    assert done.stdout.startswith("ORCHESTRATION for local:qwen")
    assert "\nuser\n  Where is order 1042?\n" in done.stdout
    assert "$question$" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("stage", ["PRE_PROCESSING", "pre-processing"])
def test_a_stage_may_stand_before_the_question(run, shop, stage):
    done = run("render", shop, stage, "Where?", "--json")
    assert json.loads(done.stdout)["stage"] == "PRE_PROCESSING"


def test_json_has_the_spans_of_every_piece(run, shop, script):
    done = run("render", shop, "Where?", script(), "--json")
    prompt = json.loads(done.stdout)
    filled = {
        span["origin"]: prompt["system"][span["start"] : span["end"]]
        for span in prompt["system_spans"]
    }
    assert filled["instruction"].startswith("You help the customers of a small bookshop")
    assert [message["role"] for message in prompt["messages"]] == ["user"]
    assert prompt["messages"][0]["spans"][0]["origin"] == "question"
    assert prompt["tools"][0]["toolSpec"]["name"] == "GET__orders__getOrder"
    assert prompt["inference"]["maximumLength"] == 2048


def test_values_of_a_running_turn_can_be_given(run, shop):
    done = run("render", shop, "POST_PROCESSING", "Hi", "--value", "latest_response=So it is")
    assert "So it is" in done.stdout


def test_a_kept_conversation_is_in_the_prompt(run, shop, script):
    run("invoke", shop, "My name is Ana", script(ANSWER), "--session=s-1")
    done = run("render", shop, "Who am I?", script(), "--session=s-1", "--json")
    texts = [message["content"][0]["text"] for message in json.loads(done.stdout)["messages"]]
    assert texts[0] == "My name is Ana" and texts[-1] == "Who am I?"


def test_colours_say_where_a_piece_came_from(run, shop, script, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = run("render", shop, "Where?", script()).stdout
    assert "\x1b[32mWhere?" in shown.replace("\x1b[0m", "")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in run("render", shop, "Where?", script()).stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["NOWHERE", "Hi"], "there is no stage 'NOWHERE'"),
        (["Where", "is", "it"], "put the question in quotes"),
    ],
)
def test_a_wrong_stage_or_question(run, shop, words, problem):
    done = run("render", shop, *words)
    assert done.exit_code == 2
    assert problem in done.stderr


def test_a_script_speaks_the_dialect_of_the_agent_or_of_the_model_that_it_names(run, shop, place):
    (place / "a@b.jsonl").write_text('"<answer>Hi."\n')
    rendered = [
        json.loads(run("render", shop, "Hi", f"--model=scripted:a@b.jsonl{at}", "--json").stdout)
        for at in ("", "@anthropic.claude-3-sonnet-20240229-v1:0", "@amazon.nova-pro-v1:0")
    ]
    local, claude, nova = rendered
    assert local["model_id"].startswith("local:") and "<tools>" in local["system"]
    assert "<function_calls>" in json.dumps(claude) and claude["tools"] == []
    assert nova["model_id"] == "amazon.nova-pro-v1:0" and nova["tools"]


def test_messages_that_the_template_brings_are_told_from_those_of_the_turn(run, shop):
    (shop / "templates" / "orchestration.json").write_text(
        json.dumps(
            {
                "system": "$instruction$",
                "messages": [
                    {"role": "user", "content": [{"text": "How warm is it?"}]},
                    {"role": "assistant", "content": [{"text": "<answer>5 degrees."}]},
                    {"role": "user", "content": [{"text": "$question$"}]},
                    {"role": "assistant", "content": [{"text": "$agent_scratchpad$"}]},
                ],
            }
        )
    )
    shown = run("render", shop, "Hi", "--model=amazon.nova-pro-v1:0").stdout.splitlines()
    assert shown[1] == "template shop/templates/orchestration.json"
    at = shown.index("user from the template")
    assert shown[at + 1] == "  How warm is it?"
    assert "assistant from the template" in shown
    assert shown[shown.index("user") + 1] == "  Hi"
