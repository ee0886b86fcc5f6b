"""`orchestrator sessions decide`: after a kill -9 in an action somebody says what became of it."""

import json
import shutil
from pathlib import Path

import pytest
from cli_support import call, write_buyer, write_script
from left_out import sampled
from stuck import start_stuck
from typer.testing import CliRunner

from orchestrator import Agent
from orchestrator.cli import app
from orchestrator.sessions import session_label
from orchestrator.testing import ScriptedModel

PAID = "<answer>Paid.</answer>"
WORKS = """
def lambda_handler(event, context):
    with open("paid.log", "a") as file:
        file.write(context.aws_request_id + "\\n")
    return {"messageVersion": "1.0", "response": {
        "actionGroup": event["actionGroup"], "function": event["function"],
        "functionResponse": {"responseBody": {"TEXT": {"body": "paid now"}}}}}
"""


@pytest.fixture(scope="module")
def left_folder(tmp_path_factory):
    """The folder where the turn of `killed` was."""
    folder = tmp_path_factory.mktemp("left")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        buyer = write_buyer()
        model = write_script(folder / "replies.jsonl", call("bank__pay", who="Ann"))
        with start_stuck(model) as process:
            process.kill()
        (buyer / "bank.py").write_text(WORKS)
        done = CliRunner().invoke(app, ["invoke", str(buyer), "--session=s-1", model])
    assert done.exit_code == 1
    assert "orchestrator sessions decide s-1" in " ".join(done.stderr.split())
    return folder


@pytest.fixture
def killed(left_folder, place):
    """The agent whose turn was killed in its action; its action works from now on."""
    return Path(shutil.copytree(left_folder / "buyer", "buyer"))


def find_key(run, folder):
    listed = json.loads(run("sessions", "decide", "s-1", folder, "--json").stdout)
    ((waiting),) = listed["calls"]
    assert waiting["name"] == "bank::pay"
    return waiting["key"]


def paid(place):
    log = place / "paid.log"
    return log.read_text().split() if log.exists() else []


def test_what_is_undecided_is_listed(run, killed, script):
    key = find_key(run, killed)
    told = " ".join(run("sessions", "decide", "s-1", killed, script()).stdout.split())
    assert "bank::pay(who=Ann): whether it took effect is not known" in told and key in told
    shown = run("sessions", "show", "s-1", killed).stdout
    assert "agent waits for your decision" in shown
    assert "orchestrator sessions decide s-1 buyer" in " ".join(shown.split())
    (listed,) = json.loads(run("sessions", "list", killed, "--json").stdout)
    assert listed["state"] == "undecided"
    (turn,) = json.loads(run("sessions", "show", "s-1", killed, "--json").stdout)["turns"]
    assert (turn["state"], turn["stop_reason"]) == ("undecided", "undecided")


def test_it_is_not_pruned(run, killed):
    done = run("sessions", "prune", "--older-than=0s", killed, "--yes", "--json")
    assert json.loads(done.stdout)["deleted"] == []
    assert find_key(run, killed)


def test_it_happened(run, killed, script, place):
    key = find_key(run, killed)
    words = ["sessions", "decide", "s-1", killed, script(PAID)]
    done = run(*words, "--happened", f'{key}="paid before"')
    assert (done.exit_code, done.stdout.strip(), paid(place)) == (0, "Paid.", [])
    again = run(*words, "--repeat", key)
    assert again.exit_code == 2 and "waits for no decision" in again.stderr


def test_it_did_not(run, killed, script, place):
    key = find_key(run, killed)
    words = ["sessions", "decide", "s-1", killed, script(PAID), "--json"]
    done = run(*words, "--repeat", "bank::pay")
    assert json.loads(done.stdout)["text"] == "Paid." and paid(place) == [key]


def test_given_up(run, killed, script, place):
    done = run("sessions", "decide", "s-1", killed, script(), "--give-up", "bank::pay")
    assert done.exit_code == 1 and "nobody knows" in done.stderr and paid(place) == []
    (listed,) = json.loads(run("sessions", "list", killed, "--json").stdout)
    assert listed["state"] == "failed"


@pytest.mark.exhaustive
def test_that_of_one_of_a_servers_tenants(run, killed, script, place):
    key = find_key(run, killed)
    (store,) = killed.rglob("sessions.sqlite")
    with Agent.load(killed, model=ScriptedModel([PAID]), sessions=store) as agent:
        sessions = agent.sessions
        label = session_label(agent.plan.owner, "s-1")
        tenants = session_label(agent.for_tenant("acme").plan.owner, "s-1")
        records = list(sessions.records(label))
        sessions.store.append(sessions.key(tenants), 0, records, label=tenants, at=1)
    words = ["sessions", "decide", "s-1", killed, script(PAID), "--repeat", key]
    nobodys = run(*words, "--tenant", "other")
    assert nobodys.exit_code != 0 and paid(place) == []
    done = run(*words, "--tenant", "acme")
    assert (done.exit_code, done.stdout.strip(), paid(place)) == (0, "Paid.", [key])
    assert find_key(run, killed) == key  # the one without a tenant still waits


def test_how_to_go_on_with_those_of_a_servers_tenants(run, killed):
    find_key(run, killed)
    (store,) = killed.rglob("sessions.sqlite")
    with Agent.load(killed, model=ScriptedModel([]), sessions=store) as agent:
        sessions = agent.sessions
        records = list(sessions.records(session_label(agent.plan.owner, "s-1")))
        acme = agent.for_tenant("acme").plan.owner
        for id, some in (("s-2", records), ("s-3", records[:1])):
            label = session_label(acme, id)
            sessions.store.append(sessions.key(label), 0, some, label=label, at=1)
    elsewhere = run("sessions", "show", "s-2", "--state", store).stdout
    assert f"sessions decide s-2 FOLDER --state {store} --tenant NAME" in " ".join(
        elsewhere.split()
    )
    here = " ".join(run("sessions", "show", "s-2", killed).stdout.split())
    assert f"sessions decide s-2 {killed} --tenant NAME" in here
    shown = " ".join(run("sessions", "show", "s-3", killed).stdout.split())
    assert "The server goes on with it" in shown and "invoke" not in shown
    done = run("sessions", "decide", "s-3", killed, "--tenant", "acme")
    assert done.exit_code == 2 and "the server goes on" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "problem"),
    sampled(
        [
            (["--repeat", "x"], "no undecided call"),
            (["--happened", "bank::pay"], "is not NAME=JSON"),
            (["--happened", "bank::pay=paid"], "is not JSON"),
            (["--repeat", "bank::pay", "--give-up", "bank::pay"], "decided twice"),
        ]
    ),
)
def test_what_is_no_decision(run, killed, script, place, words, problem):
    done = run("sessions", "decide", "s-1", killed, script(PAID), *words)
    assert done.exit_code == 2 and problem in " ".join(done.stderr.split())
    assert paid(place) == []


@pytest.mark.exhaustive
def test_results_by_name_decide_nothing(run, killed, script, place):
    (place / "results.json").write_text('{"pay": true}')
    done = run("invoke", killed, "--session=s-1", "--results=results.json", script(PAID))
    assert done.exit_code == 2 and "sessions decide" in " ".join(done.stderr.split())
    assert paid(place) == []
