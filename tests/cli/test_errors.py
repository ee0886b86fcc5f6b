"""Errors: one message, its place, the right exit code, and JSON when it is wanted."""

import json

import pytest
from cli_support import ANSWER, ORDER


def test_a_failed_turn_is_exit_code_1(run, shop, script):
    done = run("invoke", shop, "Hi", script(ORDER))
    assert done.exit_code == 1
    assert done.stderr.startswith("error: the script of 'scripted' has 1 replies")


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
    assert "there is no agent at 'nowhere'" in done.stderr


def test_weights_that_are_not_there_name_the_command_that_gets_them(run, shop):
    done = run("invoke", shop, "Hi")
    assert done.exit_code == 1
    assert "orchestrator models pull" in done.stderr


def test_a_traceback_is_shown_only_on_demand(run, script):
    assert run("invoke", "nowhere", "Hi", script(ANSWER)).exception.code == 2
    shown = run("invoke", "nowhere", "Hi", script(ANSWER), "--debug").exception
    assert type(shown).__name__ == "ResourceNotFound"


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
