"""`orchestrator sessions`: list, show, end, delete."""

import json
import re
import shlex
import signal
import sqlite3
from contextlib import closing

import pytest
from cli_support import ANSWER, ORDER, call

from orchestrator import Agent
from orchestrator.sessions import session_label
from orchestrator.testing import ScriptedModel


@pytest.fixture
def kept(run, shop, script):
    run("invoke", shop, "Where is 1042?", script(ORDER, ANSWER), "--session=s-1")
    run("invoke", shop, "And now?", script("<answer>Still."), "--session=s-1")
    run("invoke", shop, "Hi", script("<answer>Hello."), "--session=s-2")
    return shop


def test_sessions_are_listed_the_last_used_first(run, kept):
    listed = json.loads(run("sessions", "list", kept, "--json").stdout)
    assert [item["id"] for item in listed] == ["s-2", "s-1"]
    assert [item["state"] for item in listed] == ["idle", "idle"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", listed[0]["updated_time"])
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
    assert "the agent was changed since" not in done.stdout  # its prompts are shown as they were
    with closing(sqlite3.connect(kept / ".orchestrator/sessions.sqlite")) as db, db:
        db.execute("DELETE FROM plan")
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
    assert "agent waits for you" in told
    assert "  shop::order_book(title=Emma) (its result)" in told


def test_a_waiting_confirmation_is_one(run, buyer, script):
    run("invoke", buyer, "Pay", script(call("bank__pay")), "--session=s-1")
    told = run("sessions", "show", "s-1", buyer).stdout
    assert "  bank::pay() (yes or no)" in told
    assert "`orchestrator invoke buyer --session s-1 --results FILE`" in told
    (turn,) = json.loads(run("sessions", "show", "s-1", buyer, "--json").stdout)["turns"]
    assert turn["state"] == "waiting"
    (waits,) = turn["waits_for"]
    assert waits["functionInvocationInput"]["actionInvocationType"] == "USER_CONFIRMATION"


def test_the_next_command_names_the_store_of_the_session(run, buyer, script):
    kept = ["--state", "a server's.sqlite"]
    run("invoke", buyer, "Pay", script(call("bank__pay")), "--session=s-1", *kept)
    (listed,) = json.loads(run("sessions", "list", *kept, "--json").stdout)
    for session in ("s-1", listed["label"]):
        told = run("sessions", "show", session, buyer, *kept).stdout
        found = re.search("Go on with `orchestrator (.*) --results FILE`", " ".join(told.split()))
        assert found
        words = shlex.split(found[1])
        assert words == ["invoke", "buyer", "--session", "s-1", *kept]
    done = run(*words, "--results=-", script("<answer>Paid."), input='{"pay": true}')
    assert done.stdout == "Paid.\n", done.stderr


def state_of(run, folder):
    (listed,) = json.loads(run("sessions", "list", folder, "--json").stdout)
    return listed["agent"], listed["state"]


@pytest.mark.exhaustive
def test_a_turn_that_runs_in_another_process_is_said_to(run, buyer, stuck, script):
    told = run("sessions", "show", "s-1", buyer, "--trace", script()).stdout
    assert "2. calls bank::pay(who=Ann)\n    → runs" in told
    assert "agent running in another process" in told and "Go on" not in told
    (turn,) = json.loads(run("sessions", "show", "s-1", buyer, "--json").stdout)["turns"]
    assert (turn["state"], turn["stop_reason"]) == ("running", "running")
    assert state_of(run, buyer) == ("buyer", "running")


def test_after_a_kill_the_action_that_had_begun_is_told(run, buyer, stuck, script):
    stuck.kill()
    stuck.wait()
    told = run("sessions", "show", "s-1", buyer, "--trace", script()).stdout
    found = re.search(r"2\. calls bank::pay\(who=Ann\)\n +→ (.*)", told)
    assert found and found[1].startswith("began; whether it took effect is not known; key ")
    assert "agent its process stopped" in told
    assert "Go on with `orchestrator invoke buyer --session s-1`." in told
    (turn,) = json.loads(run("sessions", "show", "s-1", buyer, "--json").stdout)["turns"]
    ((begun),) = turn["begun"]
    assert begun["call"] == "bank::pay" and found[1].endswith(begun["key"])
    assert state_of(run, buyer) == ("buyer", "interrupted")
    done = run("invoke", buyer, "--session=s-1", script(call("bank__pay", who="Ann")))
    assert done.exit_code == 1 and begun["key"] in done.stderr
    assert state_of(run, buyer) == ("buyer", "undecided")


@pytest.mark.exhaustive
def test_after_ctrl_c_too(run, buyer, stuck, script):
    stuck.send_signal(signal.SIGINT)
    assert stuck.wait() == 130
    told = run("sessions", "show", "s-1", buyer, "--trace", script()).stdout
    assert "2. calls bank::pay(who=Ann)\n    → began; whether it took effect is not known" in told
    assert "agent stopped by the user" in told
    assert state_of(run, buyer) == ("buyer", "idle")


@pytest.mark.parametrize("verb", ["show", "end", "delete", "export"])
def test_a_folder_in_place_of_a_session_is_named(run, kept, verb):
    for words in ((kept,), (kept, "s-1")):
        done = run("sessions", verb, *words)
        assert done.exit_code == 2
        assert "'shop' is a folder, and no session: give the session before" in done.stderr
        assert "`orchestrator sessions list shop` lists them" in done.stderr


def test_what_is_not_there(run, kept):
    for verb in ("show", "end", "delete"):
        done = run("sessions", verb, "s-9", kept)
        assert done.exit_code == 2
        assert "there is no session 's-9'; there is 's-2', 's-1'" in done.stderr
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


@pytest.fixture
def tenants(run, kept):
    """The shop's store, in which `s-1` is a session of two tenants of a server, too."""
    state = kept / ".orchestrator" / "sessions.sqlite"
    with Agent.load(kept, model=ScriptedModel([]), sessions=state) as agent:
        sessions = agent.sessions
        records = list(sessions.records(session_label(agent.plan.owner, "s-1")))
        for name in ("acme", "zeta"):
            label = session_label(agent.for_tenant(name).plan.owner, "s-1")
            sessions.store.append(sessions.key(label), 0, records, label=label, at=1)
    return kept


def test_the_sessions_of_one_of_a_servers_tenants(run, tenants, script):
    assert "give one of" in run("sessions", "show", "s-1", tenants).stderr
    words = ["s-1", tenants, "--tenant", "acme"]
    assert "where is 1042" in run("sessions", "show", *words).stdout.lower()
    assert run("sessions", "show", *words, "--trace", script()).exit_code == 0
    (listed,) = json.loads(run("sessions", "list", tenants, "--tenant", "acme", "--json").stdout)
    ended = json.loads(run("sessions", "end", *words, "--json").stdout)
    assert ended == {"ended": listed["label"]}
    head = json.loads(run("sessions", "export", *words).stdout.splitlines()[0])
    every = run("sessions", "export", "--all", tenants, "--tenant", "acme").stdout.splitlines()
    assert head["label"] == listed["label"] == json.loads(every[0])["label"]
    assert run("sessions", "export", *words, "--as-cases").exit_code == 0
    assert json.loads(run("sessions", "delete", *words, "--json").stdout) == {
        "deleted": listed["label"]
    }
    assert run("sessions", "list", tenants, "--tenant", "acme").stdout.strip() == "no sessions"
    assert len(json.loads(run("sessions", "list", tenants, "--json").stdout)) == 3
    done = run("sessions", "show", *words)
    assert done.exit_code == 2
    assert "there is no session 's-1' of the tenant 'acme'; there is none" in done.stderr


@pytest.mark.parametrize(
    "command", [["list"], ["export", "--all"], ["delete", "s-1"], ["end", "s-1"], ["show", "s-1"]]
)
def test_a_tenant_without_a_name_is_not_every_tenant(run, tenants, command):
    done = run("sessions", *command, tenants, "--tenant", "")
    assert done.exit_code == 2 and "--tenant" in done.stderr and not done.stdout
    assert len(json.loads(run("sessions", "list", tenants, "--json").stdout)) > 1
