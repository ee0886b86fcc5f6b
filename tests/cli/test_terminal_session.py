"""A chat in a real (pseudo) terminal: prompt, streaming, Ctrl-C, leaving."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys

import pytest
from cli_support import ANSWER, call

pty = pytest.importorskip("pty")

PATIENCE = 60  # seconds until a silent program counts as hanging

SLOW = """
import time
def lambda_handler(event, context):
    print("working", flush=True)
    time.sleep(1000)
"""


class Pane:
    """A program in a terminal."""

    def __init__(self, *words):
        self.main, side = pty.openpty()
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "60", "LINES": "30"}
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator", *words],
            stdin=side,
            stdout=side,
            stderr=side,
            env=environment,
            start_new_session=True,
        )
        os.close(side)
        self.raw = b""
        self.seen = 0

    def until(self, text):
        """Reads until `text` is shown after what was waited for before; what came up to it."""
        while (found := plain(self.raw).find(text, self.seen)) < 0:
            self._read()
        shown = plain(self.raw)[self.seen : found + len(text)]
        self.seen = found + len(text)
        return shown

    def type(self, text):
        os.write(self.main, text.encode())

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def end(self):
        with contextlib.suppress(OSError):  # how Linux tells that the other side is closed
            while self.process.poll() is None or select.select([self.main], [], [], 0)[0]:
                self._read()
        os.close(self.main)
        return self.process.wait(timeout=PATIENCE)

    def _read(self):
        ready, _, _ = select.select([self.main], [], [], PATIENCE)
        assert ready, f"nothing more came: {self.raw!r}"
        chunk = os.read(self.main, 4096)
        assert chunk, f"the program ended: {self.raw!r}"
        self.raw += chunk


def plain(raw):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", raw.decode(errors="replace"))


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
