"""Turns on three processes that are killed at named points, and what became of each turn.

`python tests/engine/kills.py --store postgres --turns 2000 --sessions 200 --seed 1`: the processes
share a store: `sqlite`, `dynamodb` (moto's server) or `postgres` (a real one, which crashes). The
database is restarted meanwhile, and once more while all processes are killed; SQLite has no server,
so that they are killed twice, and the next one finds a file that nobody has closed. Two of the
processes have namespaces of their own, where the system lets them: of process ids and of the
network, in which a relay reaches moto. Each turn calls an action that is not idempotent and writes
its idempotency key to `effects.txt` when it takes effect. A client whose process has died restarts
it, and asks another one: first what was said, and then, if its turn has not ended, the same
question again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crashes import Bank, die, open_dying_store
from dynamodb_server import REGION, DynamoServer
from namespace_relay import pass_on
from postgres_server import PostgresServer, find_programs
from whole_agents import NATIVE, answer

from orchestrator import ActionGroup, Agent, Limits, OrchestratorError, action
from orchestrator.errors import ActionOutcomeUnknown, SessionConflict
from orchestrator.message import text_of
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.support import process_leases

KINDS = ("turn", "model", "intent", "action", "end")
POINTS = (
    *(f"{when} {kind}" for when in ("before", "after") for kind in KINDS if kind != "action"),
    *("before effect", "after effect", "in model call 1", "in model call 2", "before answer"),
)
TOKEN = re.compile(r"\[(s-\d+-\d+)\]")
WORKERS, SESSIONS = 3, 24
SOCKET = "moto"  # in the folder: where processes without a network find it
_TRIES = 50
# Of a process that was killed; thirty seconds would be most of the run.
_LEASE_SECONDS, _RENEWAL = 3, 0.5


class Echo(Model):
    """Pays for the token of the question, then tells all tokens of the conversation."""

    model_id = NATIVE.model_id

    def __init__(self) -> None:
        self.point = ""

    def complete(self, request: ModelRequest) -> ModelReply:
        last = request.messages[-1]["content"]
        done = any("toolResult" in block for block in last)
        if self.point == f"in model call {1 + done}":
            die()
        users = (one for one in request.messages if one["role"] == "user")
        tokens = [found for one in users for found in TOKEN.findall(text_of(one["content"]))]
        if not done:
            return ModelReply(NATIVE.calls(("bank::pay", {"to": tokens[-1]})), "tool_use")
        return ModelReply([{"text": answer(" ".join(tokens))}])


class Worker:
    """One process: the agent, and what it is asked on its standard input."""

    def __init__(self, folder: Path, store: str) -> None:
        @action
        def pay(to: str) -> str:
            """Pays somebody."""
            raise AssertionError("the executor does it")

        process_leases.LEASE_SECONDS, process_leases._RENEWAL = _LEASE_SECONDS, _RENEWAL
        self.store, self.bank, self.model = open_dying_store(store), Bank(folder), Echo()
        group = ActionGroup("bank", [pay], self.bank)
        # Whose process was killed has to wait for the end of its lease.
        limits = Limits(session_wait=20)
        self.agent = Agent(
            *("bank", "You pay.", self.model),
            action_groups=[group],
            sessions=self.store,
            limits=limits,
            unknown_outcomes="end",
        )
        self.asked, self.loop = 0, asyncio.Runner()

    def run(self) -> None:
        with self.loop:
            for line in sys.stdin:
                self.answer(json.loads(line))

    def answer(self, order: dict[str, str]) -> None:
        self.store.point = self.bank.point = self.model.point = order.get("point", "")
        result = self.ask(**order)
        if order.get("point") == "before answer":
            die()
        print(json.dumps(result), flush=True)

    def ask(self, session: str, question: str = "", point: str = "") -> Any:
        if not question:
            return [[it.question, it.text, it.stop_reason] for it in self.agent.turns(session)]
        try:
            return ["answer", self.invoke(question, session)]
        except ActionOutcomeUnknown:
            return ["unknown", ""]
        except SessionConflict:
            return ["conflict", ""]
        except OrchestratorError as error:
            return ["failed", repr(error)]

    def invoke(self, question: str, session: str) -> str:
        # Every second time in an event loop, which writes to the file in its own way.
        self.asked += 1
        if self.asked % 2:
            return self.agent.invoke(question, session).text
        return self.loop.run(self.agent.ainvoke(question, session)).text


class Process:
    """A worker, from outside; one client uses it at a time."""

    def __init__(self, folder: Path, store: str, prefix: Sequence[str]) -> None:
        # In a namespace nobody in it can kill its first process, so that one is a shell.
        worker = [sys.executable, __file__, "--worker", str(folder), "--store", store]
        relay = ["--relay"] if prefix and store.startswith("dynamodb:") else []
        self._command = [*prefix, "sh", "-c", '"$@"; exit $?', "sh", *worker, *relay]
        self.lock, self.killed = Lock(), 0
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def kill(self) -> None:
        """Kills it, and all between it and this process."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def ask(self, **order: Any) -> Any:
        """The answer; `None` when the process has died, and another is in its place."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with self.lock:
            try:
                self._process.stdin.write(json.dumps(order) + "\n")
                self._process.stdin.flush()
                if line := self._process.stdout.readline():
                    return json.loads(line)
            except BrokenPipeError:
                pass
            self.kill()
            self._process.communicate()
            self.killed += 1
            self._start()
            return None

    def end(self) -> None:
        self._process.communicate(timeout=60)


NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--net")


def find_namespace() -> tuple[str, ...]:
    """What gives a process namespaces of its own; nothing where this user may not make them."""
    if shutil.which("unshare") is None:
        return ()
    is_possible = not subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode
    return NAMESPACE if is_possible else ()


class Turn(NamedTuple):
    """A turn as its client knows it."""

    token: str
    outcome: str  # "answer", or "unknown"
    text: str


class Progress:
    """Counts the turns that have ended, and does something after some of them."""

    def __init__(self, works: dict[int, Callable[[], None]]) -> None:
        self._works = works
        self._ended, self._lock = 0, Lock()

    def note(self) -> None:
        with self._lock:
            self._ended += 1
            if (work := self._works.get(self._ended)) is not None:
                work()


class Client:
    """Runs the turns of some sessions on the processes."""

    def __init__(
        self, processes: Sequence[Process], seed: int, ended: Progress, until: float
    ) -> None:
        self._ended, self._until = ended, until
        self._processes = processes
        self._chance = random.Random(seed)
        self.counts: Counter[str] = Counter()

    def run_session(self, session: str, turns: int) -> list[Turn]:
        return [
            self._run_turn(session, f"{session}-{number}")
            for number in range(turns)
            if time.monotonic() < self._until
        ]

    def _run_turn(self, session: str, token: str) -> Turn:
        question = f"Pay for [{token}]."
        point = self._chance.choice(POINTS) if self._chance.random() < 0.2 else ""
        for _ in range(_TRIES):
            if point:
                self.counts[point] += 1
            result = self._ask(session=session, question=question, point=point)
            point = self._chance.choice(POINTS) if self._chance.random() < 0.1 else ""
            if result is None:
                self.counts["deaths"] += 1
                result = self._look(session, question)
            if result[0] in ("answer", "unknown"):
                self._ended.note()
                return Turn(token, *result)
            self.counts[result[0]] += 1
        raise AssertionError(f"{token}: no outcome after {_TRIES} tries, the last {result}")

    def _look(self, session: str, question: str) -> list[str]:
        while (turns := self._ask(session=session)) is None:
            pass
        if not turns or turns[-1][0] != question:
            return ["not begun", ""]
        _, text, reason = turns[-1]
        if reason == "end_turn":
            return ["answer", text]
        return ["unknown", ""] if reason == "failure" else ["interrupted", ""]

    def _ask(self, **order: Any) -> Any:
        return self._chance.choice(self._processes).ask(**order)


class Report(NamedTuple):
    """What became of the turns; all but the first five must be empty."""

    turns: int
    answered: int
    unknown: int
    deaths: int
    points: dict[str, int]
    lost: list[str]
    crossed: list[str]
    repeated: list[str]


@contextmanager
def open_place(kind: str, folder: Path) -> Iterator[tuple[str, Callable[[], None] | None]]:
    """The URL of a new store of a kind, and what crashes or restarts its server, if it has one."""
    if kind == "postgres":
        programs = find_programs()
        assert isinstance(programs, Path), programs
        server = PostgresServer(programs, options=("shared_buffers=16MB",))  # durable: it restarts
        try:
            yield server.socket_url(server.create_database()), server.crash
        finally:
            server.close()
    elif kind == "dynamodb":
        moto = DynamoServer(folder / SOCKET)
        try:
            yield moto.create_table("kills"), moto.restart
        finally:
            moto.close()
    else:
        yield f"sqlite:///{folder}/s.db", None


def run(
    folder: Path,
    turns: int,
    seed: int,
    kind: str = "sqlite",
    most_sessions: int = SESSIONS,
    minutes: float = inf,
) -> Report:
    """Runs turns, and compares what clients were told with journals and effects.

    None begins after so many minutes.
    """
    until = time.monotonic() + minutes * 60
    with open_place(kind, folder) as (store, restart):
        prefixes = [find_namespace() if number else () for number in range(WORKERS)]
        processes = [Process(folder, store, prefix) for prefix in prefixes]

        def kill_all() -> None:
            for process in processes:
                process.kill()

        def restart_all() -> None:
            kill_all()
            if restart is not None:
                restart()

        ended = Progress({turns // 3: restart or kill_all, 2 * turns // 3: restart_all})
        try:
            clients = [
                Client(processes, seed * 1000 + number, ended, until) for number in range(WORKERS)
            ]
            return _run(folder, turns, clients, processes, most_sessions)
        finally:
            for process in processes:
                process.end()


def _run(
    folder: Path,
    turns: int,
    clients: Sequence[Client],
    processes: Sequence[Process],
    most_sessions: int,
) -> Report:
    sessions = [f"s-{number}" for number in range(min(most_sessions, turns))]
    shares = [
        turns // len(sessions) + (place < turns % len(sessions)) for place in range(len(sessions))
    ]

    def work(number: int) -> dict[str, list[Turn]]:
        mine = [it for it in zip(sessions, shares, strict=True)][number::WORKERS]
        return {session: clients[number].run_session(session, share) for session, share in mine}

    with ThreadPoolExecutor(WORKERS) as pool:
        told = {key: said for part in pool.map(work, range(WORKERS)) for key, said in part.items()}
    journals = {session: processes[0].ask(session=session) for session in sessions}
    counts = sum((it.counts for it in clients), Counter())
    return compare(told, journals, (folder / "effects.txt").read_text().splitlines(), counts)


def compare(
    told: dict[str, list[Turn]],
    journals: dict[str, Any],
    effects: Sequence[str],
    counts: Counter[str],
) -> Report:
    """Every turn, beside what is kept of it."""
    lost, crossed, repeated = [], [], []
    paid = Counter(line.split()[1] for line in effects)
    keys = Counter(line.split()[0] for line in effects)
    repeated += [f"key {key}" for key, times in keys.items() if times > 1]
    for session, said in told.items():
        kept = [TOKEN.findall(question)[0] for question, _, _ in journals[session]]
        texts = dict(zip(kept, (text for _, text, _ in journals[session]), strict=True))
        crossed += [it for it in kept if not it.startswith(f"{session}-")]
        repeated += [it for it, times in Counter(kept).items() if times > 1]
        for place, turn in enumerate(said):
            if turn.token not in kept or (turn.text and texts[turn.token] != turn.text):
                lost.append(turn.token)
            seen = turn.text.split()
            crossed += [it for it in seen if not it.startswith(f"{session}-")]
            if turn.text and seen != [it.token for it in said[: place + 1]]:
                lost.append(f"{turn.token}: knows {turn.text}")
            if turn.outcome == "answer" and paid[turn.token] != 1:
                (repeated if paid[turn.token] else lost).append(f"{turn.token}: paid")
            if turn.outcome == "unknown" and paid[turn.token] > 1:
                repeated.append(f"{turn.token}: paid")
        lost += [f"order: {two}" for one, two in pairwise(kept) if _number(one) > _number(two)]
    outcomes = Counter(turn.outcome for said in told.values() for turn in said)
    points = {point: counts[point] for point in POINTS}
    total = sum(map(len, told.values()))
    return Report(
        *(total, outcomes["answer"], outcomes["unknown"], counts["deaths"], points),
        *(lost, crossed, repeated),
    )


def _number(token: str) -> int:
    return int(token.rpartition("-")[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", default="sqlite", help="sqlite, dynamodb or postgres")
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--minutes", type=float, default=inf, help="begin no turn after these")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--relay", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.relay:
        address = dict(parse_qsl(urlsplit(options.store).query))["endpoint_url"]
        pass_on(urlsplit(address).port or 80, options.worker / SOCKET)
    if options.worker:
        Worker(options.worker, options.store).run()
        return
    # Credentials that open nothing, for moto.
    os.environ.update(AWS_ACCESS_KEY_ID="AKIAKILLS", AWS_SECRET_ACCESS_KEY="k", AWS_REGION=REGION)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = run(
            *(Path(folder), options.turns, options.seed),
            *(options.store, options.sessions, options.minutes),
        )
    more = {
        "seed": options.seed,
        "seconds": round(time.monotonic() - began),
        "namespaces": " ".join(find_namespace()),
    }
    print(json.dumps({**report._asdict(), **more}, indent=1))
    sys.exit(bool(report.lost or report.crossed or report.repeated))


if __name__ == "__main__":
    main()
