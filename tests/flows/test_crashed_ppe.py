"""A process is killed in a PPE script, wherever it writes: the next one goes on where it was."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from flow_support import scripted
from forking import forked
from left_out import sampled
from scripted_ppe_crashes import REPLIES, run

from orchestrator.errors import ActionOutcomeUnknown

WRITES = 28  # of a whole run; the test below would say if they were more
ASKED = "SELECT count(*) FROM journal WHERE json_extract(record, '$.kind') = 'model'"


def test_a_run_writes_so_often(tmp_path: Path) -> None:
    _, store = run(tmp_path, scripted(*REPLIES), WRITES + 1000)
    assert WRITES <= WRITES + 1000 - store.left <= WRITES + 4


@pytest.mark.parametrize("writes", sampled(range(1, WRITES, 2)))
def test_the_script_goes_on_and_nothing_is_told_twice(writes: int, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    result, _ = run(whole, scripted(*REPLIES))
    done = forked(Path(__file__).with_name("scripted_ppe_crashes.py"), killed, writes)
    assert done.returncode == -signal.SIGKILL, done.stderr

    with closing(sqlite3.connect(killed / "runs.sqlite")) as journal:
        (asked,) = journal.execute(ASKED).fetchone()
    again = scripted(*REPLIES[asked:])
    try:
        later, _ = run(killed, again)
    except ActionOutcomeUnknown as error:  # it died before a function, whose call waits for a word
        (call,) = error.undecided.calls
        later, _ = run(killed, again, results=error.undecided.answer(repeat=[call.key]))
    assert later.output == result.output == "last"
    assert len(again.requests) == len(REPLIES) - asked
    assert (killed / "told.txt").read_text() == (whole / "told.txt").read_text()
