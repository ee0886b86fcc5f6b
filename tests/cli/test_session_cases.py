"""`sessions export --as-cases`: a real session is a case that its agent passes again."""

import json

import pytest
from cli_support import ANSWER, BANK, ORDER, ROC, call


@pytest.fixture
def export(run):
    """Exports a session, and gives the lines."""

    def export(*words):
        shown = run("sessions", "export", *words, "--as-cases")
        assert shown.exit_code == 0, shown.output
        return [json.loads(line) for line in shown.stdout.splitlines()]

    return export


def test_a_session_is_a_case_that_passes_again(run, shop, script, place, export):
    for question, replies in (("Where is order 1042?", (ORDER, ANSWER)), ("Thanks", ("Bye.",))):
        words = ("--session", "s-1", "--attribute", "who=me")
        shown = run("invoke", shop, question, script(*replies), *words)
        assert shown.exit_code == 0, shown.output
    ordered = {"name": "GET /orders/{orderId}", "arguments": {"orderId": "1042"}}
    (case,) = export("s-1", shop)
    assert case == {
        "id": "s-1",
        "session_attributes": {"who": "me"},
        "turns": [
            {
                "question": "Where is order 1042?",
                "expect": {"stop_reason": "end_turn", "calls": [ordered]},
            },
            {"question": "Thanks", "expect": {"stop_reason": "end_turn", "no_calls": True}},
        ],
    }
    file = place / "cases.jsonl"
    file.write_text(json.dumps(case) + "\n")
    assert run("eval", shop, file, script(ORDER, ANSWER, "Bye.")).exit_code == 0
    assert run("eval", shop, file, script(ANSWER, "Bye.")).exit_code == 1


def test_results_of_the_caller_are_in_the_case(run, script, place, export):
    folder = place / "buyer"
    folder.mkdir()
    (folder / "agent.yaml").write_text(ROC)
    (folder / "bank.py").write_text(BANK)
    replies = (call("shop__order_book", title="Emma"), call("bank__pay"), "<answer>Done.</answer>")
    given = ("--session", "s-1", "--result", 'order_book="ordered"', "--yes")
    shown = run("invoke", folder, "Order Emma", script(*replies), *given)
    assert shown.exit_code == 0, shown.output
    (case,) = export("s-1", folder)
    (turn,) = case["turns"]
    assert turn["results"] == {"order_book": "ordered"}
    assert {one["name"] for one in turn["expect"]["calls"]} == {"order_book", "pay"}
    file = place / "cases.jsonl"
    file.write_text(json.dumps(case) + "\n")
    shown = run("eval", folder, file, script(*replies))
    assert shown.exit_code == 0, shown.output
