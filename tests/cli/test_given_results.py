"""`--yes` and `--result`: calls that are handed over are answered without asking."""

import json

import pytest
from cli_support import call
from typist import Typist, talk

BUY = call("shop__order_book", title="Emma")
PAY = call("bank__pay")

TEAM = """
agentName: boss
instruction: You lead the agents of a shop, and answer customers.
foundationModel: local
agentCollaboration: SUPERVISOR
agentCollaborators:
  - collaboratorName: buyer
    collaborationInstruction: Orders books.
    agentDescriptor: {folder: buyer}
"""


def test_calls_get_their_results_and_confirmations(run, buyer, script):
    model = script(BUY, PAY, "<answer>Bought and paid.")
    words = (
        "invoke",
        buyer,
        "Buy Emma",
        model,
        "--yes",
        "--result",
        'order_book={"state": "sent"}',
    )
    done = run(*words)
    assert (done.exit_code, done.stdout) == (0, "Bought and paid.\n")
    assert done.stderr.splitlines() == [
        'given: shop::order_book(title=Emma) → {"state": "sent"}',
        "confirmed: bank::pay()",
    ]


def test_json_has_the_whole_turn(run, buyer, script):
    model = script(BUY, PAY, "<answer>Bought and paid.")
    done = run("invoke", buyer, "Buy", model, "--yes", "--result", 'order_book="sent"', "--json")
    reply = json.loads(done.stdout)
    assert (reply["text"], reply["return_control"]) == ("Bought and paid.", None)
    assert reply["usage"]["calls"] == 3
    steps = json.loads(run("trace", "--json", input=done.stdout).stdout)
    called = [(step["verb"], step["text"]) for step in steps if step["subject"]]
    assert called == [
        ("calls", "sent"),
        ("may call", ""),
        ("calls", "paid"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "order_book",
        "shop::order_book",
        "shop::order_book()",
        "/orders/{orderId}",
        "GET /orders/{orderId}",
    ],
)
def test_a_call_has_several_names(run, buyer, shop, script, name):
    if "/" in name:
        text = (shop / "agent.yaml").read_text()
        executor = "lambda: action_groups/orders/handler.py"
        (shop / "agent.yaml").write_text(text.replace(executor, "customControl: RETURN_CONTROL"))
        use = call("GET__orders__getOrder", orderId="1042")
        done = run("invoke", shop, "Where?", script(use, "<answer>There."), "--result", f"{name}=1")
    else:
        done = run("invoke", buyer, "Buy", script(BUY, "<answer>There."), "--result", f"{name}=1")
    assert (done.exit_code, done.stdout) == (0, "There.\n")


def test_lines_of_a_chat_get_them_too(run, buyer, script):
    done = run("chat", buyer, script(PAY, "<answer>Paid."), "--yes", input="Pay\n")
    assert (done.stdout, done.stderr) == ("Paid.\n", "confirmed: bank::pay()\n")


def test_a_result_wins_over_yes(run, buyer, script):
    words = ("--yes", "--result", "pay=false", "--json")
    done = run("chat", buyer, script(PAY, "<answer>Not paid."), *words, input="Pay\n")
    assert done.stderr == "denied: bank::pay()\n"
    assert json.loads(done.stdout)["text"] == "Not paid."


def test_a_user_is_asked_only_for_what_is_not_given(buyer, script, capsys):
    typist = Typist("Buy", answers=["sent"])
    told = talk(buyer, script(BUY, PAY, "<answer>Done."), typist, capsys, yes=True)
    assert typist.asked == ["Its result: "]
    assert "confirmed: bank::pay()" in told.err and "Done." in told.out


def test_a_call_without_a_result_is_handed_over_and_says_how_to_answer(run, buyer, script):
    done = run("chat", buyer, script(BUY), "--yes", input="Buy\n")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "waits for you: shop::order_book(title=Emma) (its result)",
        "Answer with --result order_book=JSON; the next question gives the turn up.",
    ]


def test_so_does_one_that_is_only_to_be_confirmed(run, buyer, script):
    done = run("invoke", buyer, "Pay", script(PAY))
    assert "Ask once more with --yes; --session ID keeps a turn" in done.stderr


def test_names_of_collaborators_are_known(run, buyer, place, script):
    (place / "agent.yaml").write_text(TEAM)
    done = run("chat", ".", script(), "--result", "order_book=1", input="")
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("order_book", "--result 'order_book' is not NAME=JSON"),
        ("=1", "--result '=1' is not NAME=JSON"),
        ("order_book=done", "'done' is not JSON; a text is written in double quotes, as in"),
        ("order_bok=1", "no function or API path of this name; did you mean 'order_book'?"),
        ("x=1", "It has order_book, pay"),
    ],
)
def test_what_is_wrong_is_said_before_any_model_is_asked(run, buyer, given, said):
    for words in (("chat", buyer), ("invoke", buyer, "Buy")):
        done = run(*words, "--model=local", "--result", given, input="")
        assert done.exit_code == 2 and said in " ".join(done.stderr.split())


def test_a_result_is_given_once(run, buyer):
    words = ("--result", "pay=true", "--result", "pay=false")
    done = run("invoke", buyer, "Buy", "--model=local", *words)
    assert done.exit_code == 2 and "--result 'pay' is given twice" in done.stderr


def test_a_confirmation_is_true_or_false(run, buyer, script):
    done = run("invoke", buyer, "Pay", script(PAY), "--result", 'pay="sure"')
    assert done.exit_code == 2 and "only asks for confirmation" in done.stderr
