"""Attack 16: a handler that prints without end keeps neither its caller nor its process."""

from __future__ import annotations

import json
import logging
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.actions import lambda_worker
from orchestrator.actions.lambda_environment import LambdaContext
from orchestrator.actions.lambda_process import LambdaProcess
from orchestrator.errors import ActionOutcomeUnknown

FLOOD = """\
import os
def lambda_handler(event, context):
    lines = (b"x" * 70 + b"\\n") * 1000
    while True:
        os.write(1, lines)
"""


class SlowHandler(logging.Handler):
    """Takes as long for a line as a terminal would."""

    def emit(self, record: logging.LogRecord) -> None:
        for _ in range(5):
            self.format(record)


def test_time_is_up_for_a_handler_that_prints_without_end(tmp_path: Path) -> None:
    (tmp_path / "flood.py").write_text(FLOOD)
    handler = LambdaProcess(tmp_path / "flood.py")
    log = logging.getLogger("orchestrator.handler")
    slow = SlowHandler()
    log.addHandler(slow)
    level, log.level = log.level, logging.INFO
    try:
        with pytest.raises(ActionOutcomeUnknown, match="did not answer before its time was up"):
            handler.invoke({}, LambdaContext("flood", "1", 0.5))
    finally:
        log.level = level
        log.removeHandler(slow)
        handler.close()


def test_a_process_whose_answer_nobody_takes_ends(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("def lambda_handler(event, context):\n    return 1\n")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.shutdown(socket.SHUT_RD)
        worker = subprocess.Popen(
            [sys.executable, lambda_worker.__file__, str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            cwd=tmp_path,
            start_new_session=True,
        )
        job = {"module": "one", "function": "lambda_handler", "most_bytes": 1000}
        request = {"event": {}, "context": {}, "seconds": 5, "debug": False}
        ours.sendall(b"".join(json.dumps(it).encode() + b"\n" for it in (job, request)))
        try:
            assert worker.wait(60) == -signal.SIGKILL
        finally:
            worker.kill()
            worker.wait()
