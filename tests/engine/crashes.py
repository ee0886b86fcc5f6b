"""A process that kills itself at a named point of a turn; run as a script, and imported.

`python crashes.py <folder> <point> <question> [<option>...]`: the folder holds the sessions and
`effects.txt`, to which every action writes its idempotency key when it takes effect.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from whole_agents import NATIVE, answer

from orchestrator import ActionGroup, Agent, Limits, SQLiteStore, action
from orchestrator.actions import ActionResult, Call
from orchestrator.models import ModelReply, ModelRequest
from orchestrator.sessions.open_store import open_store
from orchestrator.testing import ScriptedModel

PAY = ("bank::pay", {"to": "ann"})
PAY_BOB = ("bank::pay", {"to": "bob"})
CALL, BOTH, ANSWER = NATIVE.calls(PAY), NATIVE.calls(PAY, PAY_BOB), answer("Paid.")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()  # nothing happens after it


class DyingStore:
    """A store whose process dies before or after a record of one kind is written."""

    point = ""

    def append(self, key: str, expected: int, records: Sequence[Any], **options: Any) -> None:
        for record in records:
            if self.point == f"before {record['kind']}":
                die()
        parent: Any = super()
        parent.append(key, expected, records, **options)
        for record in records:
            if self.point == f"after {record['kind']}":
                die()


class Store(DyingStore, SQLiteStore):
    """One in a file."""

    def __init__(self, path: Path, point: str = "") -> None:
        super().__init__(path)
        self.point = point


def open_dying_store(name: str) -> Any:
    """The store that a URL names, in a process that may die."""
    store: Any = open_store(name)
    kind = type(store)
    store.__class__ = type(f"Dying{kind.__name__}", (DyingStore, kind), {})
    return store


class Bank:
    """Pays, and writes down that it did: once for every time that it takes effect."""

    def __init__(self, folder: Path, point: str = "") -> None:
        self.file = folder / "effects.txt"
        self.point = point

    def call(self, call: Call, context: Any) -> ActionResult:
        if self.point == "before effect":
            die()
        if self.point == "after action" and call.arguments["to"] == "bob":
            threading.Event().wait()  # still running when the process dies
        with self.file.open("a") as file:
            file.write(f"{call.key} {call.arguments['to']}\n")
        if self.point == "after effect":
            die()
        return ActionResult(f"paid {call.arguments['to']}")


class Dying(ScriptedModel):
    """A model whose process dies in one of its calls."""

    def __init__(self, script: list[Any], point: str) -> None:
        super().__init__(script, NATIVE.model_id)
        self.point = point

    def complete(self, request: ModelRequest) -> ModelReply:
        reply = super().complete(request)
        if self.point == f"in model call {len(self.requests)}":
            die()
        if self.point == "never dies":
            print("ready", flush=True)
            sys.stdin.readline()
        return reply


def bank(folder: Path, model: ScriptedModel, point: str = "", *, idempotent: bool = False) -> Agent:
    @action(idempotent=idempotent)
    def pay(to: str) -> str:
        """Pays somebody."""
        raise AssertionError("the executor does it")

    group = ActionGroup("bank", [pay], Bank(folder, point))
    store = Store(folder / "sessions.db", point)
    limits = Limits(action_seconds=None)
    return Agent("bank", "You pay.", model, action_groups=[group], sessions=store, limits=limits)


def main() -> None:
    folder, point, question, *options = sys.argv[1:]
    script = [BOTH if "two calls" in options else CALL, ANSWER]
    if "goes on" in options:
        script = [ANSWER]
    agent = bank(Path(folder), Dying(script, point), point, idempotent="idempotent" in options)
    print(agent.invoke(question, "s-1").text)


if __name__ == "__main__":
    main()
