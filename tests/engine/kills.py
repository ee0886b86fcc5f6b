"""Turns on three processes that are killed at named points, and what became of each turn.

`python tests/engine/kills.py --turns 2000 --seed 1`: the processes share one file of sessions; two
of them have a process id namespace of their own, where the system lets them. Each turn calls an
action that is not idempotent and writes its idempotency key to `effects.txt` when it takes effect.
A client whose process has died restarts it, and asks another one: first what was said, and then,
if its turn has not ended, the same question again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crashes import Bank, Store, die
from whole_agents import NATIVE, answer

from orchestrator import ActionGroup, Agent, OrchestratorError, action
from orchestrator.errors import ActionOutcomeUnknown, SessionConflict
from orchestrator.message import text_of
from orchestrator.models import Model, ModelReply, ModelRequest

KINDS = ("turn", "model", "intent", "action", "end")
POINTS = (
    *(f"{when} {kind}" for when in ("before", "after") for kind in KINDS if kind != "action"),
    *("before effect", "after effect", "in model call 1", "in model call 2", "before answer"),
)
TOKEN = re.compile(r"\[(s-\d+-\d+)\]")
WORKERS, SESSIONS = 3, 24
_TRIES = 50


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

    def __init__(self, folder: Path) -> None:
        @action
        def pay(to: str) -> str:
            """Pays somebody."""
            raise AssertionError("the executor does it")

        self.store, self.bank, self.model = Store(folder / "s.db"), Bank(folder), Echo()
        group = ActionGroup("bank", [pay], self.bank)
        self.agent = Agent(
            "bank", "You pay.", self.model, action_groups=[group], sessions=self.store
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

    def __init__(self, folder: Path, prefix: Sequence[str]) -> None:
        # In a namespace nobody in it can kill its first process, so that one is a shell.
        worker = [sys.executable, __file__, "--worker", str(folder)]
        self._command = [*prefix, "sh", "-c", '"$@"; exit $?', "sh", *worker]
        self.lock, self.killed = Lock(), 0
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

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
            self._process.kill()
            self._process.communicate()
            self.killed += 1
            self._start()
            return None

    def end(self) -> None:
        self._process.communicate(timeout=60)


NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")


def has_namespaces() -> bool:
    """Whether this user may make process id namespaces."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0


class Turn(NamedTuple):
    """A turn as its client knows it."""

    token: str
    outcome: str  # "answer", or "unknown"
    text: str


class Client:
    """Runs the turns of some sessions on the processes."""

    def __init__(self, processes: Sequence[Process], seed: int) -> None:
        self._processes = processes
        self._chance = random.Random(seed)
        self.counts: Counter[str] = Counter()

    def run_session(self, session: str, turns: int) -> list[Turn]:
        return [self._run_turn(session, f"{session}-{number}") for number in range(turns)]

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


def run(folder: Path, turns: int, seed: int) -> Report:
    """Runs turns, and compares what clients were told with journals and effects."""
    namespaces = has_namespaces()
    prefixes = [NAMESPACE if namespaces and number else () for number in range(WORKERS)]
    processes = [Process(folder, prefix) for prefix in prefixes]
    clients = [Client(processes, seed * 1000 + number) for number in range(WORKERS)]
    sessions = [f"s-{number}" for number in range(min(SESSIONS, turns))]
    shares = [
        turns // len(sessions) + (place < turns % len(sessions)) for place in range(len(sessions))
    ]

    def work(number: int) -> dict[str, list[Turn]]:
        mine = [it for it in zip(sessions, shares, strict=True)][number::WORKERS]
        return {session: clients[number].run_session(session, share) for session, share in mine}

    with ThreadPoolExecutor(WORKERS) as pool:
        told = {key: said for part in pool.map(work, range(WORKERS)) for key, said in part.items()}
    journals = {session: processes[0].ask(session=session) for session in sessions}
    for process in processes:
        process.end()
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
    parser.add_argument("--worker", type=Path)
    options = parser.parse_args()
    if options.worker:
        Worker(options.worker).run()
        return
    with tempfile.TemporaryDirectory() as folder:
        report = run(Path(folder), options.turns, options.seed)
    print(json.dumps({**report._asdict(), "namespaces": 2 if has_namespaces() else 0}, indent=1))
    sys.exit(bool(report.lost or report.crossed or report.repeated))


if __name__ == "__main__":
    main()
