"""`python -m bench.server`: what the server costs under load, in processes of their own.

64 boto3 clients, in processes of their own too, ask `orchestrator serve --workers 2 --state FILE`
for a model that takes 50 ms and says which questions it saw. Beside it: the same load in one
process without a server (`Agent.ainvoke`), and the least application that answers the same call
(`bench/server_floor.py`). With `+instant` the model answers at once in the process that asks it
(`bench/server_instant.py`), and so does the least application. Every answer has to be that of its
own question, and everything that a client was told has to be in the journal once and in order; in
the last run a worker is killed every few seconds. Linux alone: CPU is read from /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

from bench.server_check import Kept, check_answers, check_journal
from bench.server_clients import AGENT_ID, Asked
from bench.server_instant import register
from bench.server_model import WAIT_SECONDS

_PROCESSES = 2
_WARM_SECONDS = 3.0
_KILLED_EVERY = 5.0

_HANDLER = """
def lambda_handler(event, context):
    key = event["parameters"][0]["value"]
    return {"messageVersion": "1.0", "response": {
        "actionGroup": event["actionGroup"], "function": event["function"],
        "functionResponse": {"responseBody": {"TEXT": {"body": "entry " + key}}},
    }}
"""


def write_agent(folder: Path) -> Path:
    own = folder / "agents" / "loaded"
    own.mkdir(parents=True)
    (own / "handler.py").write_text(_HANDLER)
    key = {"description": "The key.", "type": "string", "required": True}
    function = {"name": "get", "description": "Looks up a key.", "parameters": {"key": key}}
    group = {
        "actionGroupName": "entries",
        "functionSchema": {"functions": [function]},
        "actionGroupExecutor": {"lambda": "handler.py"},
    }
    members = {
        "agentId": AGENT_ID,
        "agentName": "loaded",
        "foundationModel": "local",
        "instruction": "You answer questions of all kinds, and look up keys when you are asked to.",
        "actionGroups": [group],
    }
    (own / "agent.yaml").write_text(json.dumps(members))
    return own


class Run(NamedTuple):
    """What to measure.

    Attributes:
        subject: `server`, `inside` or `floor`.
        action: Whether each turn calls an action, and the model twice.
        pace: Seconds between a client's questions; 0 for the next as soon as it can.
        kills: Whether workers are killed.
        instant: Whether the model answers at once, in the process that asks it.
    """

    subject: str
    action: bool = False
    pace: float = 0.0
    kills: bool = False
    instant: bool = False

    @property
    def name(self) -> str:
        told = {
            "server": "server, 2 workers",
            "inside": "in process, `ainvoke`",
            "floor": "starlette alone, 2 workers",
        }[self.subject]
        parts = [told, *["an action"] * self.action, *["kill -9"] * self.kills]
        return ", ".join([*parts, *["instant"] * self.instant])

    @property
    def waits(self) -> float:
        """The seconds of each turn in which a model takes its time."""
        return 0.0 if self.instant else WAIT_SECONDS * (1 + self.action)


class Result(NamedTuple):
    """What was measured; CPU in milliseconds a turn."""

    run: Run
    rate: float
    overheads: Sequence[float]
    server: float
    clients: float
    model: float
    failed: int
    retried: int
    kept: Kept
    killed: int


class Bench:
    """One run after the other, each with processes and files of its own."""

    def __init__(self, seconds: float, clients: int) -> None:
        self._seconds = seconds
        self._clients = clients

    def result(self, run: Run) -> Result:
        with tempfile.TemporaryDirectory() as name, _model() as (model, url):
            folder = Path(name)
            agent = write_agent(folder)
            state = folder / "state.sqlite"
            spec = "instant" if run.instant else f"openai:load@{url}/v1"
            given = {"folder": str(agent), "model": spec, "state": str(state)}
            if run.subject == "inside":
                result = self._loaded(run, given, None, model)
            else:
                with _served(run, given) as (address, server):
                    result = self._loaded(run, {**given, "url": address}, server, model)
            if run.subject == "floor":
                return result[0]
            kept = check_journal(agent, given["model"], state, result[1], strict=not run.kills)
            return result[0]._replace(kept=kept)

    def _loaded(
        self, run: Run, given: dict[str, Any], server: subprocess.Popen[str] | None, model: Any
    ) -> tuple[Result, list[Asked]]:
        module, processes = "server_clients", _PROCESSES
        if server is None:
            module, processes = "server_inside", 1
        told = {**given, "seconds": self._seconds, "pace": run.pace, "action": run.action}
        clients = [
            _started(
                f"bench.{module}",
                json.dumps(
                    {
                        **told,
                        "of": self._clients,
                        "numbers": list(range(first, self._clients, processes)),
                    }
                ),
            )
            for first in range(processes)
        ]
        for client in clients:
            assert client.stdout.readline() == "ready\n"
        serving = _Cpu(_workers(server) if server is not None else [clients[0].pid])
        others, models = _Cpu([client.pid for client in clients]), _Cpu([model.pid])
        killer = _Killer(server) if run.kills else None
        for client in clients:
            client.stdin.write("go\n")
            client.stdin.flush()
        began = time.monotonic() + _WARM_SECONDS
        time.sleep(_WARM_SECONDS)
        for each in (serving, others, models):
            each.begin()
        if killer is not None:
            killer.begin()
        time.sleep(self._seconds - _WARM_SECONDS)
        used = [each.used() for each in (serving, others, models)]
        ended = time.monotonic()
        if killer is not None:
            killer.end()
        asked = [Asked(*it) for client in clients for it in json.load(client.stdout)["asked"]]
        for client in clients:
            client.wait()
        if run.subject != "floor":
            check_answers(asked, run.action, strict=not run.kills)
        timed = [it for it in asked if it.began >= began and not it.error]
        turns = sum(began <= it.began + it.seconds <= ended for it in asked if not it.error)
        return Result(
            run,
            turns / (ended - began),
            [(it.seconds - run.waits) * 1000 for it in timed],
            *[seconds * 1000 / turns for seconds in used],
            sum(bool(it.error) for it in asked),
            sum(it.retries for it in asked),
            Kept(),
            killer.count if killer is not None else 0,
        ), asked


class _Cpu:
    """CPU seconds of processes."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._before = 0.0

    def begin(self) -> None:
        self._before = self._now()

    def used(self) -> float:
        return self._now() - self._before

    def _now(self) -> float:
        return sum(map(_cpu_of, self._pids)) / os.sysconf("SC_CLK_TCK")


def _cpu_of(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it was killed
        return 0
    return int(fields[11]) + int(fields[12])


class _Killer:
    """Kills a worker every few seconds, each time another."""

    def __init__(self, server: subprocess.Popen[str] | None) -> None:
        assert server is not None
        self._server = server
        self._timer: Timer | None = None
        self.count = 0

    def begin(self) -> None:
        self._timer = Timer(_KILLED_EVERY, self._kill)
        self._timer.start()

    def _kill(self) -> None:
        workers = sorted(_workers(self._server))
        os.kill(workers[0], signal.SIGKILL)  # the oldest
        self.count += 1
        self.begin()

    def end(self) -> None:
        assert self._timer is not None
        self._timer.cancel()


def _workers(server: subprocess.Popen[str]) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            command = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == server.pid and fields[0] != "Z" and b"spawn_main" in command:
            found.append(int(stat.parent.name))
    return found


def _started(*arguments: str, log: Any = None) -> Any:
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )


@contextmanager
def _model() -> Iterator[tuple[Any, str]]:
    process = _started("bench.server_model")
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.communicate()


@contextmanager
def _served(run: Run, given: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Two worker processes of the server, or of its floor, and their parent."""
    with open(os.devnull, "w") as log:
        if run.subject == "floor":
            port = _free_port()
            process = _started("bench.server_floor", str(port), "2", str(run.waits), log=log)
            url = f"http://127.0.0.1:{port}"
        else:
            options = ["--agents", given["folder"], "--model", given["model"], "--state"]
            process = _started(
                "bench.server_instant" if run.instant else "orchestrator",
                *("serve", "--json", "--port", "0", "--workers", "2"),
                *options,
                given["state"],
                log=log,
            )
            url = json.loads(process.stdout.readline())["url"]
        try:
            _wait_for(url, process)
            yield url, process
        finally:
            process.terminate()
            process.communicate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        return int(made.getsockname()[1])


def _wait_for(url: str, process: subprocess.Popen[str]) -> None:
    port = int(url.rpartition(":")[2])
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            with socket.create_connection(("127.0.0.1", port)) as made:
                made.sendall(b"GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                if made.recv(1) and len(_workers(process)) == 2:
                    return
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError("the server did not begin")


def _print(results: Sequence[Result]) -> None:
    print(
        "| what | turns/s | overhead p50 | p99 | CPU of the server | of the clients | of the model "
        "| failed |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    )
    for it in results:
        cuts = statistics.quantiles(it.overheads, n=100)
        inside = it.run.subject == "inside"
        clients = "" if inside else f"{it.clients:.2f} ms"
        server = "" if it.run.kills else f"{it.server:.2f} ms"  # who was killed tells no more
        print(
            f"| {it.run.name} | {it.rate:.0f} | {cuts[49]:.1f} ms | {cuts[98]:.1f} ms "
            f"| {server} | {clients} | {it.model:.2f} ms | {it.failed} |",
            flush=True,
        )
    for it in results:
        if it.run.subject != "floor":
            told = f"{it.run.name}: {it.kept.told()}"
            print(f"\n{told}{f'; {it.killed} workers killed, {it.retried} retries' * it.run.kills}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.server", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--pace", type=float, default=0.0, help="seconds between questions")
    parser.add_argument("only", nargs="*", help="floor, inside, server; +action, +kill, +instant")
    given = parser.parse_args()
    names = given.only or (
        *("floor", "inside", "server", "inside+action", "server+action", "server+kill"),
        *("floor+instant", "inside+instant", "server+instant"),
    )
    register()
    bench = Bench(given.seconds, given.clients)
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        f"; {given.clients} clients, {given.seconds:g} s each"
        f"{f', a question every {given.pace:g} s' if given.pace else ''}.\n",
        flush=True,
    )
    results = []
    for name in names:
        parts = name.split("+")
        flags = ("action" in parts, given.pace, "kill" in parts, "instant" in parts)
        run = Run(parts[0], *flags)
        results.append(bench.result(run))
    _print(results)
    for name, count in Counter(it.run.name for it in results if it.kept.wrong).items():
        print(f"\nlost, crossed or repeated turns: {name} ({count})")
    return int(any(it.kept.wrong for it in results))


if __name__ == "__main__":
    raise SystemExit(main())
