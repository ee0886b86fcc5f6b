"""A worker is killed in an action: its turn waits for a decision, as it would for an approval."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from undecided_worker import make_agent

from orchestrator.errors import ActionOutcomeUnknown

HERE = Path(__file__).parent
LONG = 60  # seconds that no test waits for, unless it fails


def kill_in_action(url, sessions, log):
    paths = [str(HERE.parents[2]), str(HERE), os.environ.get("PYTHONPATH", "")]
    with subprocess.Popen(
        [sys.executable, str(HERE / "undecided_worker.py"), url, sessions, str(log)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE,  # it works until that is closed
    ) as worker:
        assert worker.wait(LONG) == -9


def test_a_turn_waits_for_its_decision(runs, url, sessions, work, tmp_path):
    log = tmp_path / "log"
    log.touch()
    agent = make_agent(sessions, log)
    submission = agent.submit("Pay Ann", "s-1", runs=runs)
    kill_in_action(url, sessions, log)
    with work(agent, lease=1.0):
        with pytest.raises(ActionOutcomeUnknown, match="nobody knows") as unknown:
            submission.result(LONG)
        undecided = unknown.value.undecided
        (call,) = undecided.calls
        assert (undecided.turn_id, undecided.session_id) == (submission.id, "s-1")
        assert agent.find_undecided() == [undecided] and unknown.value.reply.trace
        # Another turn of the session is told so, and is not mistaken for the one that waits.
        other = agent.submit("Hello?", "s-1", runs=runs)
        with pytest.raises(ActionOutcomeUnknown, match=call.key) as told:
            other.result(LONG)
        assert (told.value.undecided, other.status()) == (None, "failed")
        results = undecided.answer(repeat=[call.key])
        for _ in range(2):  # the decision may be sent twice
            done = agent.submit("", "s-1", runs=runs, results=results)
            reply = done.result(LONG)
            assert (reply.text, reply.turn_id) == ("Paid.", submission.id)
    assert log.read_text().split() == [call.key]
    assert agent.find_undecided() == []
