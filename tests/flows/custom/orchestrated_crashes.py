"""A process that kills itself at a named point of an orchestrated turn; a script, and imported.

`python orchestrated_crashes.py <folder> <point> <kind>`: the folder holds the sessions, and
`asked.txt`, to which the handler writes each state that it is asked in.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from custom_support import HANDLERS, LOOK, model
from whole_agents import INSTRUCTION

from orchestrator import ActionGroup, Agent, Limits, SQLiteStore
from orchestrator.flows.custom import LambdaOrchestration
from orchestrator.flows.custom.lambda_loop import LambdaOrchestration as _Lambda
from orchestrator.testing import ScriptedModel

ANSWER = "You have 12 days."


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()  # nothing happens after it


class Store(SQLiteStore):
    """A store whose process dies after a record of one kind is written, the n-th time."""

    def __init__(self, path: Path, point: str = "") -> None:
        super().__init__(path)
        self.kind, _, number = point.partition(" ")
        self.left = int(number or 1)

    def append(self, key: str, expected: int, records: Sequence[Any], **options: Any) -> None:
        super().append(key, expected, records, **options)
        for record in records:
            self.left -= record["kind"] == self.kind
            if self.kind and not self.left:
                die()


def react(folder: Path) -> _Lambda:
    """The ReAct handler; it writes down when it is asked."""
    handler = LambdaOrchestration("react.py", HANDLERS)._function

    def orchestrate(event: dict[str, Any]) -> Any:
        with (folder / "asked.txt").open("a") as file:
            file.write(event["state"] + "\n")
        return handler(event)

    return LambdaOrchestration(orchestrate)


def loop(turn: Any) -> Any:
    """The same in Python."""
    yield turn.trace("begin")
    reply = yield turn.model(turn.question, tools=True)
    while reply.calls:
        results = yield turn.tools(reply)
        messages = [*reply.asked, reply.message, results.message]
        reply = yield turn.model(messages, tools=True)
    return reply.text


def staff(folder: Path, kind: str, asked: ScriptedModel, point: str = "") -> Agent:
    def get_days(employee: str) -> str:
        """Days left."""
        with (folder / "effects.txt").open("a") as file:
            file.write(employee + "\n")
        return "12"

    return Agent(
        "hr",
        INSTRUCTION,
        asked,
        action_groups=[ActionGroup("vacations", [get_days])],
        sessions=Store(folder / "sessions.db", point),
        limits=Limits(action_seconds=None),
        orchestration=react(folder) if kind == "lambda" else loop,
    )


if __name__ == "__main__":
    place, point, kind = sys.argv[1:]
    agent = staff(Path(place), kind, model(LOOK, ANSWER), point)
    print(agent.invoke("How many days?", "s-1").text)
