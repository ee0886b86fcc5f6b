"""`orchestrator invoke`."""

import json

import pytest
from cli_support import ANSWER, ORDER, call


def test_the_answer_is_all_there_is_on_stdout(run, shop, script):
    done = run("invoke", shop, "Where is 1042?", script(ORDER, ANSWER))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "Emma will arrive on Thursday.\n", "")


def test_the_trace_is_told_on_stderr(run, shop, script):
    done = run("invoke", shop, "Where is 1042?", script(ORDER, ANSWER), "--trace")
    assert done.stdout == "Emma will arrive on Thursday.\n"
    told = [line.split("  ")[0].strip() for line in done.stderr.splitlines() if line[1].isdigit()]
    call = "2. calls orders::GET /orders/{orderId} (orderId=1042)"
    assert told == ["1. thinks", call, "3. thinks"]
    assert '→ {"books": ["Emma"]' in done.stderr


def test_json_is_the_whole_reply(run, shop, script):
    done = run("invoke", shop, "Where is 1042?", script(ORDER, ANSWER), "--json")
    reply = json.loads(done.stdout)
    wanted = {"text", "trace", "usage", "stop_reason", "citations", "return_control"}
    assert wanted <= reply.keys()
    assert reply["text"] == "Emma will arrive on Thursday."
    assert reply["usage"]["calls"] == 2
    assert len(reply["trace"]) == 9


def test_the_question_can_come_from_stdin(run, shop, script):
    done = run("invoke", shop, "-", script(ANSWER), "--json", input="Where is 1042?")
    (prompt, *_) = json.loads(done.stdout)["trace"]
    assert "Where is 1042?" in json.dumps(prompt)


def test_a_named_session_goes_on(run, shop, script):
    run("invoke", shop, "Where is 1042?", script(ANSWER), "--session", "s-1")
    done = run("invoke", shop, "And now?", script("<answer>Still."), "--session=s-1", "--json")
    assert (
        "Where is 1042?"
        in json.loads(done.stdout)["trace"][0]["trace"]["orchestrationTrace"][
            "modelInvocationInput"
        ]["text"]
    )
    assert (shop / ".orchestrator" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("options", [[], ["--session=s-1", "--state=:memory:"]])
def test_other_sessions_are_not_kept(run, shop, script, options):
    assert run("invoke", shop, "Hi", script(ANSWER), *options).exit_code == 0
    assert not (shop / ".orchestrator").exists()


def test_the_state_can_be_kept_elsewhere(run, shop, script, place):
    run("invoke", shop, "Hi", script(ANSWER), "--session=s-1", "--state=kept.sqlite")
    assert (place / "kept.sqlite").exists()
    assert not (shop / ".orchestrator").exists()


def test_attributes_reach_the_handler_and_only_prompt_ones_the_model(run, shop, script):
    options = ["--attribute", "secret=s3", "--prompt-attribute", "name=Ana=Maria", "--json"]
    done = run("invoke", shop, "Hi", script(ANSWER), *options)
    assert "Ana=Maria" in done.stdout
    assert "s3" not in done.stdout


def test_control_is_handed_over_and_taken_back(run, buyer, script):
    first = script(call("shop__order_book", title="Emma"))
    handed = run("invoke", buyer, "Buy Emma", first, "--session=s-1")
    assert (handed.exit_code, handed.stdout) == (0, "")
    assert "waits for you: shop::order_book(title=Emma) (its result)" in handed.stderr
    second = script("<answer>It is ordered.")
    results = '{"order_book": "ordered"}'
    done = run("invoke", buyer, second, "--session=s-1", "--results=-", input=results)
    assert done.stdout == "It is ordered.\n"


def test_results_in_bedrocks_own_shape_are_taken_too(run, buyer, script, place):
    handed = run("invoke", buyer, "Buy", script(call("bank__pay")), "--session=s-1", "--json")
    control = json.loads(handed.stdout)["return_control"]
    result = {"actionGroup": "bank", "function": "pay", "confirmationState": "CONFIRM"}
    members = {
        "invocationId": control["invocationId"],
        "returnControlInvocationResults": [{"functionResult": result}],
    }
    (place / "results.json").write_text(json.dumps(members))
    options = ["--session=s-1", "--results=results.json", "--json"]
    done = run("invoke", buyer, script("<answer>Paid."), *options)
    assert json.loads(done.stdout)["text"] == "Paid."
    assert '"text": "paid"' in done.stdout


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--results=-"], "needs --session"),
        (["--results=-", "--session=s-1"], "no call waits for results"),
        ([], "there is no question"),
        (["Hi", "--attribute=x"], "'x' is not NAME=VALUE"),
        (["Hi", "--session=../x"], "session_id '../x' is not valid"),
        (["Hi", "--session=s-1", "--state=nowhere/x.sqlite"], "there is no folder 'nowhere'"),
    ],
)
def test_a_wrong_use_is_told_in_one_line(run, buyer, script, options, problem):
    done = run("invoke", buyer, script(ANSWER), *options, input="{}")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert problem in done.stderr and "Traceback" not in done.stderr


def test_results_that_are_given_twice(run, buyer, script):
    asked = call("shop__order_book", title="Emma")
    model = script(asked)
    assert run("invoke", buyer, "Buy Emma", model, "--session=s-1").exit_code == 0
    given = ["invoke", buyer, "--session=s-1", "--results=-"]
    first = run(*given, script("<answer>It is ordered."), input='{"order_book": "ordered"}')
    assert first.stdout == "It is ordered.\n"
    again = run(*given, script(), input='{"order_book": "ordered"}')
    assert (again.exit_code, again.stdout) == (0, "It is ordered.\n")
    other = run(*given, script(), "--json", input='{"order_book": "sold out"}')
    assert other.exit_code == 1
    assert json.loads(other.stdout)["error"]["type"] == "SessionConflict"
    nothing = run("invoke", buyer, "--session=s-2", "--results=-", script(), input="{}")
    assert "no call waits for results in session 's-2'" in nothing.stderr
