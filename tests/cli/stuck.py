"""A process that stops in an action."""

import os
import subprocess
import sys

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
def stuck(buyer, script, place):
    """A process whose turn is in the middle of an action."""
    os.mkfifo(place / "begun")
    (buyer / "bank.py").write_text(STUCK)
    text = (buyer / "agent.yaml").read_text().replace("requireConfirmation: ENABLED", PARAMETERS)
    (buyer / "agent.yaml").write_text(text)
    command = ["invoke", "buyer", "Pay", "--session=s-1", script(call("bank__pay", who="Ann"))]
    process = subprocess.Popen([sys.executable, "-m", "orchestrator", *command])
    try:
        assert (place / "begun").read_text() == "begun"
        yield process
    finally:
        process.kill()
        process.wait()


PARAMETERS = "parameters: {who: {type: string, description: Whom., required: true}}"
