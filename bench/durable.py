"""Durable runs beside the same turns without them, and two workers beside one."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from bench import subject
from bench.databases import open_database
from bench.harness import REPOSITORY, Row
from bench.script import QUESTION
from orchestrator import Agent
from orchestrator.sessions import Sessions
from orchestrator.sessions.open_store import open_store

if TYPE_CHECKING:
    from orchestrator.agent.durable import DurableRuns

_AT_ONCE = 16  # turns, in a worker as in the process that invokes the agent
_MODEL_SECONDS = 1.0
# Of each worker whose model takes its time: a worker ends as many at once as it runs, so that a few
# rounds of them would not show what one takes.
_SLOW_TURNS = 8 * _AT_ONCE
_LONGEST = 600.0  # seconds that workers may take for a row
_APPENDS = 4  # of a turn with one action: its begin, the calls, their outcomes, its end
_UNENDED = ["ENQUEUED", "PENDING", "DELAYED"]
_LOOK = 0.1  # seconds


def durable(turns: int = 100, alone: int = 10) -> list[Row]:
    """Submitted turns of one worker and of two, beside `invoke` on the same PostgreSQL; wall clock.

    The scripted model answers at once, which leaves the work of the machine's cores, and then after
    a second. A worker asks its queue for turns every 0.2 seconds, so that it begins at most five
    times as many a second as it runs at the same time.
    """
    with open_database("postgres") as url:
        if url is None:
            return []
        with closing(open_store(url)) as store:  # type: ignore[type-var]
            agent = subject.engine(subject.Script(), sessions=Sessions(store))
            return [*_measure(url, agent, turns, alone)]


def _measure(url: str, agent: Agent, turns: int, alone: int) -> Iterator[Row]:
    invoked = _time_invoked(agent, turns)
    one = _rate_workers(url, agent, "one", 1, turns, 0.0)
    note = f"{one / invoked:.2f} of {invoked:,.0f} by `invoke` in {_AT_ONCE} threads"
    yield "durable: turns of one worker", one, "turns/s", None, note
    two = _rate_workers(url, agent, "two", 2, turns, 0.0)
    yield "durable: turns of two workers", two / one, "x one", None, f"{two:,.1f} turns/s"
    slow = [
        _rate_workers(url, agent, f"slow-{count}", count, _SLOW_TURNS, _MODEL_SECONDS)
        for count in (1, 2)
    ]
    note = f"{slow[0]:,.1f} and {slow[1]:,.1f} turns/s"
    yield "durable: two workers, a model of a second", slow[1] / slow[0], "x one", None, note
    in_worker, in_caller = _time_alone(url, agent, alone)
    note = f"a turn alone: {in_worker:.1f} ms in its worker, {in_caller:.1f} ms by `invoke`"
    yield "durable: an append", in_worker * 1000 / _APPENDS, "µs", None, note


def _time_invoked(agent: Agent, turns: int) -> float:
    def ask(number: int) -> None:
        agent.invoke(QUESTION, f"invoked-{number}")

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(ask, range(-_AT_ONCE, 0)))  # what is made once
        began = time.perf_counter()
        list(threads.map(ask, range(turns)))
        return turns / (time.perf_counter() - began)


@contextmanager
def _run_workers(url: str, queue: str, count: int, seconds: float) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.durable_worker", url, queue]
    workers = [
        subprocess.Popen(
            [*command, str(_AT_ONCE), str(seconds)], cwd=REPOSITORY, stdin=subprocess.PIPE
        )
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for worker in workers:
            worker.communicate(timeout=120)


def _rate_workers(
    url: str, agent: Agent, queue: str, workers: int, turns: int, seconds: float
) -> float:
    """Turns a second, while all workers run some."""
    from orchestrator.agent.durable import DurableRuns

    with DurableRuns(url) as runs:
        for number in range(turns * workers):
            agent.submit(QUESTION, f"{queue}-{number}", runs=runs, queue=queue)
        with _run_workers(url, queue, workers, seconds):
            _wait_for_end(runs, queue)
        rows = runs.client.list_workflows(queue_name=queue, load_input=False, load_output=False)
    return find_steady_rate([(str(row.executor_id), int(row.completed_at or 0)) for row in rows])


def _wait_for_end(runs: DurableRuns, queue: str) -> None:
    until = time.monotonic() + _LONGEST
    while runs.client.list_workflows(queue_name=queue, status=_UNENDED, limit=1):
        if time.monotonic() > until:
            raise TimeoutError(f"the turns of {queue!r} have not ended after {_LONGEST:.0f} s")
        time.sleep(_LOOK)


def find_steady_rate(ends: Sequence[tuple[str, int]]) -> float:
    """Ends a second, from where every worker has had one to where the first has had its last.

    Args:
        ends: Of each turn the worker, and when it ended, in milliseconds.
    """
    by_worker: dict[str, list[int]] = {}
    for worker, at in ends:
        by_worker.setdefault(worker, []).append(at)
    first = max(min(times) for times in by_worker.values())
    last = min(max(times) for times in by_worker.values())
    within = sum(first < at <= last for _, at in ends)
    return within * 1000 / max(last - first, 1)


def _time_alone(url: str, agent: Agent, count: int) -> tuple[float, float]:
    """Milliseconds of a turn, one after the other: in a worker, and by `invoke`."""
    from orchestrator.agent.durable import DurableRuns

    invoked = []
    with DurableRuns(url) as runs, _run_workers(url, "alone", 1, 0.0):
        for number in range(count):
            agent.submit(QUESTION, f"alone-{number}", runs=runs, queue="alone").result(timeout=120)
            began = time.perf_counter()
            agent.invoke(QUESTION, f"called-{number}")
            invoked.append((time.perf_counter() - began) * 1000)
        rows = runs.client.list_workflows(queue_name="alone", load_input=False, load_output=False)
    took = [int(row.completed_at or 0) - int(row.dequeued_at or 0) for row in rows]
    return statistics.median(took), statistics.median(invoked)
