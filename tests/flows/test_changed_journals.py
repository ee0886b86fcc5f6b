"""A run whose journal was changed: a typed error with the way out, not one of Python's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from flow_support import Echo, program, script

from orchestrator import DependencyFailed, Sessions
from orchestrator.sessions import Record, SessionInfo
from orchestrator.testing import FakeClock, InMemoryStore

CHANCE = script("assistant: '[[kind:|a|b:random]]'", "user: '{{ kind }}'")
LOOP = program("FOR $x in $xs:", "    Say $x -> said", "END", "End $said -> out")


# Members of records whose texts a script reads again.
DRAWN, WORKED, ITEM = ("event", "CHANCE"), ("state", "STATEMENT"), ("kind", "branch")
Run = Callable[[Sessions], Any]
HOUR = 3600 * 10**9


class Durable(InMemoryStore):
    """Journals in memory that are taken for another process's."""

    durable = True


def draw(sessions: Sessions) -> Any:
    return CHANCE.run(model=Echo(), sessions=sessions, run_id="r-1")


def loop(sessions: Sessions) -> Any:
    return LOOP.run({"xs": [1, 2]}, model=Echo(), sessions=sessions, run_id="r-1", parallel=2)


def record_of_agent(type: str, **more: Any) -> str:
    """An iteration's record that tells of an agent that it made."""
    agent = {"name": "helper", "type": type, "task": "Help.", "roles": {}, "tools": {}, **more}
    return json.dumps({"spent": [1, 0], "value": {"variables": {}, "agents": {"helper": agent}}})


def run_until_last_model(run: Run) -> tuple[SessionInfo, list[Record]]:
    """What the process of another machine has left that died while it waited for its last model."""
    store = Durable()
    run(Sessions(store, clock=FakeClock()))
    (info,) = store.list()
    records = store.load(info.key)[:-2]
    records[0]["owner"] = "host.example:4242:1717"
    return info, records


def reopen(info: SessionInfo, records: list[Record]) -> Sessions:
    store = Durable()
    store.append(info.key, 0, records, label=info.label, at=info.updated)
    return Sessions(store, clock=FakeClock(FakeClock().now + HOUR))


@pytest.mark.parametrize(
    ("run", "of", "text"),
    [
        (draw, DRAWN, ""),
        (draw, DRAWN, "seven"),
        (draw, DRAWN, "9" * 5000),
        (draw, WORKED, "seven"),
        (draw, WORKED, "9:00"),
        (draw, WORKED, "nan"),
        (draw, WORKED, "inf"),
        (draw, WORKED, "-1"),
        (loop, ITEM, ""),
        (loop, ITEM, "{"),
        (loop, ITEM, "[" * 100_000),
        (loop, ITEM, "null"),
        (loop, ITEM, "{}"),
        (loop, ITEM, '{"spent": [1], "value": {"variables": {}, "agents": {}}}'),
        (loop, ITEM, '{"spent": [1, 0], "value": {"variables": {"x": [1]}, "agents": {}}}'),
        (loop, ITEM, '{"spent": [1, 0], "value": {"variables": {}, "agents": {"a": {"b": 1}}}}'),
        (loop, ITEM, record_of_agent("emperor")),
    ],
)
def test_a_changed_record_of_a_run_is_a_typed_error(
    run: Run, of: tuple[str, str], text: str
) -> None:
    info, records = run_until_last_model(run)
    member, value = of
    spoilt = [record for record in records if record.get(member) == value]
    assert spoilt
    for record in spoilt:
        record["text"] = text
    later = reopen(info, records)
    with pytest.raises(DependencyFailed, match="record of a script that cannot be understood"):
        run(later)


@pytest.mark.parametrize("question", ["\0{}", "[]", "[" * 100_000, '{"arguments": {}, "seed": 1}'])
def test_a_run_whose_request_was_changed_begins_anew(question: str) -> None:
    info, records = run_until_last_model(loop)
    records[0]["question"] = question
    assert loop(reopen(info, records)).output == "<End <Say 2>>"


def test_members_of_a_recorded_agent_that_are_not_known_are_ignored() -> None:
    info, records = run_until_last_model(loop)
    (first, *_) = [record for record in records if record.get("kind") == "branch"]
    first["text"] = record_of_agent("bambo", mood="calm")
    assert loop(reopen(info, records)).output == "<End <Say 2>>"
