"""What handlers print: nothing on its own, on stderr with --trace and --debug."""

import logging

import pytest
from cli_support import ANSWER, ORDER


@pytest.fixture
def talkative(shop):
    file = shop / "action_groups" / "orders" / "handler.py"
    text = file.read_text()
    head = "def lambda_handler(event, context):\n"
    assert head in text
    file.write_text(text.replace(head, f"{head}    print('looking\\x1b up', 1042)\n"))
    return shop


TOLD = "    handler: looking\\x1b up 1042"


@pytest.mark.parametrize("option", ["--trace", "--debug"])
def test_a_print_is_shown_on_demand(run, talkative, script, option):
    done = run("invoke", talkative, "Hi", script(ORDER, ANSWER), option)
    assert TOLD in done.stderr.splitlines()
    assert done.stdout == "Emma will arrive on Thursday.\n"
    chat = run("chat", talkative, script(ORDER, ANSWER), option, input="Hi\n")
    assert TOLD in chat.stderr.splitlines()


def test_it_is_not_shown_otherwise_nor_later(run, talkative, script):
    run("invoke", talkative, "Hi", script(ORDER, ANSWER), "--trace")
    done = run("invoke", talkative, "Hi", script(ORDER, ANSWER))
    assert "looking" not in done.stdout + done.stderr
    assert not logging.getLogger("orchestrator.handler").handlers
