"""A home insurer's team, whose process can be killed at a named point; a script, and imported.

A supervisor leads three agents: `claims` and `billing` act, `visits` hands its calls to the caller.
`python crew.py <folder> <point>` asks one question, answers the hand-over and prints the answer.
The folder holds the sessions, `effects.txt` with a line for every time that an action takes effect,
and `asked.txt` with a line for every model call.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from whole_agents import CLAUDE_35

from orchestrator import ActionGroup, Agent, Collaborator, Limits, ReturnControl, SQLiteStore
from orchestrator.actions import ActionResult, Call
from orchestrator.engine.results import ControlReturn as HandOver
from orchestrator.models import ModelReply, ModelRequest
from orchestrator.models.base import Usage
from orchestrator.sessions import Record
from orchestrator.testing import ScriptedModel

QUESTION = "A pipe burst in my kitchen."
ANSWER = "Claim C-1 is open, you were credited 40, and a plumber comes on Monday."
PLAN: dict[str, Any] = {
    "boss": {
        QUESTION: [
            [("claims", "A pipe burst. Open a claim."), ("billing", "Credit the customer 40.")],
            [("visits", "Send a plumber on Monday.")],
            [("claims", "Note the visit on Monday.")],
            [("User", ANSWER)],
        ]
    },
    "claims": {
        "Open a claim": [{"desk__open_claim": {"what": "pipe"}}, "Claim C-1 is open."],
        "Note the visit": [{"desk__note": {"text": "Monday"}}, "Noted."],
    },
    "billing": {"Credit": [{"till__credit": {"amount": 40}}, "Credited 40."]},
    "visits": {"plumber": [{"calendar__book": {"day": "Monday"}}, "A plumber comes on Monday."]},
}
BOOKED = "booked"
ONE_AT_A_TIME = Limits(parallel=1)
SPENT = Usage(10, 5, calls=1)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()  # nothing happens after it


def label(record: Record) -> str:
    """A record as points name it: `model` of the supervisor, `model@0.1` of a collaborator."""
    path = record["id"] if record["kind"] == "branch" else record.get("branch")
    return f"{record['kind']}@{path}" if path else record["kind"]


class Store(SQLiteStore):
    """A store whose process dies before or after a record is written."""

    def __init__(self, folder: Path, point: str = "") -> None:
        super().__init__(folder / "sessions.db")
        self.point = point

    def append(self, key: str, expected: int, records: Sequence[Any], **options: Any) -> None:
        labels = [label(record) for record in records]
        if self.point in [f"before {one}" for one in labels]:
            die()
        super().append(key, expected, records, **options)
        if self.point in [f"after {one}" for one in labels]:
            die()


class Desk:
    """Carries actions out, and writes down that it did: once for every time."""

    def __init__(self, folder: Path, point: str = "") -> None:
        self.file = folder / "effects.txt"
        self.point = point

    def call(self, call: Call, context: Any) -> ActionResult:
        name, known = call.operation.name, dict(context.session_attributes)
        if self.point == f"before {name}":
            die()
        with self.file.open("a") as file:
            file.write(f"{name} {call.key} {','.join(sorted(known))}\n")
        if self.point == f"after {name}":
            die()
        told = {**known, name: "done"}
        return ActionResult(f"{name} done for {context.agent['name']}", session_attributes=told)


class Actor(ScriptedModel):
    """A model that plays its part of the plan, whichever process asks it."""

    def __init__(
        self, name: str, plan: Mapping[str, Any], folder: Path | None = None, point: str = ""
    ) -> None:
        super().__init__([], CLAUDE_35)
        self.name, self.plan, self.point = name, plan, point
        self.file = folder and folder / "asked.txt"

    def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        question, step = asked(request)
        if self.file is not None:
            with self.file.open("a") as file:
                file.write(f"{self.name} {step}\n")
        if self.point == f"in {self.name} {step}":
            die()
        reply = next(replies for words, replies in self.plan.items() if words in question)[step]
        if isinstance(reply, Exception):
            raise reply
        content = blocks(reply, f"{self.name}-{zlib.crc32(question.encode())}-{step}")
        return ModelReply(content, "tool_use" if len(content) > 1 else "end_turn", SPENT)


def asked(request: ModelRequest) -> tuple[str, int]:
    """The question of a prompt, and how many steps were done about it."""
    steps = 0
    for message in reversed(request.messages):
        if message["role"] == "user":
            if any("toolResult" in block for block in message["content"]):
                steps += 1
            else:
                return message["content"][-1]["text"], steps
    raise AssertionError("there is no question")


def blocks(reply: Any, id: str) -> list[Any]:
    """A reply as Claude writes it: a text, calls by name, or messages to agents."""
    if isinstance(reply, str):
        return [{"text": f"<answer>{reply}</answer>"}]
    send = "AgentCommunication__sendMessage"
    calls = (
        list(reply.items())
        if isinstance(reply, dict)
        else [(send, {"recipient": to, "content": text}) for to, text in reply]
    )
    uses = [
        {"toolUse": {"toolUseId": f"{id}-{number}", "name": name, "input": given}}
        for number, (name, given) in enumerate(calls)
    ]
    return [{"text": "<thinking>I go on.</thinking>"}, *uses]


def function(name: str, **parameters: str) -> dict[str, Any]:
    told = {
        key: {"type": kind, "description": f"The {key}.", "required": True}
        for key, kind in parameters.items()
    }
    return {"name": name, "description": f"Does {name}.", "parameters": told}


def crew(folder: Path, point: str = "", plan: Mapping[str, Any] = PLAN, **options: Any) -> Agent:
    """The team."""
    desk = Desk(folder, point)
    actors = {name: Actor(name, part, folder, point) for name, part in plan.items()}
    tools = [function("open_claim", what="string"), function("note", text="string")]
    groups = {
        "claims": ActionGroup("desk", functions=tools, executor=desk),
        "billing": ActionGroup(
            "till", functions=[function("credit", amount="integer")], executor=desk
        ),
        "visits": ActionGroup(
            "calendar", functions=[function("book", day="string")], executor=ReturnControl()
        ),
    }
    members = [
        Collaborator(
            Agent(name, f"You see to {name}.", actors[name], action_groups=[group]),
            f"Sees to {name}.",
        )
        for name, group in groups.items()
    ]
    options.setdefault("sessions", Store(folder, point))
    boss = Agent("boss", "You lead the team.", actors["boss"], collaborators=members, **options)
    return boss


def waiting(agent: Agent, session_id: str = "s-1") -> HandOver | None:
    """The hand-over that the session waits for, from its journal alone."""
    turns = agent.turns(session_id)
    last = turns[-1].records[-1] if turns else {"kind": ""}
    if last["kind"] != "suspend":
        return None
    return HandOver(last["invocation_id"], last["inputs"])


def play(agent: Agent, point: str = "") -> str:
    """Asks, or goes on with what another process left; the answer."""
    control = waiting(agent)
    if control is None:
        reply = agent.invoke(QUESTION, "s-1")
        control = reply.return_control
    if control is not None:
        if point == "while it waits":
            die()
        reply = agent.invoke(session_id="s-1", results=control.answer(BOOKED))
    return reply.text


if __name__ == "__main__":
    at = sys.argv[2]
    print(play(crew(Path(sys.argv[1]), at, limits=ONE_AT_A_TIME), at))
