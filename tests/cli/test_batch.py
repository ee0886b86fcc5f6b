"""`orchestrator batch`: every question gets one line, however often the command is stopped."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import call

OUT = Path("questions.results.jsonl")
LINES = ["One?", {"id": "two", "question": "Two?"}, "Three?"]


def write(*lines):
    Path("questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return "questions.jsonl"


def results(file=OUT):
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def one_by_one(*replies):
    return [f"<answer>{reply}</answer>" for reply in replies]


def test_every_question_gets_a_line(run, shop, script):
    replies = script(*one_by_one("1", "2", "3"))
    done = run("batch", shop, write(*LINES), replies, "--concurrency=1")
    assert (done.exit_code, done.stdout.split(" · ")[:2]) == (0, ["3 of 3 questions", "3 answered"])
    found = results()
    assert [(it["id"], it["question"], it["answer"]) for it in found] == [
        ("1", "One?", "1"),
        ("two", "Two?", "2"),
        ("3", "Three?", "3"),
    ]
    assert found[0].keys() == {
        *("id", "question", "session_id", "answer", "stop_reason"),
        *("calls", "tokens", "seconds", "error"),
    }
    assert (found[0]["stop_reason"], found[0]["calls"], found[0]["error"]) == ("end_turn", 1, None)
    assert OUT.stat().st_mode & 0o777 == 0o600


def test_json_is_the_count_of_everything(run, shop, script):
    replies = script(*one_by_one("1", "2"))
    done = run("batch", shop, write("One?", "Two?"), replies, "--json", "--out=o.jsonl")
    counts = json.loads(done.stdout)
    assert counts.pop("seconds") >= 0
    known = {"questions": 2, "known": 0, "answered": 2, "waiting": 0, "failed": 0, "left": 0}
    assert counts == known | {"calls": 2, "tokens": {"input": 0, "output": 8}, "out": "o.jsonl"}


def test_what_has_a_result_is_not_asked_again(run, shop, script):
    run("batch", shop, write("One?"), script(*one_by_one("1")))
    done = run("batch", shop, write("One?", "Two?"), script(*one_by_one("2")), "--json")
    assert json.loads(done.stdout)["known"] == 1
    assert [it["answer"] for it in results()] == ["1", "2"]


@pytest.mark.parametrize("cut", [1, 40])
def test_a_half_written_line_is_mended(run, shop, script, cut):
    run("batch", shop, write("One?", "Two?"), script(*one_by_one("1", "2")), "--concurrency=1")
    whole = OUT.read_bytes()
    OUT.write_bytes(whole[:-cut])  # only its end is missing, or a part of it
    replies = script(*one_by_one("2"))
    assert run("batch", shop, "questions.jsonl", replies).exit_code == 0
    assert [it["answer"] for it in results()] == ["1", "2"]


def test_a_failure_is_a_result_and_can_be_asked_again(run, shop, script):
    done = run("batch", shop, write("One?", "Two?"), script(*one_by_one("1")), "--concurrency=1")
    assert (done.exit_code, "1 failed" in done.stdout) == (1, True)
    assert (results()[1]["answer"], results()[1]["error"]["type"]) == (None, "ModelOutputError")
    assert run("batch", shop, "questions.jsonl", script()).exit_code == 0
    replies = script(*one_by_one("2"))
    assert run("batch", shop, "questions.jsonl", replies, "--retry").exit_code == 0
    assert [it["answer"] for it in results()] == ["1", "2"]
    left = sorted(it.name for it in Path().iterdir() if "results" in it.name)
    assert left == [f".{OUT.name}.batch", OUT.name]


def test_wrong_lines_are_named_before_anything_is_asked(run, shop, script):
    lines = ['"One?"', "{", "[1]", '{"question": ""}', '{"question": "Hi", "quesiton": "Hi"}']
    lines += ['{"id": 1, "question": "Hi"}', '{"question": "Hi", "session_attributes": {"a": 1}}']
    lines += ["Where is my order?"]
    Path("questions.jsonl").write_text("\n".join(lines))
    done = run("batch", shop, "questions.jsonl", script())
    assert (done.exit_code, OUT.exists()) == (2, False)
    told = done.stderr.splitlines()
    assert "has 7 wrong lines, and nothing was asked" in told[0]
    assert [line.split(":")[0] for line in told[1:]] == [f"line {n}" for n in range(2, 9)]
    assert "its id '1' is that of line 1" in done.stderr
    assert "it has no member 'quesiton'" in done.stderr
    assert told[1].endswith("(column 1)")
    assert told[-1].endswith("(column 1); a question alone stands in double quotes")


def test_another_question_under_a_known_id_is_refused(run, shop, script):
    run("batch", shop, write("One?"), script(*one_by_one("1")))
    done = run("batch", shop, write("Another?"), script())
    assert done.exit_code == 2
    assert "has the result of another question under the id '1'" in done.stderr


def test_a_file_that_is_something_else_is_left_as_it_is(run, shop, script):
    Path("other.txt").write_text("My diary\nFirst day\n")
    done = run("batch", shop, write("One?"), script(), "--out=other.txt")
    assert (done.exit_code, "line 1, is no result" in done.stderr) == (2, True)
    assert Path("other.txt").read_text() == "My diary\nFirst day\n"


def test_questions_of_one_session_are_asked_in_their_order(run, shop, script):
    lines = [{"question": f"{n}?", "session_id": "s-1"} for n in range(4)]
    replies = script(*one_by_one("0", "1", "2", "3"))
    done = run("batch", shop, write(*lines), replies, "--concurrency=4", "--state=kept.sqlite")
    assert done.exit_code == 0
    assert [it["answer"] for it in results()] == ["0", "1", "2", "3"]
    shown = run("sessions", "show", "s-1", shop, "--state=kept.sqlite", "--json")
    assert [it["question"] for it in json.loads(shown.stdout)["turns"]] == ["0?", "1?", "2?", "3?"]


def test_handed_over_calls_wait_or_get_the_results_of_the_options(run, buyer, script):
    asks, answer = call("shop__order_book", title="Emma"), "<answer>It is ordered.</answer>"
    done = run("batch", buyer, write("Buy Emma"), script(asks), "--json")
    assert (done.exit_code, json.loads(done.stdout)["waiting"]) == (0, 1)
    (waits,) = results()
    assert waits["return_control"]["invocationInputs"][0]["functionInvocationInput"]
    given = ["--result", 'order_book="ordered"', "--out=o.jsonl"]
    assert run("batch", buyer, "questions.jsonl", script(asks, answer), *given).exit_code == 0
    assert (results("o.jsonl")[0]["answer"], results("o.jsonl")[0]["calls"]) == (
        "It is ordered.",
        2,
    )


def test_attributes_of_a_question_win(run, shop, script):
    question = {"question": "Hi", "prompt_session_attributes": {"name": "Emma"}}
    options = ["--prompt-attribute", "name=Ana", "--session=s-1", "--prompt-attribute", "city=Ulm"]
    assert run("batch", shop, write(question), script(*one_by_one("1")), *options).exit_code == 0
    shown = run("sessions", "show", "s-1", shop, "--json", "--trace").stdout
    assert ("Emma" in shown, "Ana" in shown, "Ulm" in shown) == (True, False, True)


def test_only_one_batch_writes_to_a_file(run, shop, script):
    fcntl = pytest.importorskip("fcntl")
    with open("o.jsonl", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = run("batch", shop, write("One?"), script(), "--out=o.jsonl")
    assert (done.exit_code, "another batch is writing" in done.stderr) == (2, True)


def test_ctrl_c_lets_what_was_begun_end_and_the_next_run_goes_on(run, shop, script, monkeypatch):
    from orchestrator.models import ScriptedModel

    complete = ScriptedModel.complete

    def interrupt(model, request):
        if "Two?" in str(request.messages):
            os.kill(os.getpid(), signal.SIGINT)
        return complete(model, request)

    monkeypatch.setattr(ScriptedModel, "complete", interrupt)
    replies = script(*one_by_one("1", "2"))
    done = run("batch", shop, write(*LINES), replies, "--concurrency=1")
    assert (done.exit_code, [it["answer"] for it in results()]) == (130, ["1", "2"])
    monkeypatch.setattr(ScriptedModel, "complete", complete)
    assert run("batch", shop, "questions.jsonl", script(*one_by_one("3"))).exit_code == 0
    assert [it["answer"] for it in results()] == ["1", "2", "3"]


@pytest.mark.exhaustive
def test_a_killed_batch_is_gone_on_with(shop, place):
    (shop / "replies.jsonl").write_text(json.dumps("<answer>Yes.</answer>") + "\n")
    questions = write(*(f"{n}?" for n in range(100)))
    kill = (
        "import os, signal\n"
        "from orchestrator.cli.batch import results\n"
        "from orchestrator.cli import main\n"
        "from orchestrator.models import ScriptedModel\n"
        "from orchestrator.models.base import ModelReply, Usage\n"
        "add, count = results.Results.add, iter(range(1000))\n"
        "def kill(self, result):\n"
        "    add(self, result)\n"
        "    if next(count) == int(os.environ['KILL_AT']):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "results.Results.add = kill\n"
        "def reply(self, request):\n"
        "    return ModelReply([{'text': '<answer>Yes.</answer>'}], 'end_turn', Usage())\n"
        "ScriptedModel.complete = reply\n"
        "main()\n"
    )
    model = f"--model=scripted:{shop / 'replies.jsonl'}"
    command = [sys.executable, "-c", kill, "batch", str(shop), questions, model]
    codes = []
    for at in ("30", "30", "100"):
        environment = {**os.environ, "KILL_AT": at}
        done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
        codes.append(done.returncode)
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0], done.stderr
    assert sorted(int(it["id"]) for it in results()) == list(range(1, 101))
