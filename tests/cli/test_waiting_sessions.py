"""`invoke --session` without a question: results of calls by any of their names, or what to do."""

import json
import re

import pytest
from cli_support import call

BUY = call("shop__order_book", title="Emma")
PAY = call("bank__pay")
BOTH = [*BUY, {"toolUse": {**PAY[0]["toolUse"], "toolUseId": "t-2"}}]
MORE = call("shop__order_book", title="Persuasion")
TWICE = [*BUY, {"toolUse": {**MORE[0]["toolUse"], "toolUseId": "t-2"}}]


@pytest.fixture
def wait(run, buyer, script):
    """Begins a turn of the session `s-1` that waits for results."""

    def wait(reply):
        done = run("invoke", buyer, "Buy Emma", script(reply), "--session=s-1")
        assert (done.exit_code, done.stdout) == (0, ""), done.stderr
        return done

    return wait


@pytest.fixture
def go_on(run, buyer, script):
    """Goes on with it, without a question."""

    def go_on(*words, results=None):
        given = () if results is None else ("--results=-",)
        text = json.dumps(results)
        model = script("<answer>Done.")
        return run("invoke", buyer, model, "--session=s-1", *words, *given, input=text)

    return go_on


def test_what_sessions_show_prints_is_a_name_of_its_call(run, buyer, wait, go_on):
    wait(BOTH)
    shown = run("sessions", "show", "s-1", buyer).stdout
    names = re.findall(r"^  (\S+::.*\)) \(.*\)$", shown, re.MULTILINE)
    assert names == ["shop::order_book(title=Emma)", "bank::pay()"]
    done = go_on(results={names[0]: "sent", names[1]: True})
    assert (done.exit_code, done.stdout) == (0, "Done.\n"), done.stderr


@pytest.mark.parametrize("pay", ["pay", "bank::pay", "bank::pay()"])
@pytest.mark.parametrize("order", ["order_book", "shop::order_book", "shop::order_book()"])
def test_shorter_names_are_accepted_too(wait, go_on, pay, order):
    wait(BOTH)
    done = go_on(results={pay: False, order: "sent"})
    assert (done.exit_code, done.stdout) == (0, "Done.\n"), done.stderr


def test_a_path_is_accepted_as_it_is_printed(run, shop, script):
    text = (shop / "agent.yaml").read_text()
    executor = "lambda: action_groups/orders/handler.py"
    (shop / "agent.yaml").write_text(text.replace(executor, "customControl: RETURN_CONTROL"))
    look_up = call("GET__orders__getOrder", orderId="1042")
    words = ("invoke", shop, "--session=s-1")
    asked = run(*words, "Where?", script(look_up))
    (name,) = re.findall(r"waits for you: (.*) \(its result\)", asked.stderr)
    assert name == "orders::GET /orders/{orderId} (orderId=1042)"
    done = run(*words, "--results=-", script("<answer>There."), input=json.dumps({name: {}}))
    assert (done.exit_code, done.stdout) == (0, "There.\n"), done.stderr


def test_two_calls_of_one_function_are_told_apart_by_what_is_printed(run, buyer, wait, go_on):
    wait(TWICE)
    vague = go_on(results={"order_book": "sent"})
    assert vague.exit_code == 2
    assert "2 calls of 'order_book' wait for results: give a list of 2" in vague.stderr
    line = "shop::order_book(title={})"
    results = {line.format("Persuasion"): "is sold out", line.format("Emma"): "is posted"}
    done = go_on("--json", results=results)
    assert done.stdout.index("is posted") < done.stdout.index("is sold out")


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ({}, "unknown: [], missing: ['shop::order_book(title=Emma)', 'bank::pay()']"),
        (
            {"order": 1, "pay": True},
            "unknown: ['order'], missing: ['shop::order_book(",
        ),
        (
            {"pay": True, "bank::pay": False},
            "a call has several results, one as 'bank::pay'",
        ),
        ({"pay": "yes", "order_book": 1}, "only asks for confirmation"),
    ],
)
def test_results_that_do_not_fit_say_which_calls_wait(wait, go_on, results, said):
    wait(BOTH)
    done = go_on(results=results)
    assert done.exit_code == 2 and said in " ".join(done.stderr.split())


def test_no_results_at_all_are_no_json(run, buyer, script):
    words = ("invoke", buyer, script(), "--session=s-1", "--results=-")
    assert "--results: stdin is empty, and no JSON" in run(*words, input=" \n").stderr
    assert "--results: stdin is not JSON: Expecting value" in run(*words, input="pay").stderr


def test_options_answer_what_waits(wait, go_on):
    assert "and with --result order_book=JSON and --yes or --results FILE." in " ".join(
        wait(BOTH).stderr.split()
    )
    done = go_on("--yes", "--result", 'order_book="sent"')
    assert (done.exit_code, done.stdout) == (0, "Done.\n")
    assert done.stderr.splitlines() == [
        "given: shop::order_book(title=Emma) → sent",
        "confirmed: bank::pay()",
    ]


def test_without_any_result_it_is_said_what_waits_and_how_to_answer(wait, go_on):
    wait(BOTH)
    done = go_on("--yes")
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())
    assert "waits for you: shop::order_book(title=Emma) (its result)" in said
    assert "give --result order_book=JSON and --yes, or --results FILE" in said


def test_a_session_without_an_open_turn_needs_a_question(run, buyer, script, go_on):
    run("invoke", buyer, "Hello", script("<answer>Hello."), "--session=s-1")
    for done in (go_on(), run("invoke", buyer, "--session=s-2", script())):
        assert done.exit_code == 2
        assert "has no open turn that could go on; give a question" in " ".join(done.stderr.split())
