"""`orchestrator chat`, line by line and by hand."""

import json

from cli_support import ANSWER, CLAUDE, ORDER, call
from typist import Typist, talk


def test_every_line_of_stdin_is_a_question(run, shop, script):
    done = run("chat", shop, script(ORDER, ANSWER, "<answer>Bye."), input="Where?\n\nBye\n")
    assert done.exit_code == 0
    assert done.stdout == "Emma will arrive on Thursday.\nBye.\n"


def test_json_is_one_reply_a_line(run, shop, script):
    done = run("chat", shop, script(ANSWER, "<answer>Bye."), "--json", input="Where?\nBye\n")
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["session_id"] == second["session_id"]
    assert second["text"] == "Bye."


def test_a_failed_line_does_not_end_the_conversation(run, shop, script):
    with (shop / "agent.yaml").open("a") as file:
        file.write("limits: {inputChars: 10}\n")
    asked = "Where is my order?\nWhere?\n"
    done = run("chat", shop, script(ANSWER), "--json", input=asked)
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["error"]["type"] == "ValidationError"
    assert second["text"] == "Emma will arrive on Thursday."
    assert done.exit_code == 1


def test_a_conversation_by_hand(shop, script, capsys):
    typist = Typist("Where is 1042?", "And now?", "/quit", "never")
    model = script(ORDER, ANSWER, "<thinking>Hm.</thinking><answer>Still there.")
    out = talk(shop, model, typist, capsys).out
    assert f"shop  {CLAUDE}" in out
    assert "Emma will arrive on Thursday.\n" in out and "Still there.\n" in out
    assert next(typist.questions) == "never"


def test_reset_forgets_the_conversation(shop, script, capsys):
    typist = Typist("My name is Ana", "/reset", "Who am I?", "/prompt")
    out = talk(shop, script("<answer>Hello.", "<answer>Who?"), typist, capsys).out
    assert "Who am I?" in out and "My name is Ana" not in out


def test_handed_over_calls_are_asked_for(buyer, script, capsys):
    calls = [*call("shop__order_book", title="Emma"), *call("shop__order_book", title="Dune")]
    calls[1]["toolUse"]["toolUseId"] = "t-2"
    typist = Typist("Buy both", answers=["Emma came", "Dune is sold out"])
    told = talk(buyer, script(calls, "<answer>One of two."), typist, capsys, trace=True)
    assert "One of two." in told.out
    assert "The agent asks you for shop::order_book(title=Dune)" in told.err
    assert "calls shop::order_book(title=Emma)" in told.err
    assert told.err.index("→ Emma came") < told.err.index("→ Dune is sold out")


def test_handed_over_calls_of_lines_are_told(buyer, script, run):
    done = run("chat", buyer, script(call("shop__order_book", title="Emma")), input="Buy it\n")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "waits for you: shop::order_book(title=Emma) (its result)" in done.stderr


def test_a_call_is_carried_out_when_the_user_agrees(buyer, script, capsys):
    typist = Typist("Pay", answers=["y"])
    told = talk(buyer, script(call("bank__pay"), "<answer>Done."), typist, capsys, trace=True)
    assert "may call bank::pay()" in told.err and "→ paid" in told.err


def test_and_not_when_the_user_does_not(buyer, script, capsys):
    typist = Typist("Pay", answers=[""])
    told = talk(buyer, script(call("bank__pay"), "<answer>No."), typist, capsys, trace=True)
    assert "may not call bank::pay()" in told.err and "→ paid" not in told.err


def test_giving_no_result_stops_the_turn_and_not_the_chat(buyer, script, capsys):
    typist = Typist("Buy", "Hello", answers=[KeyboardInterrupt()])
    model = script(call("shop__order_book", title="Emma"), "<answer>Hello!")
    told = talk(buyer, model, typist, capsys)
    assert "stopped" in told.err and "Hello!" in told.out


def test_an_interrupted_turn_is_cancelled_and_not_the_chat(shop, script, capsys, monkeypatch):
    def interrupt(self, request):
        yield "<answer>Well"
        raise KeyboardInterrupt

    monkeypatch.setattr("orchestrator.models.scripted_model.ScriptedModel.stream", interrupt)
    typist = Typist("Where is it?", "And now?")
    told = talk(shop, script(), typist, capsys)
    assert told.err.count("stopped") == 2
    assert told.out.count("Well\n") == 2


def test_an_interruption_names_the_action_that_ran(shop, script, capsys, monkeypatch):
    def interrupt(self, call, context):
        raise KeyboardInterrupt

    monkeypatch.setattr("orchestrator.actions.LambdaHandler.call", interrupt)
    told = talk(shop, script(ORDER, ANSWER), Typist("Where is it?"), capsys)
    assert told.err.splitlines()[-1] == (
        "stopped while orders::GET /orders/{orderId} (orderId=1042) ran; "
        "whether it took effect is unknown"
    )


def test_so_does_that_of_an_invocation(run, shop, script, monkeypatch):
    def interrupt(self, call, context):
        raise KeyboardInterrupt

    monkeypatch.setattr("orchestrator.actions.LambdaHandler.call", interrupt)
    done = run("invoke", shop, "Where is it?", script(ORDER, ANSWER))
    assert done.exit_code == 130
    assert "stopped while orders::GET /orders/{orderId} (orderId=1042) ran" in done.stderr


def test_a_confirmation_is_asked_for_until_it_is_yes_or_no(buyer, script, capsys):
    typist = Typist("Pay", answers=["maybe", "YES "])
    told = talk(buyer, script(call("bank__pay"), "<answer>Done."), typist, capsys, trace=True)
    assert "→ paid" in told.err
    first, second = typist.asked
    assert first == "May it? [y/N] " and second.startswith("Please answer yes or no.")
