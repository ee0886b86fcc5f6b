"""Starting up: imports from byte code in fresh processes, and an agent from its folder."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

from bench.harness import REPOSITORY, Row, compare
from orchestrator import Agent

_BASE = "import json, asyncio"
_AGENT = "from orchestrator import Agent"
_HELP = """
import sys
from orchestrator.cli import main
sys.argv = ["orchestrator", "--help"]
try:
    main()
except SystemExit:
    pass
"""
# What no process may load before it uses it.
_LAZY = {"boto3", "botocore", "httpx2", "xllamacpp"}


def imports(rounds: int = 11) -> list[Row]:
    """Importing the package, and `orchestrator --help`, beside what asyncio and json take.

    From byte code, as every installed wheel has it: each runs once before it is counted, with a
    cache of its own, so that it does not matter whether the checkout has or may have one.
    """
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        programs = {
            "base": _BASE,
            "package": "import orchestrator",
            "agent": f"{_AGENT}\nimport sys\nassert not {_LAZY} & set(sys.modules)",
            "help": _HELP,
        }
        times: dict[str, list[float]] = {name: [] for name in programs}
        for number in range(rounds + 1):
            for name, code in programs.items():
                took = _milliseconds(code, environment)
                if number:
                    times[name].append(took)
    found = {name: statistics.median(its) for name, its in times.items()}
    base = found["base"]
    return [
        (f"`{_BASE}`", base, "ms", None, "CPU of the process, the interpreter's start included"),
        _beside("`import orchestrator`", found["package"], base, None),
        _beside(f"`{_AGENT}`", found["agent"], base, 1.7),
        _beside("`orchestrator --help`", found["help"], base, 4.5),
    ]


def _milliseconds(code: str, environment: dict[str, str]) -> float:
    """CPU milliseconds of a process at the end of `code`, which may print."""
    program = f"{code}\nimport sys, time\nprint(time.process_time() * 1000, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
        env=environment,
    )
    return float(done.stderr)


def _beside(name: str, took: float, base: float, limit: float | None) -> Row:
    return (name, took / base, "x json, asyncio", limit, f"{took:.0f} ms")


def loading(rounds: int = 7) -> list[Row]:
    """Building an agent from a folder, once per process and not per turn."""
    from orchestrator.testing import ScriptedModel

    folder = REPOSITORY / "examples" / "insurance"
    times = compare(
        {"load": lambda: Agent.load(folder, model=ScriptedModel([]))}, count=3, rounds=rounds
    )
    return [("load an agent's folder", times["load"] / 1000, "ms", None, "not in the turn")]
