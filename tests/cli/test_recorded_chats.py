"""`--record` and `--replay`: a conversation that was recorded is answered without its models."""

import json
import os
import stat

import pytest
from cli_support import ANSWER, CLAUDE, ORDER, call

from orchestrator import Agent
from orchestrator.models import LocalModel, ReplayModel

NOVA = "amazon.nova-pro-v1:0"
TEAM = """
agentName: boss
instruction: You lead the agents of a shop, and answer its customers.
foundationModel: scripted:boss.jsonl@anthropic.claude-3-5-sonnet-20240620-v1:0
agentCollaboration: SUPERVISOR
agentCollaborators:
  - collaboratorName: prices
    collaborationInstruction: Knows prices.
    agentDescriptor: {folder: prices}
"""
PRICES = """
agentName: prices
instruction: You know what everything costs, and tell it.
foundationModel: scripted:prices.jsonl@amazon.nova-pro-v1:0
"""


def test_a_conversation_is_answered_again_without_the_model(run, shop, script):
    asked = "Where is 1042?\nAnd now?\n"
    model = script(ORDER, ANSWER, "<answer>Still there.")
    first = run("chat", shop, model, "--record", "talk.jsonl", input=asked)
    again = run("chat", shop, "--replay", "talk.jsonl", input=asked)
    assert (again.exit_code, again.stdout) == (0, first.stdout)
    assert first.stdout == "Emma will arrive on Thursday.\nStill there.\n"


def test_so_are_single_questions_of_a_session(run, shop, script, place):
    for question, replies in (("Where?", (ORDER, ANSWER)), ("And now?", ("<answer>There.",))):
        words = ("invoke", shop, question, script(*replies), "--session", "s-1", "--state", "a.db")
        done = run(*words, "--record", "talk.jsonl")
    assert "--record adds to 'talk.jsonl', which has 2 model calls already" in done.stderr
    for question, answer in (("Where?", "Emma will arrive on Thursday."), ("And now?", "There.")):
        words = ("invoke", shop, question, "--session", "s-1", "--state", "b.db")
        assert run(*words, "--replay", "talk.jsonl").stdout == f"{answer}\n"


def test_a_recording_is_the_one_that_tests_of_agents_read(run, shop, script):
    run("invoke", shop, "Where?", script(ORDER, ANSWER), "--record", "talk.jsonl")
    agent = Agent.load(shop, model=ReplayModel("talk.jsonl"))
    assert agent.invoke("Where?").text == "Emma will arrive on Thursday."
    done = run("invoke", shop, "Where?", "--model=replay:talk.jsonl")
    assert done.stdout == "Emma will arrive on Thursday.\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_nobody_else_may_read_it(run, shop, script, place):
    run("invoke", shop, "Where?", script(ANSWER), "--record", "new/talk.jsonl")
    assert stat.S_IMODE((place / "new/talk.jsonl").stat().st_mode) == 0o600


def test_another_question_is_an_error_that_names_the_first_difference(run, shop, script):
    run("invoke", shop, "Where is 1042?", script(ANSWER), "--record", "talk.jsonl")
    done = run("invoke", shop, "Where is 1043?", "--replay", "talk.jsonl")
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())
    assert "prompt of the question 'Where is 1043?', which differs" in said
    assert "The first difference: 'Where is 1042?' was recorded, and 'Where is 1043?' asked" in said


def test_a_question_more_than_was_recorded_is_one_too(run, shop, script):
    run("chat", shop, script(ANSWER), "--record", "talk.jsonl", input="Where?\n")
    done = run("chat", shop, "--replay", "talk.jsonl", "--json", input="Where?\nAnd?\n")
    _, second = map(json.loads, done.stdout.splitlines())
    assert "prompt of the question 'And?'" in second["error"]["message"]
    assert "nothing more was recorded, and '[assistant]' asked" in second["error"]["message"]


def test_a_team_of_several_models_is_in_one_recording(run, place):
    message = call("AgentCommunication__sendMessage", recipient="prices", content="A pen?")
    (place / "prices").mkdir()
    (place / "agent.yaml").write_text(TEAM)
    (place / "prices/agent.yaml").write_text(PRICES)
    for name, replies in (
        ("boss.jsonl", (message, "<answer>3 euros.")),
        ("prices/prices.jsonl", ("<answer>3.",)),
    ):
        (place / name).write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    first = run("invoke", ".", "A pen?", "--record", "talk.jsonl")
    assert first.stdout == "3 euros.\n", first.stderr
    records = map(json.loads, (place / "talk.jsonl").read_text().splitlines())
    assert {record["model_id"] for record in records} == {CLAUDE, NOVA}
    for name in ("boss.jsonl", "prices/prices.jsonl"):
        (place / name).write_text('"not this"\n')
    assert run("invoke", ".", "A pen?", "--replay", "talk.jsonl").stdout == "3 euros.\n"


def test_actions_run_again(run, buyer, script):
    model = script(call("bank__pay"), "<answer>Paid.")
    run("invoke", buyer, "Pay", model, "--yes", "--record=t.jsonl")
    done = run("invoke", buyer, "Pay", "--replay", "t.jsonl", "--yes")
    assert done.stdout == "Paid.\n"
    (buyer / "bank.py").write_text((buyer / "bank.py").read_text().replace('"paid"', '"refused"'))
    done = run("invoke", buyer, "Pay", "--replay", "t.jsonl", "--yes")
    assert done.exit_code == 2 and "refused" in done.stderr.split("first difference")[1]


def test_an_embedded_model_needs_no_weights_to_be_replayed(run, shop, place, script, monkeypatch):
    monkeypatch.setattr(LocalModel, "load", lambda self, progress=None: None)
    monkeypatch.setattr(
        LocalModel, "stream", lambda self, request: iter(["<answer>Hi.", _reply("<answer>Hi.")])
    )
    first = run("invoke", shop, "Hello", "--record", "talk.jsonl")
    assert first.stdout == "Hi.\n", first.stderr
    monkeypatch.undo()
    monkeypatch.chdir(place)
    again = run("invoke", shop, "Hello", "--replay", "talk.jsonl")
    assert again.stdout == "Hi.\n", again.stderr


def _reply(text):
    from orchestrator.models import ModelReply

    return ModelReply([{"text": text}])


def test_a_template_is_recorded_as_an_agent_is(run, place, script):
    (place / "greeting.prompty").write_text(
        "---\nname: greeting\ninputs:\n  question: {type: string}\n---\nsystem:\nBe kind.\n\n"
        "user:\n{{question}}\n"
    )
    first = run("chat", "greeting.prompty", script("Hello."), "--record=t.jsonl", input="Hi\n")
    again = run("chat", "greeting.prompty", "--replay=t.jsonl", input="Hi\n")
    assert first.stdout == again.stdout == "Hello.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--replay", "none.jsonl"), "'none.jsonl' cannot be read"),
        (("--replay", "shop/agent.yaml"), "shop/agent.yaml:1: this line is no record"),
        (("--record", "shop/agent.yaml"), "shop/agent.yaml:1: this line is no record"),
        (("--record", "shop"), "--record cannot write to 'shop'"),
        (("--replay", "a.jsonl", "--record", "b.jsonl"), "give one"),
        (("--replay", "a.jsonl", "--model", "local"), "leave --model out"),
    ],
)
def test_what_is_wrong_is_said_before_any_model_is_asked(run, shop, words, said):
    before = (shop / "agent.yaml").read_text()
    done = run("invoke", shop, "Where?", *words)
    assert done.exit_code in (1, 2) and said in " ".join(done.stderr.split())
    assert (shop / "agent.yaml").read_text() == before
