"""Counts of instructions, which no other program on the machine changes.

`python -m bench.instructions SIDE UNIT COUNT` runs so many turns, steps or tokens. The measure
counts two such processes with callgrind, from where the first unit begins, and divides the
difference by that of their units, so that what surrounds them is not in it. The garbage collector
is off: when it runs depends on what was made before.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.harness import Row
from bench.peers.own import Engine, Floor, OnceFloor
from bench.peers.peer import Stream, Turn

_SIDES = ("floor", "engine")
# How many units the two processes have, and the limit for the engine in thousands.
_UNITS: dict[str, tuple[int, int, float]] = {
    "turn": (10, 60, 400.0),
    "step": (10, 60, 200.0),
    "token": (500, 2_500, 15.0),
    "turn in SQLite": (10, 60, 1_400.0),
}


def instructions() -> list[Row]:
    """Thousands of instructions of a turn, a step and a token, counted by callgrind."""
    if shutil.which("valgrind") is None:
        print("instructions: LEFT OUT; there is no `valgrind` on this machine", file=sys.stderr)
        return []
    measured = [(side, unit) for unit in _UNITS for side in _SIDES if (side, unit) in _NOTES]
    runs = [(side, unit, many) for side, unit in measured for many in _UNITS[unit][:2]]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # counts do not mind company
        counts = dict(zip(runs, pool.map(lambda it: _count(*it), runs), strict=True))
    rows: list[Row] = []
    for side, unit in measured:
        few, many, limit = _UNITS[unit]
        each = (counts[side, unit, many] - counts[side, unit, few]) / (many - few) / 1000
        name = f"instructions of a {unit}" + ", floor" * (side == "floor")
        bound = limit if side == "engine" else None
        rows.append((name, each, "k", bound, _NOTES[side, unit]))
    return rows


_NOTES = {
    ("floor", "turn"): "two model calls, one async action; all messages encoded before each call",
    ("engine", "turn"): "two model calls, one async action",
    ("floor", "step"): "between 10 and 60 of a turn; each message encoded once",
    ("engine", "step"): "between 10 and 60 of a turn",
    ("floor", "token"): "of one answer of Converse events",
    ("engine", "token"): "between 500 and 2,500 of one answer, `astream`",
    ("engine", "turn in SQLite"): "of one session; the system's share is not counted",
}


def _count(side: str, unit: str, many: int) -> int:
    valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
    program = [sys.executable, "-m", "bench.instructions", side, unit, str(many)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*valgrind, "--callgrind-out-file=/dev/null", *program],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "0", "TMPDIR": folder},
        )
    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"callgrind failed with {side} {unit}:\n{done.stderr[-2000:]}")
    return int(found[1])


async def run(side: str, unit: str, many: int, begin: Callable[[], None]) -> None:
    """Warms up, calls `begin`, and runs `many` units."""
    works = _works(side, unit, many)
    for work in _works(side, unit, 10):
        await work()
    gc.disable()
    begin()
    for work in works:
        await work()


def _works(side: str, unit: str, many: int) -> Sequence[Turn | Stream]:
    """What has `many` units: as many turns, or one turn of as many steps or tokens."""
    peer = Engine() if side == "engine" else OnceFloor() if unit == "step" else Floor()
    if unit == "turn":
        return peer.turns(1, many)
    if unit == "turn in SQLite":
        return _stored_turns(many)
    return peer.turns(many, 1) if unit == "step" else peer.streams(many, 1)


def _stored_turns(many: int) -> list[Turn]:
    from bench import script, subject

    file = Path(tempfile.mkdtemp(), "s.sqlite")  # removed by who has made this process
    agent = subject.engine(subject.Script(), asynchronous=True, sessions=file)

    async def turn() -> str:
        return (await agent.ainvoke(script.QUESTION, "s-1")).text

    return [turn] * many


def _instrument() -> None:
    """Counts from here on; before, valgrind is five times faster."""
    control = ["callgrind_control", "--instr=on", str(os.getpid())]
    subprocess.run(control, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3]), _instrument))
    os._exit(0)  # tearing down is in no unit
