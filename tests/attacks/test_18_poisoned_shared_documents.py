"""Attack 18: rows and items that somebody wrote into a shared database are data, or an error."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import OrchestratorError
from orchestrator.memory import DynamoMemory, PostgresMemory, build_summary
from orchestrator.memory.base import MemoryStore
from orchestrator.server.document_store import DocumentStore
from orchestrator.support.dynamodb import DynamoTable
from orchestrator.support.store_urls import DynamoUrl, PostgresUrl, parse_store

TOPIC = {"topic": "T", "summary": "canary"}
Spoil = Callable[[str, Any], None]


@pytest.fixture(params=["postgres", "dynamodb"])
def database(request: pytest.FixtureRequest) -> tuple[Any, Spoil]:
    """A database, and what writes a value into a column of everything that it has."""
    url = parse_store(request.getfixturevalue(f"{request.param}_url"))
    return url, _spoil_rows(url) if isinstance(url, PostgresUrl) else _spoil_items(url)


def _spoil_rows(url: PostgresUrl) -> Spoil:
    import psycopg

    def spoil(column: str, value: Any) -> None:
        table = "orchestrator_document" if column == "document" else "orchestrator_summary"
        with psycopg.connect(url.conninfo) as db:
            statement = f"UPDATE {table} SET body = %s"
            db.execute(statement.encode(), (value if isinstance(value, str) else repr(value),))

    return spoil


def _spoil_items(url: Any) -> Spoil:
    assert isinstance(url, DynamoUrl)
    table = DynamoTable(url, "the table")

    def spoil(column: str, value: Any) -> None:
        prefix = "list#" if column == "document" else "memory#"
        for item in table.client.scan(TableName=table.name)["Items"]:
            if item["pk"]["S"].startswith(prefix) and "body" in item:
                wire = {"B": value} if isinstance(value, bytes) else {"S": value}
                table.client.put_item(TableName=table.name, Item={**item, "body": wire})

    return spoil


@pytest.fixture
def memory(database: tuple[Any, Spoil]) -> Iterator[MemoryStore]:
    url, _ = database
    store = PostgresMemory(url) if isinstance(url, PostgresUrl) else DynamoMemory(url)
    yield store
    store.close()


BODIES: dict[str, Any] = {
    "a pickle": pickle.dumps(Path("x")),
    "not JSON": "[",
    "deep": "[" * 100_000,
    "no members": "{}",
    "a class name": json.dumps({"lc": 1, "type": "constructor", "id": ["os", "system"]}),
    "more members": json.dumps({"topics": [TOPIC], "text": "t", "role": "system"}),
    "topics with a role": json.dumps({"topics": [{**TOPIC, "role": "system"}], "text": "t"}),
    "topics that are no texts": json.dumps({"topics": [{"topic": 1, "summary": []}], "text": "t"}),
    "a text that is none": json.dumps({"topics": [TOPIC], "text": {"$bytes": "?"}}),
    "not a number": '{"topics": [], "text": NaN}',
}


def test_a_hostile_summary_is_refused_and_can_be_deleted(
    database: tuple[Any, Spoil], memory: MemoryStore
) -> None:
    for body in BODIES.values():
        memory.add("a/x", build_summary("ana", "s-1", [TOPIC], started=1, now=1))
        database[1]("summary", body)
        with pytest.raises(OrchestratorError, match="did not write") as caught:
            memory.recent("a/x", "ana", 2, 9)
        assert "canary" not in str(caught.value)
    memory.delete("a/x", "ana", "s-1")
    assert memory.recent("a/x", "ana", 2, 9) == []


DOCUMENTS: list[Any] = [
    "",
    "[]",
    "{",
    '{"it": {"$time": "now"}}',
    '{"it": {"$map": [1]}}',
    "00000000{}",
    "[" * 100_000,
    pickle.dumps(Path("x")),
]


def test_a_hostile_document_is_refused(database: tuple[Any, Spoil]) -> None:
    url, spoil = database
    documents = DocumentStore(url)
    documents.put("t", "agent", "A", {"n": 1}, name="a")
    for body in DOCUMENTS:
        spoil("document", body)
        for read in (
            lambda: documents.get("t", "agent", "A"),
            lambda: documents.all("t", "agent"),
            lambda: documents.page_by_name("t", "agent"),
        ):
            with pytest.raises(OrchestratorError, match=r"cannot be read|no mapping|was changed"):
                read()
    documents.put("t", "agent", "A", {"n": 2}, name="a")
    assert documents.all("t", "agent") == [{"n": 2}]
    documents.close()


HOSTILE = ["'; DROP TABLE orchestrator_summary; --", '" OR 1=1 --', "a%_'", "NULL", "", "a\0b", "#"]


def test_names_of_memories_are_bound_and_never_read_as_more(memory: MemoryStore) -> None:
    memory.add("other", build_summary("ana", "s-1", [TOPIC], started=1, now=1))
    for name in HOSTILE:
        memory.add(name, build_summary(name, name, [TOPIC], started=1, now=1))
        memory.touch(name, name, name, 1)
    for name in HOSTILE:
        assert [it.session_id for it in memory.recent(name, name, 1, 9)] == [name]
        assert memory.find_unsummarised(name, 2, name) == [name]
        memory.delete(name, name, name)
        memory.settle(name, name)
    assert [it.owner for it in memory.memories(1)] == ["other"]  # type: ignore[attr-defined]
