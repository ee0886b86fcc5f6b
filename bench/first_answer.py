"""The embedded model's first answer in a first process and in a later one, in tokens.

Seconds depend on what else the machine does; how many tokens were read and generated does not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.harness import REPOSITORY, Row

# Prompt tokens that a later process may read.
_LIMIT = 150.0
# Where a process that reads its whole prompt needs 22 s, a later process may need 6 s, and a chat
# that is running 3.5 s (facts/embedded_chat.md). As shares, so that a slow machine is no excuse
# and a quick one no help.
_LATER_SHARE = round(6 / 22, 2)
_RUNNING_SHARE = round(3.5 / 22, 2)

_PROGRAM = """
import json, sys, time
began = time.monotonic()
from orchestrator import Agent
from orchestrator.engine.trace.reply import TextDelta, TurnEnd
agent = Agent.load("examples/insurance", model="local")
def ask(session, began):
    first = None
    for event in agent.stream(sys.argv[1], session):
        if isinstance(event, TextDelta) and first is None:
            first = time.monotonic() - began
        if isinstance(event, TurnEnd):
            usage = event.reply.usage
    return {"read": usage.input_tokens, "generated": usage.output_tokens, "seconds": first,
        "cpu": time.process_time()}
found = [ask("s-1", began)]
if sys.argv[2] == "again":
    found.append(ask("s-2", time.monotonic()))
print(json.dumps(found))
"""


def first_answer() -> list[Row]:
    """The question of `make demo`, in a process whose prompt nobody has read, and in the next."""
    from orchestrator.models import weights

    model = weights.choose("default")
    if find_spec("xllamacpp") is None or not weights.place(model).is_file():
        print("first_answer: left out; run `orchestrator models pull`", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as folder:
        # Weights as they are, without what was read before.
        home = Path(folder) / model.name
        home.symlink_to(weights.place(model).parent, target_is_directory=True)
        environment = {**os.environ, "ORCHESTRATOR_MODELS": folder}
        (first,) = _ask(environment, "once")
        later, running = _ask(environment, "again")
    whole = first["seconds"]
    return [
        ("first answer, first process", first["read"], "tokens read", None, _describe(first)),
        ("first answer, later process", later["read"], "tokens read", _LIMIT, _describe(later)),
        _compare("later process", later["seconds"], whole, _LATER_SHARE),
        _compare("running chat", running["seconds"], whole, _RUNNING_SHARE),
    ]


def _ask(environment: dict[str, str], times: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, _read_question(), times],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=REPOSITORY,
        env=environment,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def _describe(found: dict[str, Any]) -> str:
    return (
        f"{found['generated']} generated; {found['cpu']:.1f} s of CPU; first text after "
        f"{found['seconds']:.1f} s of wall clock, loading included"
    )


def _compare(name: str, seconds: float, whole: float, limit: float) -> Row:
    note = f"of the first process's wall clock until the first text: {seconds:.1f} of {whole:.1f} s"
    return (f"first text, {name}", seconds / whole, "x", limit, note)


def _read_question() -> str:
    lines = (REPOSITORY / "Makefile").read_text(encoding="utf-8").splitlines()
    (question,) = [line for line in lines if line.startswith("QUESTION := ")]
    return question.removeprefix("QUESTION := ")
