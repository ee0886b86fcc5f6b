"""Agents and flows whose journals `journals/` keeps, one file for each version of the journal.

`python journal_cases.py FILE` writes the journals of the program that it imports. A file is written
once, before the journal's version changes, and never again: its program is gone then.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from orchestrator import (
    ActionGroup,
    Agent,
    Collaborator,
    Flow,
    ReturnControl,
    Sessions,
    SQLiteStore,
)
from orchestrator.guardrails import Verdict
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.models.base import Usage
from orchestrator.testing import FakeClock

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
SESSION = "s-1"
HOST = "host.example:4242:1717"
"""Who runs the turns, instead of a process of the machine that the file was written on."""


class Script(Model):
    """Answers by what it is asked, however often it was asked before."""

    model_id = CLAUDE

    def __init__(
        self, calls: dict[str, dict[str, Any]] | None = None, text: str = "<answer>Done.</answer>"
    ) -> None:
        self.calls = calls or {}
        self.text = text
        self.asked: list[ModelRequest] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        content: list[Any] = [{"text": self.text}]
        if request.stage == "MEMORY_SUMMARIZATION":
            content = [{"text": "<summary><topic name='days'>12 days</topic></summary>"}]
        elif not any("toolResult" in it for one in request.messages for it in one["content"]):
            content = [
                {"toolUse": {"toolUseId": f"t-{place}", "name": name, "input": given}}
                for place, (name, given) in enumerate(self.calls.items())
            ] or content
        return ModelReply(content, "end_turn", Usage(3, 2, calls=1))


class Masking:
    """A guardrail that masks one word."""

    id = "masking"
    reach = 40
    bounded = True

    def check(self, text: str, source: str) -> Verdict:
        if "Ana" not in text:
            return Verdict(text=text)
        entity = {"type": "NAME", "match": "Ana", "action": "ANONYMIZED"}
        found = [{"sensitiveInformationPolicy": {"piiEntities": [entity]}}]
        return Verdict("INTERVENED", text.replace("Ana", "{NAME}"), False, found)


def get_days(employee: str) -> str:
    """The vacation days that an employee has left."""
    return f"12 for {employee}"


VACATIONS = ActionGroup("vacations", [get_days])
DAYS = {"vacations__get_days": {"employee": "E-1"}}
DOOR = {
    "name": "open_door",
    "description": "Opens a door.",
    "parameters": {"door": {"type": "string", "description": "Which.", "required": True}},
}
LOOP = [
    "FOR $x in $xs:",
    "    Say $x -> said",
    "    @log($said) >> logged",
    "END",
    "End $logged -> out",
]
TALK = 'user: "Say {{ who }}"\nassistant: "[[kind:|a|b]]"\n$rate: {text: "?=kind"}\nuser: end\n'


def hr(model: Model, sessions: Sessions, **options: Any) -> Agent:
    return Agent("hr", "You help.", model, sessions=sessions, idle_session_ttl=5000, **options)


def ask_tool(sessions: Sessions, model: Script | None = None) -> Any:
    asked = hr(model or Script(DAYS), sessions, action_groups=[VACATIONS])
    return asked, lambda: asked.invoke("How many days?", SESSION, session_attributes={"a": "1"})


def return_control(sessions: Sessions, model: Script | None = None) -> Any:
    door = ActionGroup("house", functions=[DOOR], executor=ReturnControl())
    script = Script({"house__open_door": {"door": "garage"}})
    asked = hr(model or script, sessions, action_groups=[door])
    return asked, lambda: asked.invoke("Open the garage.", SESSION)


def team(sessions: Sessions, model: Script | None = None) -> Any:
    below = Agent("days", "You know days.", model or Script(DAYS), action_groups=[VACATIONS])
    script = Script({"AgentCommunication__sendMessage": {"recipient": "days", "content": "Days?"}})
    asked = hr(model or script, sessions, collaborators=[Collaborator(below, "Ask for days.")])
    return asked, lambda: asked.invoke("How many days?", SESSION)


def guardrail(sessions: Sessions, model: Script | None = None) -> Any:
    asked = hr(model or Script(DAYS), sessions, action_groups=[VACATIONS], guardrail=Masking())
    return asked, lambda: asked.invoke("How many days has Ana?", SESSION)


def memory(sessions: Sessions, model: Script | None = None) -> Any:
    asked = hr(model or Script(), sessions, memory=":memory:")
    return asked, lambda: asked.invoke("Hello.", SESSION, memory_id="ana", end_session=True)


def orchestration(sessions: Sessions, model: Script | None = None) -> Any:
    def loop(turn: Any) -> Any:
        yield turn.trace("begin")
        reply = yield turn.model(turn.question)
        return reply.text

    asked = hr(model or Script(text="a"), sessions, orchestration=loop)
    return asked, lambda: asked.invoke("Hello.", SESSION)


def log(text: str) -> str:
    return f"logged {text}"


def parallel_loop(sessions: Sessions, model: Script | None = None) -> Any:
    flow = Flow.from_text("\n".join(LOOP), "pl")
    more: dict[str, Any] = {
        "model": model or Script(text="a"),
        "tools": {"log": log},
        "parallel": 2,
    }
    return None, lambda: flow.run({"xs": [1, 2]}, run_id=SESSION, sessions=sessions, **more)


def rate(text: str) -> str:
    return f"rated {text}"


def talk(sessions: Sessions, model: Script | None = None) -> Any:
    flow = Flow.from_text(TALK, "ppe")
    more: dict[str, Any] = {"model": model or Script(text="a"), "tools": {"rate": rate}}
    return None, lambda: flow.run({"who": "hi"}, run_id=SESSION, sessions=sessions, **more)


CASES: dict[str, Callable[..., Any]] = {
    it.__name__: it
    for it in (
        *(ask_tool, return_control, team, guardrail, memory, orchestration),
        *(parallel_loop, talk),
    )
}


def journal_of(case: str, folder: Path) -> dict[str, Any]:
    """The journal of a case: its session's label, and its records."""
    store = SQLiteStore(folder / f"{case}.sqlite")
    _, begin = CASES[case](Sessions(store, clock=FakeClock()))
    begin()
    (info,) = store.list()
    records = store.load(info.key)
    for record in records:
        if record.get("owner"):
            record["owner"] = HOST
    store.close()
    return {"label": info.label, "records": records}


def main(file: str) -> None:
    with TemporaryDirectory() as folder:
        journals = {case: journal_of(case, Path(folder)) for case in CASES}
    lines = [f'"{case}": {json.dumps(it)}' for case, it in journals.items()]
    Path(file).write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1])
