"""An agent whose script is killed after the n-th write to its journal; a script, and imported.

`python scripted_crashes.py <folder> <n>`
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from flow_support import program, scripted

from orchestrator import ActionGroup, Agent, SQLiteStore
from orchestrator.testing import ScriptedModel

REPLIES = ["first", "a", "Emma", "second", "last"]
FLOW = program(
    "Say $question -> one",
    '@condition_judge($one, ["a", "b"]) -> kind',
    "@note(text=$one) -> noted",
    "FOR $n in [1, 2]:",
    "    On $n and $noted >> list",
    "END",
    "@note(text=$list) -> noted",
    "End with $list -> answer",
)


class Store(SQLiteStore):
    """A store whose process dies after its n-th write."""

    def __init__(self, path: Path, dies_after: int = 0) -> None:
        super().__init__(path)
        self.left = dies_after

    def append(self, key: str, expected: int, records: Sequence[Any], **options: Any) -> None:
        super().append(key, expected, records, **options)
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
            threading.Event().wait()  # nothing happens after it


def agent(folder: Path, model: ScriptedModel, dies_after: int = 0) -> Agent:
    def note(text: Any) -> str:
        """Notes."""
        with (folder / "notes.txt").open("a") as file:
            file.write(f"{text}\n")
        return "noted"

    return Agent(
        "noter",
        "You note.",
        model,
        action_groups=[ActionGroup("notes", [note])],
        orchestration=FLOW,
        sessions=Store(folder / "sessions.sqlite", dies_after),
    )


if __name__ == "__main__":
    agent(Path(sys.argv[1]), scripted(*REPLIES), int(sys.argv[2])).invoke("Hello", "s-1")
