"""A process that stops in an action."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_support import call

STUCK = """
import threading
def lambda_handler(event, context):
    with open("begun", "w") as fifo:
        fifo.write("begun")
    threading.Event().wait()
"""


@pytest.fixture
def stuck(buyer, script):
    """A process whose turn is in the middle of an action."""
    with start_stuck(script(call("bank__pay", who="Ann"))) as process:
        yield process


@contextmanager
def start_stuck(model):
    """The process, with the agent `buyer` of the working directory, and a `--model` that pays."""
    os.mkfifo("begun")
    Path("buyer/bank.py").write_text(STUCK)
    file = Path("buyer/agent.yaml")
    file.write_text(file.read_text().replace("requireConfirmation: ENABLED", PARAMETERS))
    command = ["invoke", "buyer", "Pay", "--session=s-1", model]
    process = subprocess.Popen([sys.executable, "-m", "orchestrator", *command])
    try:
        assert Path("begun").read_text() == "begun"
        yield process
    finally:
        process.kill()
        process.wait()


PARAMETERS = "parameters: {who: {type: string, description: Whom., required: true}}"
