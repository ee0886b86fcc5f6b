"""Errors: one message, its place, the right exit code, and JSON when it is wanted."""

import json

import pytest
from cli_support import ANSWER, CLAUDE, ORDER


def test_a_failed_turn_is_exit_code_1(run, shop, script):
    done = run("invoke", shop, "Hi", script(ORDER))
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: the script of {CLAUDE!r} has 1 reply")


def test_a_failed_turn_in_json_has_what_was_done(run, shop, script):
    done = run("invoke", shop, "Hi", script(ORDER), "--json")
    document = json.loads(done.stdout)
    assert document["error"]["type"] == "ModelOutputError"
    assert document["error"]["file"] is None
    assert "getOrder" in json.dumps(document["reply"]["trace"])


def test_a_broken_definition_is_shown_with_its_line(run, shop, script):
    file = shop / "agent.yaml"
    file.write_text(file.read_text().replace("instruction:", "instructions:"))
    done = run("invoke", shop, "Hi", script(ANSWER))
    assert done.exit_code == 2
    lines = done.stderr.splitlines()
    assert lines[0].startswith("shop/agent.yaml:4:1: error: 'instructions' is not a member")
    assert lines[1:4] == ["  4 | instructions: >-", "    | ^", "    = did you mean 'instruction'?"]


def test_a_broken_definition_in_json_has_its_place(run, shop, script):
    (shop / "agent.yaml").write_text("agentName: [")
    done = run("render", shop, "Hi", "--json")
    error = json.loads(done.stdout)["error"]
    assert done.exit_code == 2
    assert (error["type"], error["file"], error["line"]) == (
        "DefinitionError",
        "shop/agent.yaml",
        1,
    )


@pytest.mark.parametrize("verb", [("lint",), ("render", "Hi"), ("invoke", "Hi")])
def test_an_agent_that_is_not_there(run, verb):
    name, *rest = verb
    done = run(name, "nowhere", *rest)
    assert done.exit_code == 2
    assert "there is no agent at 'nowhere'; give its folder" in done.stderr


def test_an_agent_that_is_nearly_there(run, shop):
    assert "'shp'; did you mean 'shop'?" in run("invoke", "shp", "Hi").stderr
    assert "did you mean 'shop/agent.yaml'?" in run("invoke", "shop/agent.yml", "Hi").stderr
    far = run("invoke", shop.resolve().parent / "nope", "Hi").stderr
    assert "give its folder or file" in far and "did you mean" not in far


def test_a_question_in_the_place_of_the_folder(run):
    done = run("invoke", "Where is order 1042?")
    assert done.exit_code == 2
    assert "there is no agent at 'Where is order 1042?'; give its folder" in done.stderr


def test_weights_that_are_not_there_name_the_command_that_gets_them(run, shop):
    done = run("invoke", shop, "Hi")
    assert done.exit_code == 1
    assert "orchestrator models pull" in done.stderr


def test_a_traceback_is_shown_only_on_demand(run, script):
    plain = run("invoke", "nowhere", "Hi", script(ANSWER))
    assert plain.exit_code == 2 and "Traceback" not in plain.stderr
    told = run("invoke", "nowhere", "Hi", script(ANSWER), "--debug", "--json")
    assert told.exit_code == 2 and told.stderr.startswith("Traceback (most recent call last):")
    assert told.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]
    assert json.loads(told.stdout)["error"]["type"] == "ResourceNotFound"


@pytest.fixture
def failing(shop):
    """The shop with a handler that raises, and where it does."""
    file = shop / "action_groups" / "orders" / "handler.py"
    file.write_text("def lambda_handler(event, context):\n    raise KeyError('sk-1234')\n")
    return shop


PLACE = "action_groups/orders/handler.py:2"


def test_a_failed_action_is_told_with_its_place_and_the_way_to_its_message(run, failing, script):
    done = run("invoke", failing, "Hi", script(ORDER))
    assert done.exit_code == 1
    message, way_out = done.stderr.splitlines()
    assert f"raised KeyError at {PLACE};" in message
    assert way_out == "  = run with --debug to see it"
    assert "sk-1234" not in done.stderr and "__cause__" not in done.stderr


def test_debug_shows_the_frames_of_the_handler(run, failing, script):
    done = run("invoke", failing, "Hi", script(ORDER), "--debug")
    assert f'shop/{PLACE[:-2]}", line 2, in lambda_handler' in done.stderr
    assert "KeyError: 'sk-1234'" in done.stderr
    assert "run with --debug" not in done.stderr
    chat = run("chat", failing, script(ORDER), "--debug", input="Hi\n")
    assert "KeyError: 'sk-1234'" in chat.stderr


def test_the_json_of_an_error_has_what_the_error_knows(run, failing, script):
    done = run("invoke", failing, "Hi", script(ORDER), "--json")
    error = json.loads(done.stdout)["error"]
    assert error["resource"] == "GET::orders::/orders/{orderId}"
    assert error["bedrock_name"] == "DependencyFailedException"
    assert error["hint"] == "run with --debug to see it"
    assert "sk-1234" not in done.stdout


def test_a_limit_is_told_with_the_line_that_raises_it(run, shop, script):
    with (shop / "agent.yaml").open("a") as file:
        file.write("limits: {modelCalls: 1}\n")
    done = run("invoke", shop, "Hi", script(ORDER, ANSWER))
    assert done.stderr.splitlines()[-1] == (
        "  = `limits: {modelCalls: ...}` in agent.yaml raises it; --trace shows what it went into"
    )
    done = run("invoke", shop, "Hi", script(ORDER, ANSWER), "--json")
    error = json.loads(done.stdout)["error"]
    assert (error["type"], error["limit"]) == ("LimitExceeded", "model_calls")


def test_a_fault_of_the_program_is_one_line_too(run, shop, script, monkeypatch):
    monkeypatch.setattr("orchestrator.Agent.load", lambda *given, **named: {}["missing"])
    done = run("render", shop, "Hi", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["error"]["type"] == "KeyError"
    assert done.stderr == "error: KeyError: 'missing' (--debug shows where)\n"


def test_text_cannot_drive_the_terminal(run, shop, script):
    evil = "<answer>a\x1b[31mb\x07\x9bc\r\nd</answer>"
    done = run("invoke", shop, "Hi", script(evil))
    assert done.stdout == "a�[31mb��c\nd\n"
    exact = run("invoke", shop, "Hi", script(evil), "--json")
    assert "a\x1b[31mb" in json.loads(exact.stdout)["text"]


def test_a_model_that_is_none_is_shown_where_it_is_named_also_to_a_script(run, shop, script):
    file = shop / "agent.yaml"
    file.write_text(file.read_text().replace("foundationModel: local", "foundationModel: gpt-4"))
    (replies := shop / "r.jsonl").write_text('"Hi"\n')
    line = 1 + file.read_text().splitlines().index("foundationModel: gpt-4")
    for model in ((), (f"--model=scripted:{replies}",)):
        done = run("invoke", shop, "Hi", *model)
        assert done.stderr.startswith(
            f"shop/agent.yaml:{line}:18: error: there is no model 'gpt-4'"
        )
