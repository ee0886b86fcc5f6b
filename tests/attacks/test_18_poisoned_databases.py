"""Attack 18, with 11 and 12: rows of PostgreSQL and items of DynamoDB that others have written.

What was changed, moved or lost is refused by name, and never read as another conversation; ids and
labels are values, never part of a statement; a tenant's session is no other tenant's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from left_out import sampled
from whole_agents import INSTRUCTION, NATIVE, answer

from orchestrator import Agent, DependencyFailed, Sessions
from orchestrator.sessions.open_store import open_store
from orchestrator.support.dynamodb import DynamoTable
from orchestrator.support.store_urls import DynamoUrl, parse_store

KEY = hashlib.sha256(b"a").hexdigest()
RECORDS = [{"kind": "end", "text": text} for text in ("1", "2", "3")]
POISONS = ["text", "place", "lost", "count", "label", "not JSON", "code"]
PICKLE = '{"lc": 1, "type": "constructor", "id": ["os", "system"]}'


def poison_postgres(url: str, what: str) -> None:
    statement, values = {
        "text": ("UPDATE orchestrator_journal SET record = replace(record, '2', '9')", ()),
        "place": ("UPDATE orchestrator_journal SET place = 7 WHERE place = 1", ()),
        "lost": ("DELETE FROM orchestrator_journal WHERE place = 2", ()),
        "count": ("UPDATE orchestrator_session SET records = 2", ()),
        "label": ("UPDATE orchestrator_session SET label = 'other/agent/s'", ()),
        "not JSON": ("UPDATE orchestrator_journal SET record = '[[['", ()),
        "code": ("UPDATE orchestrator_journal SET record = %s", (PICKLE,)),
    }[what]
    with closing(psycopg.connect(url, autocommit=True)) as db:
        db.execute(statement, values)


def poison_dynamodb(name: str, what: str) -> None:
    url = parse_store(name)
    assert isinstance(url, DynamoUrl)
    table = DynamoTable(url, "the table")
    pk = f"session#{KEY}"
    session, (*_, append) = (
        table.get(pk, "s"),
        table.query("pk = :pk AND sk < :s", {"pk": pk, "s": "s"}),
    )
    assert session is not None
    match what:
        case "lost":
            table.delete(pk, append["sk"])
        case "place":
            table.delete(pk, append["sk"])
            table.put({**append, "sk": append["sk"].replace("2#", "1#", 1)})
        case "count" | "label":
            table.put({**session, **({"records": 2} if what == "count" else {"name": "o/a/s"})})
        case _:
            texts = {"text": append["text"].replace("2", "9"), "not JSON": "[[[", "code": PICKLE}
            table.put({**append, "text": texts[what]})


POISONERS = {"postgres": poison_postgres, "dynamodb": poison_dynamodb}


@pytest.fixture(params=sorted(POISONERS))
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{kind}_url")
    return found


@pytest.fixture
def open_one(url: str) -> Iterator[Callable[[], Any]]:
    opened: list[Any] = []

    def open() -> Any:
        opened.append(open_store(url))
        return opened[-1]

    yield open
    for one in opened:
        one.close()


@pytest.mark.parametrize("what", sampled(POISONS, every=2))
def test_what_was_changed_is_refused(
    what: str, kind: str, url: str, open_one: Callable[[], Any]
) -> None:
    store = open_one()
    store.append(KEY, 0, RECORDS, label="a/b/c", at=1)
    POISONERS[kind](url, what)
    with pytest.raises(DependencyFailed, match=rf"is damaged.*{KEY[:12]}.*delete the session"):
        for info in store.list():
            open_one().load(info.key)
    store.delete(KEY)
    store.append(KEY, 0, RECORDS, label="a/b/c", at=2)
    assert open_one().load(KEY) == RECORDS


@pytest.mark.parametrize("id", sampled(["s:'--", "..", "%s", "con.nul", "$1"], every=2))
def test_ids_are_values(id: str, open_one: Callable[[], Any]) -> None:
    store = open_one()
    session = id if all(c in "._:-" or c.isalnum() for c in id) else f"s{len(id)}-x"
    agent = Agent("a", INSTRUCTION, NATIVE.model([answer("Hi.")]), sessions=Sessions(store))
    assert agent.invoke("Hello", session).text == "Hi."
    prefix = f"{agent.plan.owner}/"
    assert store.labels(prefix, "", 9) == [prefix + session]
    assert store.labels(f"{id}/", "", 9) == []
    assert store.labels(f"{prefix}' OR 1=1 --/", "", 9) == []


def test_a_session_of_another_tenant_is_not_there(open_one: Callable[[], Any]) -> None:
    model = NATIVE.model([answer("Hello Ann."), answer("Who are you?")])
    agent = Agent("a", INSTRUCTION, model, sessions=Sessions(open_one()))
    ann, bob = agent.for_tenant("ann"), agent.for_tenant("bob")
    ann.invoke("I am Ann.", "s-1")
    assert bob.turns("s-1") == []
    bob.invoke("Who am I?", "s-1")
    assert "Ann" not in str(model.requests[1].messages)
    assert [turn.question for turn in ann.turns("s-1")] == ["I am Ann."]
