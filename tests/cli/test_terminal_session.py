"""A chat in a real (pseudo) terminal: prompt, streaming, Ctrl-C, leaving."""

import pytest
from cli_support import ANSWER, call

pytest.importorskip("pty")

from panes import Pane, Screen, plain

SLOW = """
import time
def lambda_handler(event, context):
    print("working", flush=True)
    time.sleep(1000)
"""


def test_a_conversation(shop, script):
    pane = Pane("chat", "shop", script("<answer>" + "word " * 30 + "end.", ANSWER))
    pane.until("› ")
    pane.type("Where is 1042?\r")
    shown = pane.until("end.")
    answer = shown[shown.index("word") :].replace("\r", "")
    assert all(len(line) <= 60 and not line.startswith(" ") for line in answer.split("\n"))
    pane.until("› ")
    pane.type("\x04")
    assert pane.end() == 0
    assert "1042" in (shop / ".orchestrator" / "history").read_text()


def test_ctrl_c_stops_the_turn_and_not_the_chat(buyer, script):
    (buyer / "bank.py").write_text(SLOW)
    text = (buyer / "agent.yaml").read_text().replace(", requireConfirmation: ENABLED", "")
    (buyer / "agent.yaml").write_text(text)
    pane = Pane("chat", "buyer", script(call("bank__pay"), "<answer>I am here."))
    pane.until("› ")
    pane.type("Pay\r")
    pane.until("bank::pay()")
    pane.interrupt()
    pane.until("stopped")
    pane.until("› ")
    pane.type("Hello\r")
    pane.until("I am here.")
    pane.until("› ")
    pane.type("/quit\r")
    assert pane.end() == 0


def test_the_download_of_a_model_needs_consent(shop):
    pane = Pane("chat", "shop")
    shown = pane.until("[y/N]")
    assert "MB, licence Apache-2.0" in shown
    pane.type("n\r")
    assert pane.end() == 1
    assert "models pull" in plain(pane.raw)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("\x1b[2mthinking…\x1b[0m\r\x1b[2Kanswer\r\n", "answer\n"),
        ("a\r\nb\r\n\x1b[1A\r\x1b[Jc", "a\nc\n"),
        ("12345678901", "1234567890\n1\n"),
        ("abc\b\bX\x1b[C!\x1b[?2004h", "aXc!\n"),
    ],
)
def test_what_a_screen_shows(written, shown):
    assert Screen.of(written, 10) == shown


def test_a_screen_refuses_what_it_does_not_know():
    with pytest.raises(ValueError, match="not known"):
        Screen.of("\x1b[3;4H", 10)
