"""`python -m bench.hostile`: how soon the server answers others while it is attacked.

32 clients send hostile requests to `orchestrator serve --workers 2`, each of one kind after the
other (`bench/hostile_requests.py`). Another process asks `ListAgents` every 20 ms, over a new
connection each time. The same is measured before, without an attack. All processes share the
machine's cores. With `--check` the exit code is 1 when the 99th percentile is over 100 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.hostile_model import KINDS
from bench.hostile_requests import write_agents

_LIMIT_MS = 100
_EVERY = 0.02
_WARM_SECONDS = 3.0
_END_SECONDS = 60.0


def list_agents(address: str, seconds: float) -> list[float]:
    """Milliseconds of each `ListAgents` in so many seconds; one that failed counts as endless."""
    took = []
    end = time.monotonic() + seconds
    due = time.monotonic()
    while time.monotonic() < end:
        due = max(due + _EVERY, time.monotonic())
        began = time.perf_counter()
        try:
            connection = HTTPConnection(address, timeout=60)
            connection.request("POST", "/agents/", b"{}", {"Content-Type": "application/json"})
            answer = connection.getresponse()
            good = b"agentSummaries" in answer.read() and answer.status == 200
            connection.close()
        except OSError:
            good = False
        took.append((time.perf_counter() - began) * 1000 if good else float("inf"))
        time.sleep(max(due - time.monotonic(), 0))
    return took


@contextmanager
def _process(*arguments: str, log: Any = None) -> Iterator[Any]:
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:  # it hangs, and its workers do
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@contextmanager
def _server(folder: Path, model: str, workers: int, log: Any) -> Iterator[str]:
    arguments = [
        *("orchestrator", "serve", "--json", "--port", "0", "--workers", str(workers)),
        *("--agents", str(write_agents(folder, model)), "--state", str(folder / "state.sqlite")),
        *("--bucket", f"hostile={folder / 'bucket'}", "--turn-seconds", "15"),
    ]
    for kind in KINDS:
        arguments += ["--model", f"evil.{kind}=openai:{kind}@{model}/v1"]
    with _process(*arguments, log=log) as server:
        address = urlsplit(json.loads(server.stdout.readline())["url"]).netloc
        while not all(took < 5_000 for took in list_agents(address, 0.2)):
            time.sleep(0.1)
        yield address


@contextmanager
def _attackers(address: str, clients: int, seconds: float, only: str) -> Iterator[Any]:
    given = {"url": f"http://{address}", "seconds": seconds, "threads": clients, "only": only}
    with _process("bench.hostile_requests", json.dumps(given)) as attackers:
        assert attackers.stdout.readline() == "ready\n"
        attackers.stdin.write("go\n")
        attackers.stdin.flush()
        yield attackers


def _row(name: str, took: list[float]) -> str:
    cuts = statistics.quantiles(took, n=100)
    return f"| {name} | {len(took)} | {cuts[49]:.1f} | {cuts[98]:.1f} | {max(took):.1f} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hostile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--log", metavar="FILE", default=os.devnull, help="the server's log")
    parser.add_argument(
        "--only", metavar="REGEX", default="", help="a regular expression of attacks' names"
    )
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        open(given.log, "w", encoding="utf-8") as log,
        _process("bench.hostile_model") as model,
        _server(Path(name), model.stdout.readline().strip(), given.workers, log) as address,
    ):
        calm = list_agents(address, min(given.seconds, 10.0))
        with _attackers(
            address, given.clients, given.seconds + _WARM_SECONDS, given.only
        ) as attackers:
            list_agents(address, _WARM_SECONDS)
            hostile = list_agents(address, given.seconds)
            outcomes = json.load(attackers.stdout)
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {given.clients} attackers.")
    print(
        "\n| ListAgents | requests | p50, ms | p99, ms | longest, ms |\n|---|---:|---:|---:|---:|"
    )
    print(_row("without an attack", calm))
    print(_row("under attack", hostile))
    print("\n| attack | what came of it |\n|---|---|")
    for kind, counts in sorted(outcomes.items()):
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        print(f"| {kind} | {told} |")
    over = statistics.quantiles(hostile, n=100)[98] > _LIMIT_MS
    return int(over and given.check)


if __name__ == "__main__":
    raise SystemExit(main())
