"""`orchestrator batch` after a kill: no action is repeated, and no answer is asked for again."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import call
from left_out import sampled

from orchestrator.cli.batch.results import Results

OUT = Path("q.results.jsonl")
FOLDER = Path(".q.results.jsonl.batch")
PAYER = """
agentName: payer
instruction: You pay bills for people when they ask you to.
foundationModel: local
actionGroups:
  - actionGroupName: bank
    functionSchema:
      functions:
        - {name: pay, description: Pay for it.}
    actionGroupExecutor: {lambda: bank.py}
"""
BANK = """
import os, signal

def lambda_handler(event, context):
    with open(os.environ["PAID"], "a") as file:
        file.write(context.aws_request_id + "\\n")
    if os.environ.get("KILLED"):
        os.kill(os.getpid(), signal.SIGKILL)
    body = {"TEXT": {"body": "paid"}}
    return {"messageVersion": "1.0", "response": {
        "actionGroup": event["actionGroup"], "function": event["function"],
        "functionResponse": {"responseBody": body}}}
"""
PAYS = [call("bank__pay"), "<answer>Paid.</answer>"]


@pytest.fixture
def payer(place, monkeypatch):
    folder = place / "payer"
    folder.mkdir()
    (folder / "agent.yaml").write_text(PAYER)
    (folder / "bank.py").write_text(BANK)
    monkeypatch.setenv("PAID", str(place / "paid.log"))
    Path("q.jsonl").write_text('{"id": "a", "question": "Pay 20 to Ann"}\n')
    return folder


def payments():
    return Path("paid.log").read_text().split()


def results():
    return [json.loads(line) for line in OUT.read_text().splitlines()]


def run_killed(*words):
    command = [sys.executable, "-m", "orchestrator", *map(str, words)]
    environment = {**os.environ, "KILLED": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("state", sampled([[], ["--state=s.sqlite"]]))
def test_an_action_that_a_kill_cut_off_is_reported_and_not_repeated(run, payer, script, state):
    words = ["batch", payer, "q.jsonl", *state]
    run_killed(*words, script(*PAYS))
    assert (len(payments()), OUT.read_text()) == (1, "")
    done = run(*words, script(*PAYS))
    (line,) = results()
    assert (done.exit_code, len(payments())) == (1, 1)
    assert (line["answer"], line["error"]["type"]) == (None, "ActionOutcomeUnknown")
    assert payments()[0] in line["error"]["message"]


@pytest.mark.exhaustive
def test_a_retry_that_was_killed_is_not_repeated_either(run, payer, script):
    words = ["batch", payer, "q.jsonl"]
    assert run(*words, script()).exit_code == 1  # no reply: it fails before it pays
    run_killed(*words, script(*PAYS), "--retry")
    assert (len(payments()), OUT.read_text()) == (1, "")
    assert run(*words, script(*PAYS)).exit_code == 1
    assert (len(payments()), results()[0]["error"]["type"]) == (1, "ActionOutcomeUnknown")
    # Whoever has looked at the bank decides.
    assert run(*words, script(*PAYS), "--retry").exit_code == 0
    assert (len(set(payments())), results()[0]["answer"]) == (2, "Paid.")


def test_an_answer_without_its_line_is_not_asked_for_again(run, payer, script, monkeypatch):
    def fail(self, result):
        raise OSError("the process was killed here")

    with monkeypatch.context() as killed:
        killed.setattr(Results, "add", fail)
        assert run("batch", payer, "q.jsonl", script(*PAYS)).exit_code != 0
    assert (len(payments()), OUT.read_text()) == (1, "")
    assert run("batch", payer, "q.jsonl", script()).exit_code == 0
    assert (len(payments()), results()[0]["answer"]) == (1, "Paid.")


def test_results_that_are_deleted_are_another_batch(run, payer, script):
    assert run("batch", payer, "q.jsonl", script(*PAYS)).exit_code == 0
    OUT.unlink()
    assert run("batch", payer, "q.jsonl", script(*PAYS)).exit_code == 0
    assert len(set(payments())) == 2


def test_what_is_kept_beside_the_results_is_private_and_may_be_deleted(run, payer, script):
    assert run("batch", payer, "q.jsonl", script(*PAYS)).exit_code == 0
    assert FOLDER.stat().st_mode & 0o777 == 0o700
    files = [it for it in FOLDER.iterdir() if it.is_file()]
    assert {it.stat().st_mode & 0o777 for it in files} == {0o600}
    for file in sorted(FOLDER.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    FOLDER.rmdir()
    assert run("batch", payer, "q.jsonl", script()).exit_code == 0
    assert len(payments()) == 1
