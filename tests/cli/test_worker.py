"""`orchestrator worker`, and `orchestrator batch --database`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import CLAUDE
from left_out import need_dbos

pytest.importorskip("dbos")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def worker(shop):
    """Starts a worker process for the shop, whose model has five answers."""
    need_dbos()
    Path("replies.jsonl").write_text('"<answer>Yes.</answer>"\n' * 5)
    command = [sys.executable, "-m", "orchestrator", "worker", "shop"]
    command += ["--database=sqlite:///runs.sqlite", f"--model=scripted:replies.jsonl@{CLAUDE}"]
    started = []

    def start(*options):
        process = subprocess.Popen(
            [*command, "--json", *options],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ask(run, shop, *options, count=3):
    lines = [json.dumps(f"{n}?") + "\n" for n in range(count)]
    Path("questions.jsonl").write_text("".join(lines))
    return run("batch", shop, "questions.jsonl", "--database=sqlite:///runs.sqlite", *options)


def test_workers_answer_a_batch_and_end_with_a_signal(run, shop, worker):
    process = worker()
    done = ask(run, shop, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["answered"] == 3
    results = [
        json.loads(line) for line in Path("questions.results.jsonl").read_text().splitlines()
    ]
    assert sorted((it["id"], it["answer"], it["calls"]) for it in results) == [
        (str(n), "Yes.", 1) for n in (1, 2, 3)
    ]
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err.splitlines()[-1]) == (
        0,
        "Ending: turns that run may end; no more are taken.",
    )
    assert json.loads(out)["queues"] == ["turns"]


@pytest.mark.exhaustive
def test_a_result_names_its_session_also_where_the_turn_failed(run, shop, worker):
    worker()
    assert ask(run, shop, count=6).exit_code == 1  # the model has five answers
    lines = Path("questions.results.jsonl").read_text().splitlines()
    results = [json.loads(line) for line in lines]
    assert sorted(it["stop_reason"] for it in results) == ["end_turn"] * 5 + ["failure"]
    listed = json.loads(run("sessions", "list", shop, "--json").stdout)
    assert {it["session_id"] for it in results} == {it["id"] for it in listed}


@pytest.mark.exhaustive
def test_a_batch_that_is_begun_again_submits_nothing_twice(run, shop, worker, monkeypatch):
    from orchestrator.agent.durable import DurableRuns
    from orchestrator.cli.batch import submissions

    # Nobody works yet, so it waits until it is stopped.
    pause = submissions.pause
    monkeypatch.setattr(submissions, "pause", lambda: os.kill(os.getpid(), signal.SIGINT))
    assert ask(run, shop).exit_code == 130
    monkeypatch.setattr(submissions, "pause", pause)
    worker()
    done = ask(run, shop)
    assert done.exit_code == 0, done.stderr + Path("questions.results.jsonl").read_text()
    with DurableRuns("sqlite:///runs.sqlite") as runs:
        assert len(runs.client.list_workflows()) == 3
    assert len(Path("questions.results.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (["--rate=fast"], "--rate 'fast' is not N/SECONDS"),
        (["--rate=1/0"], "--rate '1/0' is not N/SECONDS"),
        (["--tool=a=b.py:c"], "--tool is for scripts"),
        (["script.pl"], "scripts need --state"),
        (["--concurrency=0"], "are numbers from 1"),
        (["--database=postgresql://u:secret@h/d"], "give --state, the database"),
        (["--database=mysql://u:secret@h/d"], "neither sqlite:///FILE"),
    ],
)
def test_wrong_options_are_refused(run, shop, options, wrong):
    Path("script.pl").write_text("Say it. -> text")
    given = options if "database" in options[0] else ["--database=sqlite:///runs.sqlite", *options]
    done = run("worker", shop, *given)
    assert (done.exit_code, wrong in done.stderr) == (2, True)
    assert "secret" not in done.stderr


def test_a_database_of_workers_asks_no_model_here(run, shop, script):
    done = ask(run, shop, script())
    assert (done.exit_code, "--model is not for --database" in done.stderr) == (2, True)


@pytest.mark.exhaustive
def test_a_worker_runs_scripts_under_the_names_of_their_files(run, shop, worker):
    from orchestrator import load_flow
    from orchestrator.agent.durable import DurableRuns
    from orchestrator.testing import ScriptedModel

    Path("poem.pl").write_text("Name a thing. -> thing\n@twice($thing) -> two\n")
    Path("tools.py").write_text("def twice(text):\n    return text * 2\n")
    Path("words.jsonl").write_text('"rain"\n')
    model = f"--model=scripted:words.jsonl@{CLAUDE}"
    process = worker("poem.pl", model, "--state=sessions.sqlite", "--tool=twice=tools.py:twice")
    assert json.loads(process.stdout.readline())["agents"][-1] == "poem.pl"
    with DurableRuns("sqlite:///runs.sqlite") as runs:
        options = {"model": ScriptedModel([]), "sessions": "sessions.sqlite"}
        submission = load_flow("poem.pl").submit(runs=runs, **options)
        assert submission.result(60).output == "rainrain"
