"""`orchestrator eval`: what it shows and writes, and when it fails."""

import json
import xml.etree.ElementTree as ET

import pytest
from cli_support import ANSWER, ORDER

from orchestrator.agent.evaluation import read_run

ORDERED = {"calls": ["GET /orders/{orderId}"], "contains": "thursday"}
CASES = [
    {"id": "where", "tags": ["orders"], "question": "Where is order 1042?", "expect": ORDERED},
    {"id": "hello", "question": "Hi", "expect": {"contains": "hello", "no_calls": True}},
]
REPLIES = (ORDER, ANSWER, "<answer>Hello.</answer>")
WRONG = (ORDER, ANSWER, "<answer>What?</answer>")


@pytest.fixture
def cases(place):
    file = place / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in CASES))
    return file


def test_every_case_passes(run, shop, script, cases):
    shown = run("eval", shop, cases, script(*REPLIES))
    assert shown.exit_code == 0, shown.output
    assert "1/2 ✓ passed where" in shown.stderr
    row = next(line for line in shown.stdout.splitlines() if line.startswith("orders"))
    assert row.split()[:6] == ["orders", "1", "1", "100", "%", "21–100"]


def test_a_case_that_fails_is_shown_with_each_check(run, shop, script, cases):
    shown = run("eval", shop, cases, script(*WRONG))
    assert shown.exit_code == 1
    assert "✗ hello\n    Hi\n    contains: expected says 'hello'; got What?\n" in shown.stdout
    assert "passed 1 of 2" in shown.stdout
    assert "no_calls" not in shown.stdout


def test_a_share_may_be_enough(run, shop, script, cases):
    assert run("eval", shop, cases, script(*WRONG), "--min", "0.5").exit_code == 0
    shown = run("eval", shop, cases, script(*WRONG), "--min", "0.6")
    assert shown.exit_code == 1
    assert "passed 1 of 2, less than 0.6" in shown.stdout


def test_json_has_all_of_it(run, shop, script, cases):
    shown = run("eval", shop, cases, script(*WRONG), "--json")
    document = json.loads(shown.stdout)
    assert [one["status"] for one in document["results"]] == ["passed", "failed"]
    assert document["variants"][0]["failed_checks"] == {"contains": 1}
    (turn,) = document["results"][0]["turns"]
    assert turn["calls"] == [{"name": "GET /orders/{orderId}", "arguments": {"orderId": "1042"}}]
    assert [step["kind"] for step in turn["steps"] if step["kind"] in ("call", "answer")] == [
        "call",
        "answer",
    ]


def test_a_run_is_kept_and_gone_on_with(run, shop, script, cases, place):
    out = place / "run.jsonl"
    model = script(*REPLIES)
    assert run("eval", shop, cases, model, "--out", out, "--only", "nothing").exit_code == 2
    assert run("eval", shop, cases, model, "--out", out).exit_code == 0
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join(lines[:2]))
    (place / "replies-0.jsonl").write_text(json.dumps(REPLIES[2]) + "\n")  # of what is left
    shown = run("eval", shop, cases, model, "--out", out)
    assert shown.exit_code == 0, shown.output
    assert "has 1 of 2 results; going on" in shown.stderr
    assert [result.case for result in read_run(out).results] == ["where", "hello"]
    # A run that is complete asks no model any more.
    assert run("eval", shop, cases, model, "--out", out).exit_code == 0


def test_a_baseline_without_a_regression(run, shop, script, cases, place):
    out = place / "run.jsonl"
    assert run("eval", shop, cases, script(*REPLIES), "--out", out).exit_code == 0
    shown = run("eval", shop, cases, script(*WRONG), "--baseline", out)
    assert shown.exit_code == 0, shown.output
    assert "no difference shown (100 % → 50 %)" in shown.stdout
    assert "exact McNemar test on 2 common cases: 0 gained, 1 lost, p = 1" in shown.stdout
    assert "lost: hello" in shown.stdout


def test_a_baseline_of_other_cases_with_the_same_ids(run, shop, script, cases, place):
    out = place / "run.jsonl"
    assert run("eval", shop, cases, script(*REPLIES), "--out", out).exit_code == 0
    weaker = [{**CASES[0], "expect": {}}, {**CASES[1], "expect": {}}]
    cases.write_text("".join(json.dumps(case) + "\n" for case in weaker))
    page = place / "report.html"
    shown = run("eval", shop, cases, script(*WRONG), "--baseline", out, "--html", page)
    assert shown.exit_code == 1
    assert "not compared, for the case was changed: where, hello" in shown.stdout
    assert "has no case in common with the baseline" in shown.stdout
    assert "Not compared, for the case was changed: where, hello" in page.read_text()


def test_an_outage_does_not_spoil_a_run_that_is_kept(run, shop, cases, place):
    out = place / "run.jsonl"
    down = "--model=openai:none@http://127.0.0.1:9/v1"
    for held in (2, 4):  # both cases, and then both again
        assert run("eval", shop, cases, down, "--out", out).exit_code == 1
        assert len(out.read_text().splitlines()) == 1 + held
    assert [result.status for result in read_run(out).results] == ["error", "error"]


def test_a_regression_fails(run, shop, script, place):
    cases = place / "cases.jsonl"
    many = [{**CASES[1], "id": f"hello-{number}"} for number in range(6)]
    cases.write_text("".join(json.dumps(case) + "\n" for case in many))
    out = place / "run.jsonl"
    assert run("eval", shop, cases, script(*[REPLIES[2]] * 6), "--out", out).exit_code == 0
    shown = run("eval", shop, cases, script(*[WRONG[2]] * 6), "--baseline", out, "--min", "0")
    assert shown.exit_code == 1
    assert "is worse than the baseline: exact McNemar test" in shown.stdout


def test_an_outage_is_no_pass(run, shop, script, cases, place):
    out = place / "run.jsonl"
    assert run("eval", shop, cases, script(*REPLIES), "--out", out).exit_code == 0
    down = "--model=openai:none@http://127.0.0.1:9/v1"
    shown = run("eval", shop, cases, down, "--baseline", out, "--concurrency", "1")
    assert shown.exit_code == 1
    assert "2 errors" in shown.stdout
    assert "has no case in common with the baseline" in shown.stdout


def test_junit_is_written(run, shop, script, cases, place):
    file = place / "junit.xml"
    assert run("eval", shop, cases, script(*WRONG), "--junit", file).exit_code == 1
    root = ET.parse(file).getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "1", "0")


def test_what_is_around_each_case(run, shop, script, cases, place):
    (place / "around.py").write_text(
        "import contextlib, pathlib\n"
        "@contextlib.contextmanager\n"
        "def note():\n"
        "    with pathlib.Path('notes').open('a') as file:\n"
        "        file.write('begin ')\n"
        "        yield\n"
        "        file.write('end ')\n"
    )
    shown = run("eval", shop, cases, script(*REPLIES), "--around", "around.py:note")
    assert shown.exit_code == 0, shown.output
    assert (place / "notes").read_text() == "begin end begin end "


def test_sessions_can_be_kept(run, shop, script, cases, place):
    state = place / "sessions.sqlite"
    assert run("eval", shop, cases, script(*REPLIES), "--state", state).exit_code == 0
    listed = json.loads(run("sessions", "list", shop, "--state", state, "--json").stdout)
    assert sorted(one["id"].partition("-")[0] for one in listed) == ["hello", "where"]


def test_two_folders_of_templates_are_compared(run, shop, script, cases, place):
    for name in ("one", "two"):
        (place / name).mkdir()
    prompts = ("--prompts", place / "one", "--prompts", place / "two")
    shown = run("eval", shop, cases, script(*REPLIES), *prompts)
    assert shown.exit_code == 0, shown.output
    assert f"+ {place}/two beside " in shown.stdout.replace("\n", "")


def test_a_price_gives_costs(run, shop, script, cases):
    model = script(*REPLIES)
    price = f"{model.removeprefix('--model=')}=3,15"
    document = json.loads(run("eval", shop, cases, model, "--price", price, "--json").stdout)
    (figures,) = document["variants"]
    assert figures["cost"] == pytest.approx(figures["tokens"] * 15 / 1e6)


WRONG_USAGE = {
    ("--min", "2"): "--min is a share from 0 to 1",
    ("--price", "x=1"): "is not MODEL=INPUT,OUTPUT",
    ("--price", "x=1,nan"): "is not MODEL=INPUT,OUTPUT",
    ("--repeat", "0"): "repeat is a number from 1",
    ("--concurrency", "65"): "one from 1 to 64",
    ("--judge-prompt", "x.prompty"): "give --judge SPEC",
    ("--out", "none/run.jsonl"): "--out cannot be written",
    ("--prompts", "none"): "there is no folder of templates 'none'",
    ("--baseline", "cases.jsonl"): "is no run: line 1",
    ("--only", "nothing"): "has the id, tag or agent 'nothing'",
    ("--around", "none.py:f"): "is not a Python file that exists",
    ("--model", "scripted:none.jsonl"): "the script 'none.jsonl' cannot be read",
}


@pytest.mark.parametrize("words", WRONG_USAGE, ids=" ".join)
def test_wrong_usage_is_said_before_a_model_is_asked(run, shop, script, cases, words):
    shown = run("eval", shop, cases, *words)
    assert shown.exit_code == 2
    assert WRONG_USAGE[words] in " ".join(shown.stderr.split())


def test_a_case_that_needs_a_judge(run, shop, script, cases):
    cases.write_text(json.dumps({"id": "a", "question": "Hi", "expect": {"judge": "Kind?"}}))
    shown = run("eval", shop, cases, script())
    assert shown.exit_code == 2
    assert "no model judges: give --judge SPEC" in " ".join(shown.stderr.split())


def test_a_page_is_written(run, shop, script, cases, place):
    file = place / "report.html"
    assert run("eval", shop, cases, script(*WRONG), "--html", file).exit_code == 1
    page = file.read_text()
    assert "<h1>shop</h1>" in page
    assert "Not good enough" in page
    assert "What?" in page


def test_the_agents_own_prompt_of_the_judge_wins(run, shop, script, place):
    cases = place / "cases.jsonl"
    cases.write_text(json.dumps({"id": "a", "question": "Hi", "expect": {"judge": "Kind?"}}))
    words = ("eval", shop, cases, script("<answer>Hello.</answer>"))
    judge = script("Kind.\nPASS").removeprefix("--model=")
    assert run(*words, "--judge", judge).exit_code == 0
    own = shop / "templates" / "evaluation" / "judge.prompty"
    own.parent.mkdir()
    own.write_text("---\nname: [\n---\nuser:\n{{rubric}}\n")  # a mistake shows that it is read
    shown = run(*words, "--judge", judge)
    assert shown.exit_code == 2
    assert "templates/evaluation/judge.prompty" in shown.stderr


def test_code_of_the_cases_that_calls_exit_is_an_error_and_no_success(
    run, shop, script, cases, place
):
    (place / "own.py").write_text(
        "import sys\nfrom contextlib import contextmanager\n\n\n"
        "def leave(outcome):\n    sys.exit(0)\n\n\n"
        "@contextmanager\ndef around():\n    sys.exit(0)\n    yield\n"
    )
    cases.write_text('{"id": "hello", "question": "Hi", "expect": {"python": "own.py:leave"}}\n')
    shown = run("eval", shop, cases, script("<answer>Hello."))
    assert (shown.exit_code, "python: SystemExit: 0" in shown.stdout) == (1, True)
    shown = run("eval", shop, cases, script("<answer>Hello."), "--around", "own.py:around")
    assert (shown.exit_code, "SystemExit: 0" in shown.stdout) == (1, True)


def test_a_check_outside_of_the_folder_of_the_cases(run, shop, script, cases, place):
    cases.write_text('{"id": "hello", "question": "Hi", "expect": {"python": "../own.py:f"}}\n')
    shown = run("eval", shop, cases, script("<answer>Hello."))
    assert shown.exit_code == 2
    assert "is outside the folder of the cases; move it inside" in " ".join(shown.stderr.split())
