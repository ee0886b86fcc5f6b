"""The measures. Each runs in a fresh process and returns rows: (name, value, unit, limit, note).

A limit of `None` is a figure for information.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from bench import floor, subject
from bench.bedrock import bedrock
from bench.first_answer import first_answer
from bench.harness import batch, compare, settle
from bench.retrieval import retrieval
from bench.together import together
from orchestrator import Agent, Reply

Row = tuple[str, float, str, float | None, str]
QUESTION = "What is the weather in Paris?"
REPOSITORY = Path(__file__).resolve().parents[1]


def turn() -> list[Row]:
    """One turn of two model calls and one action, in a new session."""
    model, sessions, ids = subject.Script(), {}, count()
    agents: dict[bool, Agent] = {}

    def run_floor() -> None:
        floor.run(floor.new_session(sessions), QUESTION, model, subject.TOOLS)

    def run_engine(bounded: bool = False) -> Reply:
        return agents[bounded].invoke(QUESTION, f"s-{next(ids)}")

    def reset() -> None:  # no sessions of the batches before
        sessions.clear()
        agents[False] = subject.engine(model, action_seconds=None)
        agents[True] = subject.engine(model)

    times = compare(
        {
            "floor": run_floor,
            "engine": run_engine,
            "trace": lambda: run_engine().trace,
            "thread": lambda: run_engine(bounded=True),
        },
        count=200,
        rounds=45,
        before=reset,
    )
    base = times["floor"]
    return [
        ("turn, floor", base, "µs", None, "a plain loop"),
        ("turn", times["engine"] / base, "x floor", 5.0, f"{times['engine']:.0f} µs"),
        ("turn, trace read", times["trace"] / base, "x floor", 8.0, f"{times['trace']:.0f} µs"),
        (
            "turn, action in a thread with a time limit",
            times["thread"] / base,
            "x floor",
            None,
            f"{times['thread']:.0f} µs; the default of `invoke` for blocking functions",
        ),
    ]


def turn_async() -> list[Row]:
    """The same in an event loop, with an async action."""
    model, sessions, ids = subject.Script(), {}, count()

    async def measure(work: Callable[[Agent], Any]) -> float:
        sessions.clear()
        agent = subject.engine(model, asynchronous=True)
        settle()
        began = time.process_time_ns()
        for _ in range(200):
            await work(agent)
        return (time.process_time_ns() - began) / 200 / 1000

    async def main() -> tuple[float, float]:
        def run_floor(agent: Agent) -> Any:
            session = floor.new_session(sessions)
            return floor.arun(session, QUESTION, model, subject.ATOOLS)

        def run_engine(agent: Agent) -> Any:
            return agent.ainvoke(QUESTION, f"s-{next(ids)}")

        pairs = [(await measure(run_floor), await measure(run_engine)) for _ in range(46)]
        floors, engines = zip(*pairs[1:], strict=True)
        return statistics.median(floors), statistics.median(engines)

    base, engine = asyncio.run(main())
    return [("turn, async", engine / base, "x floor", 5.0, f"{engine:.0f} µs, floor {base:.1f}")]


def steps() -> list[Row]:
    """A turn of 200 steps: what the last ten cost beside the first ten."""
    firsts, lasts = [], []
    for _ in range(9):
        model = _Stamped(steps=200)
        agent = subject.engine(model, action_seconds=None)
        settle()
        agent.invoke(QUESTION, "s-1")
        stamps = model.stamps
        firsts.append((stamps[10] - stamps[0]) / 10_000)
        lasts.append((stamps[200] - stamps[190]) / 10_000)
    first, last = statistics.median(firsts[1:]), statistics.median(lasts[1:])
    return [
        ("step 191-200 of a turn", last / first, "x step 1-10", 1.5, f"{first:.0f}, {last:.0f} µs")
    ]


class _Stamped(subject.Script):
    # Notes the CPU time of every call.
    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        self.stamps: list[int] = []

    def complete(self, request: Any) -> Any:
        self.stamps.append(time.process_time_ns())
        return super().complete(request)


def session() -> list[Row]:
    """A session of 200 turns: what the 200th costs beside the 5th."""
    rows: list[Row] = []
    for store in ("memory", "sqlite"):
        early, late = [], []
        for _ in range(7):
            with tempfile.TemporaryDirectory() as folder:
                where = None if store == "memory" else Path(folder) / "sessions.sqlite"
                agent = subject.engine(subject.Script(), action_seconds=None, sessions=where)
                settle()
                times = [
                    batch(lambda agent=agent: agent.invoke(QUESTION, "s-1"), 1) for _ in range(202)
                ]
                early.append(statistics.median(times[3:7]))
                late.append(statistics.median(times[197:202]))
        first, last = statistics.median(early), statistics.median(late)
        note = f"{first:.0f}, {last:.0f} µs"
        rows.append((f"turn 200, {store}", last / first, "x turn 5", 2.0, note))
    return rows


def stream() -> list[Row]:
    """What a streamed token costs."""
    from orchestrator import parsers

    text = "<thinking>I know it.</thinking><answer>" + " ".join(["sunny"] * 2000)
    tokens = [text[start : start + 6] for start in range(0, len(text), 6)]

    def parse() -> None:
        parser = parsers.new("tool_use", "ORCHESTRATION")
        for token in tokens:
            parser.feed(token)
        parser.finish()

    def whole() -> None:
        for _ in agent.stream(QUESTION, f"s-{next(ids)}"):
            pass

    ids = count()
    agent = subject.engine(_Tokens(tokens))
    times = compare({"parse": parse, "stream": whole}, count=3, rounds=15)
    many = len(tokens)
    return [
        ("streamed token, parser", times["parse"] / many, "µs", 2.0, f"{many} tokens"),
        ("streamed token, whole turn", times["stream"] / many, "µs", None, "as `TextDelta`"),
    ]


class _Tokens(subject.Script):
    def __init__(self, tokens: list[str]) -> None:
        super().__init__()
        self.tokens = tokens

    def stream(self, request: Any) -> Any:
        from orchestrator.models import ModelReply

        yield from self.tokens
        yield ModelReply([{"text": "".join(self.tokens)}], "stop_sequence")


def concurrency() -> list[Row]:
    """200 sessions at once over a model that takes 50 ms a call."""
    sessions, wait = 200, 0.05
    ideal = 2 * wait
    agent = subject.engine(subject.Script(wait=wait), asynchronous=True)

    async def burst(start: int) -> float:
        began = time.perf_counter()
        tasks = [agent.ainvoke(QUESTION, f"s-{start + n}") for n in range(sessions)]
        await asyncio.gather(*tasks)
        return time.perf_counter() - began

    async def main() -> tuple[list[float], float]:
        await burst(0)  # warm up
        settle()
        before = _resident()
        walls = [await burst(sessions * n) for n in range(1, 8)]
        return walls, (_resident() - before) / (7 * sessions)

    walls, grown = asyncio.run(main())
    wall = statistics.median(walls)
    return [
        ("200 sessions at once", wall / ideal, "x ideal", 1.2, f"50 ms model, {wall:.3f} s"),
        ("memory of a live session", grown / 1024, "KB", 10.0, "resident memory"),
    ]


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if os.name == "posix" else 0
    return pages * resource.getpagesize()


def imports() -> list[Row]:
    """Importing the package, in fresh processes."""
    rows: list[Row] = []
    for code in ("import orchestrator", "from orchestrator import Agent"):
        times = [_import_ms(code) for _ in range(7)]
        empty = statistics.median(_import_ms("pass") for _ in range(7))
        found = statistics.median(times)
        limit = 100.0 if code == "import orchestrator" else None
        rows.append((code, found, "ms", limit, f"CPU; an empty process takes {empty:.0f} ms"))
    return rows


def _import_ms(code: str) -> float:
    program = (
        f"import time\n{code}\nimport sys\n"
        "assert not {'boto3', 'botocore', 'httpx2', 'xllamacpp'} & set(sys.modules)\n"
        "print(time.process_time() * 1000)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    return float(done.stdout)


def loading() -> list[Row]:
    """Building an agent from a folder, once per process and not per turn."""
    from orchestrator.testing import ScriptedModel

    folder = REPOSITORY / "examples" / "insurance"
    times = compare(
        {"load": lambda: Agent.load(folder, model=ScriptedModel([]))}, count=3, rounds=7
    )
    return [("load an agent's folder", times["load"] / 1000, "ms", None, "not in the turn")]


MEASURES: dict[str, Callable[[], list[Row]]] = {
    measure.__name__: measure
    for measure in (
        *(turn, turn_async, steps, session, stream, concurrency, imports, loading),
        *(retrieval, together, first_answer, bedrock),
    )
}
