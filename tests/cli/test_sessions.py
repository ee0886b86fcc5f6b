"""`orchestrator sessions`: list, show, end, delete."""

import json

import pytest
from cli_support import ANSWER, ORDER, call


@pytest.fixture
def kept(run, shop, script):
    run("invoke", shop, "Where is 1042?", script(ORDER, ANSWER), "--session=s-1")
    run("invoke", shop, "And now?", script("<answer>Still."), "--session=s-1")
    run("invoke", shop, "Hi", script("<answer>Hello."), "--session=s-2")
    return shop


def test_sessions_are_listed_the_last_used_first(run, kept):
    listed = json.loads(run("sessions", "list", kept, "--json").stdout)
    assert [item["id"] for item in listed] == ["s-2", "s-1"]
    shown = run("sessions", "list", "--state", kept / ".orchestrator/sessions.sqlite").stdout
    assert [line[:3] for line in shown.splitlines()] == ["s-2", "s-1"]


def test_a_conversation_is_shown(run, kept):
    told = run("sessions", "show", "s-1", kept).stdout
    said = [line.strip() for line in told.splitlines() if line.startswith("  ")]
    assert said == ["Where is 1042?", "Emma will arrive on Thursday.", "And now?", "Still."]


def test_the_trace_of_every_turn_is_told_from_the_journal(run, kept, script):
    told = run("sessions", "show", "s-1", kept, "--trace", script()).stdout
    assert told.count("1. thinks") == 2
    assert "2. calls orders::GET /orders/{orderId} (orderId=1042)" in told
    turns = json.loads(run("sessions", "show", "s-1", kept, "--trace", script(), "--json").stdout)
    (first, second) = turns["turns"]
    assert len(first["trace"]) == 9
    prompt = second["trace"][0]["trace"]["orchestrationTrace"]["modelInvocationInput"]["text"]
    assert "Where is 1042?" in prompt


def test_a_changed_agent_is_said_to_be(run, kept, script):
    file = kept / "agent.yaml"
    text = file.read_text().replace("promptOverride", "")
    file.write_text(
        text + "promptOverrideConfiguration: {promptConfigurations: "
        "[{promptType: PRE_PROCESSING, promptState: ENABLED}]}\n"
    )
    done = run("sessions", "show", "s-1", kept, "--trace", script())
    assert done.exit_code == 0
    assert "the agent was changed since" in done.stdout


def test_an_ended_session_begins_anew(run, kept, script):
    assert run("sessions", "end", "s-1", kept).stdout == "ended s-1\n"
    run("invoke", kept, "Who am I?", script("<answer>Who?"), "--session=s-1")
    done = run("render", kept, "Hm?", script(), "--session=s-1")
    assert "Who am I?" in done.stdout and "1042" not in done.stdout
    assert "the session began anew" in run("sessions", "show", "s-1", kept).stdout


def test_a_deleted_session_is_gone(run, kept):
    assert json.loads(run("sessions", "delete", "s-1", kept, "--json").stdout)["deleted"]
    listed = json.loads(run("sessions", "list", kept, "--json").stdout)
    assert [item["id"] for item in listed] == ["s-2"]


def test_a_waiting_turn_is_shown_as_such(run, buyer, script):
    model = script(call("shop__order_book", title="Emma"))
    run("invoke", buyer, "Buy", model, "--session=s-1")
    told = run("sessions", "show", "s-1", buyer, "--trace", script()).stdout
    assert "hands over shop::order_book(title=Emma)" in told
    assert "agent waits for a result" in told


def test_what_is_not_there(run, kept):
    for verb in ("show", "end", "delete"):
        done = run("sessions", verb, "s-9", kept)
        assert done.exit_code == 2
        assert "there is no session 's-9'" in done.stderr
    done = run("sessions", "list", "--state", "nowhere.sqlite")
    assert done.exit_code == 2 and "no sessions are kept" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("sessions", "list", "shop"),
        ("sessions", "show", "s-1", "shop"),
        ("sessions", "show", "s-1", "shop", "--trace"),
        ("sessions", "end", "s-1", "shop"),
        ("sessions", "delete", "s-1", "shop"),
        ("render", "shop", "Hi", "--session=s-1"),
        ("render", "shop", "Hi", "--session=s-1", "--state=shop/own.sqlite"),
    ],
)
def test_looking_for_a_session_makes_no_file(run, shop, script, words):
    before = sorted(shop.rglob("*"))
    run(*words)
    assert sorted(shop.rglob("*")) == before


def test_two_agents_with_a_session_of_one_name(run, kept, buyer, script):
    state = kept / ".orchestrator" / "sessions.sqlite"
    run("invoke", buyer, "Hi", script("<answer>Hello."), "--session=s-1", f"--state={state}")
    done = run("sessions", "show", "s-1", kept)
    assert done.exit_code == 2 and "give one of" in done.stderr
    label = json.loads(run("sessions", "list", kept, "--json").stdout)[0]["label"]
    assert run("sessions", "show", label, kept).exit_code == 0
