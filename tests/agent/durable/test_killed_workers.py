"""Workers are killed while they run submitted turns: each has one answer, and one action.

`pytest tests/agent/durable/test_killed_workers.py --exhaustive -s` does so with 500 turns on
PostgreSQL, and prints figures.
"""

import os
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from killed_worker import Execution, Shop, make_agent, read_log

from orchestrator.agent.durable import DurableRuns
from orchestrator.agent.durable.database import open_engine

HERE = Path(__file__).parent
UNENDED = ["ENQUEUED", "PENDING", "DELAYED"]


class Workers:
    """Two worker processes; one that ends is started again."""

    def __init__(self, url, sessions, log, most_kills):
        self.kills = 0
        self.points = Counter()
        self._url = url
        self._arguments = [url, str(sessions), str(log)]
        self._most = most_kills
        self._started = 0
        self._running = []
        for _ in range(2):
            self._start()

    def _start(self):
        self._started += 1
        seed = self._started if self._started <= self._most else 0
        root = str(HERE.parents[2])
        paths = os.pathsep.join([root, str(HERE), os.environ.get("PYTHONPATH", "")])
        self._running.append(
            subprocess.Popen(
                [sys.executable, str(HERE / "killed_worker.py"), *self._arguments, str(seed)],
                env={**os.environ, "PYTHONPATH": paths},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )

    def look(self):
        """Starts another one for each that was killed."""
        for process in [it for it in self._running if it.poll() is not None]:
            self._running.remove(process)
            said = self._end(process)
            assert process.returncode == -9, said
            self.kills += 1
            self._end_lease(process.pid)
            self.points[said.splitlines()[-1]] += 1
            self._start()

    def _end_lease(self, pid):
        from sqlalchemy import text

        # A lease that ends soon by itself would end for a worker that stands still, too.
        engine = open_engine(self._url)
        with engine.begin() as connection:
            connection.execute(
                text("DELETE FROM orchestrator_workers WHERE id LIKE :id"),
                {"id": f"{socket.gethostname()}-{pid}-%"},
            )
        engine.dispose()

    def close(self):
        for process in self._running:
            self._end(process)

    def _end(self, process):
        said, _ = process.communicate(timeout=120)
        return said


def run(url, folder, count, most_kills):
    sessions, log = folder / "sessions.sqlite", folder / "log"
    log.touch()
    agent = make_agent(sessions, Shop(log, None))
    began = time.monotonic()
    with DurableRuns(url) as runs:
        turns = [agent.submit(f"Order {n}", f"s-{n}", runs=runs) for n in range(count)]
        workers = Workers(url, sessions, log, most_kills)
        try:
            while runs.client.list_workflows(status=UNENDED, limit=1, load_input=False):
                workers.look()
                time.sleep(0.2)
        finally:
            workers.close()
        seconds = time.monotonic() - began
        answers = [it.result(0).text for it in turns]
        rows = runs.client.list_workflows(load_input=False, load_output=False)
    assert answers == [f"Ordered {n}." for n in range(count)]
    assert [len(agent.turns(f"s-{n}")) for n in range(count)] == [1] * count
    assert Counter(row.status for row in rows) == {"SUCCESS": count}
    return read_log(log), workers, seconds


def check_actions(executions, count):
    """An idempotent action is done again, with its key, only if who had done it was killed."""
    keys = {(it.number, it.key) for it in executions}
    assert sorted(int(number) for number, _ in keys) == list(range(count))
    assert len({key for _, key in keys}) == count
    assert [it for it in executions if it.living != "none"] == []
    done_once = Counter((it.key, it.process) for it in executions)
    assert set(done_once.values()) == {1}


def test_killed_workers_lose_no_turn_and_answer_none_twice(url, tmp_path):
    executions, workers, _ = run(url, Path(url.removeprefix("sqlite:///")).parent, 20, 2)
    assert workers.kills >= 1
    check_actions(executions, 20)


@pytest.mark.parametrize(
    "wrong",
    [
        Execution("0", "k-0", "b", "a"),
        Execution("0", "k-0", "a", "none"),
        Execution("0", "k-1", "b", "none"),
        Execution("1", "k-0", "b", "none"),
    ],
    ids=["of the living", "in one process", "under another key", "under a key of another"],
)
def test_a_repeat_that_is_not_right_is_noticed(wrong):
    executions = [Execution("0", "k-0", "a", "none"), Execution("0", "k-0", "c", "none")]
    check_actions(executions, 1)
    with pytest.raises(AssertionError):
        check_actions([*executions, wrong], 1)


@pytest.mark.exhaustive
def test_500_turns_under_kills_on_postgresql(tmp_path, request):
    pytest.importorskip("postgres_server")
    url = request.getfixturevalue("postgres_url")
    executions, workers, seconds = run(url, tmp_path, 500, 20)
    again = len(executions) - 500
    print(f"500 turns in {seconds:.0f} s, {workers.kills} kills, {again} actions again")
    print(dict(workers.points))
    assert workers.kills >= 10
    check_actions(executions, 500)
