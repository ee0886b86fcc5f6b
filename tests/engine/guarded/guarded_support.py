"""What the tests of guarded turns share: guardrails that note what they were asked."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import botocore_shapes
from whole_agents import INSTRUCTION

from orchestrator import Agent, Reply
from orchestrator.guardrails import Verdict
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.testing import ScriptedModel

SECRET = "ana@example.com"
MASK = "{EMAIL}"
BLOCKED = "I cannot talk about that."


class Watching:
    """A guardrail that blocks texts with `bomb`, masks an address, and notes what it was asked."""

    id = "watching"
    reach = 40
    bounded = True

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.asked: list[tuple[str, str]] = []
        self._before = before

    def check(self, text: str, source: str) -> Verdict:
        self._before()
        self.asked.append((text, source))
        if "bomb" in text:
            return Verdict("INTERVENED", BLOCKED, True, [_topic()])
        if SECRET in text:
            return Verdict("INTERVENED", text.replace(SECRET, MASK), False, [_masked()])
        return Verdict(text=text)


def _topic() -> dict[str, Any]:
    topic = {"name": "bombs", "type": "DENY", "action": "BLOCKED"}
    return {"topicPolicy": {"topics": [topic]}}


def _masked() -> dict[str, Any]:
    entity = {"type": "EMAIL", "match": SECRET, "action": "ANONYMIZED"}
    return {"sensitiveInformationPolicy": {"piiEntities": [entity]}}


def guarded(model: Model, guardrail: Any = None, **options: Any) -> Agent:
    return Agent("hr", INSTRUCTION, model, guardrail=guardrail or Watching(), **options)


def sound(reply: Reply) -> list[dict[str, Any]]:
    """The reply's trace, each part of which has Bedrock's shape."""
    for part in reply.trace:
        assert botocore_shapes.problems(part) == []
    return reply.trace


def checked_early(trace: list[dict[str, Any]]) -> list[str]:
    """The `kinds` of a turn that streamed an answer in one piece, in the order of one that did not.

    The check of a streamed answer comes before the whole reply, not before `FINISH`.
    """
    found = kinds(trace)
    check = found.index("guardrail-post-0 NONE")
    assert found[check + 1] == "modelInvocationOutput"
    found.insert(found.index("FINISH"), found[check])
    del found[check]
    return found


def kinds(trace: list[dict[str, Any]]) -> list[str]:
    """The trace in short: `guardrail-pre-0 NONE`, `modelInvocationInput`, ..."""
    found = []
    for part in trace:
        ((kind, told),) = part["trace"].items()
        if kind == "guardrailTrace":
            found.append(f"{told['traceId'].split('-', 5)[5]} {told['action']}")
        elif kind == "failureTrace":
            found.append(kind)
        else:
            ((member, value),) = told.items()
            found.append(value["type"] if member == "observation" else member)
    return found


def prompt_texts(model: ScriptedModel) -> str:
    """Every text of every prompt."""
    return "\n".join(f"{one.system}{one.messages}" for one in model.requests)


def journal(file: Path) -> str:
    """Everything that a file of sessions keeps."""
    with closing(sqlite3.connect(file)) as db:
        return "\n".join(str(row) for row in db.execute("SELECT * FROM journal"))


def snapshot(file: Path, name: str) -> Path:
    """A copy of the file as a crash would leave it now."""
    target = file.with_name(name)
    with closing(sqlite3.connect(file)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)
    return target


class Snapshots(ScriptedModel):
    """A scripted model that copies the sessions' file before each reply."""

    def __init__(self, script: list[Any], model_id: str, file: Path) -> None:
        super().__init__(script, model_id)
        self._file = file

    def complete(self, request: ModelRequest) -> ModelReply:
        snapshot(self._file, f"before-{len(self.requests)}.sqlite")
        return super().complete(request)
