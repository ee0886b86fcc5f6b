"""A chat in a real (pseudo) terminal: prompt, streaming, Ctrl-C, leaving."""

import sys

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
    pane.until("calling pay")
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


def test_a_question_is_edited_on_a_line(shop, script, monkeypatch):
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    pane = Pane("chat", "shop", script("<answer>Nowhere.", ANSWER))
    pane.until("› ")
    pane.type("Where is 104\r")
    pane.until("Nowhere.")
    pane.until("› ")
    pane.type("/edit\r")
    pane.until("Where is 104")
    pane.type("2\r")
    pane.until("› Where is 1042\r\n")
    pane.until("Emma will arrive")
    pane.until("› ")
    pane.type("/quit\r")
    assert pane.end() == 0


def test_or_in_an_editor(shop, script, monkeypatch, place):
    editor = place / "editor.py"
    editor.write_text(
        "import sys; f = open(sys.argv[1], 'r+'); t = f.read(); f.seek(0);"
        "f.write(t.replace('1041', '1042'))"
    )
    monkeypatch.setenv("VISUAL", f"{sys.executable} {editor}")
    pane = Pane("chat", "shop", script("<answer>Nowhere.", ANSWER))
    pane.until("› ")
    pane.type("Where is 1041?\r")
    pane.until("Nowhere.")
    pane.until("› ")
    pane.type("/edit\r")
    pane.until("› Where is 1042?\r\n")
    pane.until("Emma will arrive")
    pane.until("› ")
    pane.type("/quit\r")
    assert pane.end() == 0


@pytest.mark.exhaustive
def test_an_editor_that_is_not_there_is_an_error_and_not_the_end(shop, script, monkeypatch):
    monkeypatch.setenv("VISUAL", "no-such-editor")
    pane = Pane("chat", "shop", script("<answer>Nowhere."))
    pane.until("› ")
    pane.type("Where?\r")
    pane.until("Nowhere.")
    pane.until("› ")
    pane.type("/edit\r")
    pane.until("'no-such-editor' cannot be started")
    pane.until("› ")
    pane.type("\x04")
    assert pane.end() == 0


@pytest.mark.exhaustive
def test_one_line_says_what_happens_now(buyer, script):
    (buyer / "bank.py").write_text(SLOW)
    text = (buyer / "agent.yaml").read_text().replace(", requireConfirmation: ENABLED", "")
    text = text.replace(
        "{name: pay, description: Pay for it.",
        "{name: pay, description: Pay for it., parameters: {euros: {type: string}}",
    )
    (buyer / "agent.yaml").write_text(text)
    pane = Pane("chat", "buyer", script(call("bank__pay", euros="12"), "<answer>I am here."))
    pane.until("› ")
    pane.type("Pay\r")
    pane.until("calling pay with euros=12…")
    pane.interrupt()
    pane.until("stopped while bank::pay(euros=12) ran")
    pane.until("› ")
    pane.type("/quit\r")
    assert pane.end() == 0


@pytest.mark.exhaustive
def test_missing_embeddings_need_consent_too(shop, script):
    with (shop / "agent.yaml").open("a") as file:
        file.write(
            "knowledgeBases:\n  - {knowledgeBaseId: rules, description: R., folder: tests}\n"
        )
    pane = Pane("chat", "shop", script(ANSWER))
    shown = pane.until("[y/N]")
    assert "The model all-minilm-l6-v2 is not on this machine yet" in " ".join(shown.split())
    pane.type("n\r")
    assert pane.end() == 1
    assert "models pull all-minilm-l6-v2" in " ".join(plain(pane.raw).split())


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
