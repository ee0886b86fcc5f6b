"""`python -m bench.peers`: turns, steps and tokens of other frameworks beside our own.

Each framework runs in the environment that `make bench-peers` made for it, `.venv-peers/NAME`; one
without an environment has a row that says so. All take part in each round, so that what else the
machine does hits all alike; told is the median of each one's quiet rounds, in microseconds of CPU
time, and how many times the floor's that is. Names run only those. `--write` puts the rows into
docs/speed.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from bench.harness import REPOSITORY, quiet_median
from bench.page import describe_machine, print_table, write_rows

_ENVIRONMENTS = REPOSITORY / ".venv-peers"
OURS = {
    "floor": "floor",
    "floor, each message encoded once": "once",
    "orchestrator": "orchestrator",
}
PEERS = {
    "agent-squad": "agent_squad",
    "semantic-kernel": "semantic_kernel",
    "haystack": "haystack",
    "strands": "strands",
}


class Metric(NamedTuple):
    """What is measured: see `bench.peers.worker`, and by what to divide."""

    title: str
    kind: str
    size: int
    repeats: int
    units: int
    floor: str  # the one to compare with
    most: int = 99  # rounds; a long one needs few


METRICS = (
    Metric("turn", "turn", 1, 500, 1, "floor"),
    Metric("step of 50", "turn", 50, 2, 50, "once"),
    Metric("token of 2,000", "stream", 2_000, 3, 2_000, "floor"),
    Metric("token of 100,000", "stream", 100_000, 1, 100_000, "floor", 3),
)
Times = dict[tuple[str, str], float]


class Worker:
    """The process of one peer."""

    def __init__(self, module: str, python: str) -> None:
        self.module = module
        self._process = subprocess.Popen(
            [python, "-m", "bench.peers.worker", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )

    def measure(self, metric: Metric) -> float:
        """Microseconds of CPU time of each unit."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{metric.kind} {metric.size} {metric.repeats}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.module!r} failed at {metric.title!r}; see above")
        return float(answer) / metric.units

    def close(self) -> None:
        self._process.communicate()


def find_python(module: str) -> str | None:
    """The interpreter for a peer, `None` if its environment was not made."""
    if module in OURS.values():
        return sys.executable
    python = Path(_ENVIRONMENTS / module / "bin" / "python")
    return str(python) if (python.parents[1] / ".installed").is_file() else None


def measure_all(modules: list[str], rounds: int, metrics: tuple[Metric, ...] = METRICS) -> Times:
    """Microseconds by module and metric."""
    workers = [Worker(module, python) for module in modules if (python := find_python(module))]
    try:
        return {
            (worker.module, metric.title): took
            for metric in metrics
            for worker, took in zip(workers, _in_rounds(workers, metric, rounds), strict=True)
        }
    finally:
        for worker in workers:
            worker.close()


def _in_rounds(workers: list[Worker], metric: Metric, rounds: int) -> list[float]:
    found: list[list[float]] = [[] for _ in workers]
    print(f"{metric.title} ...", file=sys.stderr, flush=True)
    for number in range(min(rounds, metric.most) + 1):
        for worker, times in zip(workers, found, strict=True):
            took = worker.measure(metric)
            if number:  # the first warms up
                times.append(took)
    return [quiet_median(times) for times in found]


def _cells(title: str, module: str, times: Times) -> list[str]:
    cells = [title]
    for metric in METRICS:
        took = times.get((module, metric.title))
        base = times.get((metric.floor, metric.title))
        if took is None or base is None:
            cells.append("not installed here")
        else:
            cells.append(f"{took:,.2f} µs, {took / base:.1f} x")
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if unknown := set(given.names) - set(PEERS):
        parser.error(f"no peer {min(unknown)!r}; there are {', '.join(PEERS)}")
    titles = OURS | {title: PEERS[title] for title in given.names or PEERS}
    print(f"{describe_machine()} CPU time, medians of quiet rounds.\n", flush=True)
    times = measure_all(list(titles.values()), given.rounds)
    rows = [_cells(title, module, times) for title, module in titles.items()]
    print_table(("peer", *(metric.title for metric in METRICS)), rows)
    if given.write and (missing := write_rows(rows)):
        print(f"not on the page yet: {'; '.join(missing)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
