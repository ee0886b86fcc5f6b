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

from bench.harness import REPOSITORY, Row

# Prompt tokens that a later process may read.
_LIMIT = 150.0

_PROGRAM = """
import json, sys, time
began = time.monotonic()
from orchestrator import Agent
from orchestrator.engine.trace.reply import TextDelta, TurnEnd
agent = Agent.load("examples/insurance", model="local")
first = None
for event in agent.stream(sys.argv[1], "s-1"):
    if isinstance(event, TextDelta) and first is None:
        first = time.monotonic() - began
    if isinstance(event, TurnEnd):
        usage = event.reply.usage
print(json.dumps({"read": usage.input_tokens, "generated": usage.output_tokens,
    "seconds": first, "cpu": time.process_time()}))
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
        return [
            _ask(f"first answer, {name}", environment, limit)
            for name, limit in (("first process", None), ("later process", _LIMIT))
        ]


def _ask(name: str, environment: dict[str, str], limit: float | None) -> Row:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, _read_question()],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=REPOSITORY,
        env=environment,
    )
    found = json.loads(done.stdout)
    note = (
        f"{found['generated']} generated; {found['cpu']:.1f} s of CPU; first text after "
        f"{found['seconds']:.1f} s of wall clock, loading included"
    )
    return (name, found["read"], "tokens read", limit, note)


def _read_question() -> str:
    lines = (REPOSITORY / "Makefile").read_text(encoding="utf-8").splitlines()
    (question,) = [line for line in lines if line.startswith("QUESTION := ")]
    return question.removeprefix("QUESTION := ")
