"""A session, or a summary, that is new under its key is left alone by whoever knows the old one."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import Any

import psycopg
import pytest

from orchestrator import SessionConflict
from orchestrator.memory import EncryptedMemory, build_summary
from orchestrator.memory.urls import open_memory
from orchestrator.sessions import EncryptedStore
from orchestrator.sessions.open_store import open_store
from orchestrator.support.dynamodb import DynamoTable
from orchestrator.support.encryption import Cipher
from orchestrator.support.encryption.key_sources import GivenKey

KEY = sha256(b"a/b/s-1").hexdigest()
OLD, NEW = (GivenKey(bytes([byte]) * 32) for byte in (1, 2))
BOTH = Cipher([NEW, OLD])
LONG = {"kind": "model", "text": "x" * 400_000}


@pytest.fixture(params=["sqlite", "postgres", "dynamodb"])
def where(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    if request.param == "sqlite":
        return tmp_path / "s.sqlite"
    return request.getfixturevalue(f"{request.param}_url")


class Meanwhile:
    """A store in which something happens whenever somebody has read from it."""

    def __init__(self, store: Any, reading: str, happen: Any) -> None:
        self._store, self._reading, self._happen = store, reading, happen

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name != self._reading:
            return found

        def read(*arguments: Any) -> Any:
            answer = found(*arguments)
            self._happen()
            return answer

        return read


def test_rotation_does_not_bring_a_deleted_session_back(where: Any) -> None:
    store: Any = open_store(where)
    old = EncryptedStore(store, Cipher([OLD]))
    old.append(KEY, 0, [{"kind": "turn", "question": "old"}], label="a/b/s-1", at=1)
    new = [{"kind": "turn", "question": "new"}, LONG]

    def begin_anew() -> None:
        store.delete(KEY)
        old.append(KEY, 0, new, label="a/b/s-1", at=2)

    meanwhile: Any = Meanwhile(store, "load", begin_anew)
    assert EncryptedStore(meanwhile, BOTH).rotate(KEY) == 0
    assert EncryptedStore(store, BOTH).load(KEY) == new
    assert EncryptedStore(store, BOTH).rotate(KEY) == 2
    assert EncryptedStore(store, Cipher([NEW])).load(KEY) == new
    store.close()


def test_rotation_does_not_bring_an_older_summary_back(where: Any) -> None:
    store: Any = open_memory(where)
    old = EncryptedMemory(store, Cipher([OLD]))

    def add(text: str) -> None:
        topics = [{"topic": "t", "summary": text}]
        old.add("a/b", build_summary("ana", "s-1", topics, started=len(text), now=1 << 61))

    add("first")
    meanwhile: Any = Meanwhile(store, "recent", lambda: add("second"))
    assert EncryptedMemory(meanwhile, BOTH).rotate("a/b", "ana", 0) == 0
    assert EncryptedMemory(store, BOTH).rotate("a/b", "ana", 0) == 1
    (summary,) = EncryptedMemory(store, Cipher([NEW])).recent("a/b", "ana", 0, 9)
    assert summary.topics == [{"topic": "t", "summary": "second"}]
    store.close()


@pytest.mark.parametrize("calls", [1, 2, 3, 4])
def test_deletion_in_dynamodb_leaves_the_session_that_begins_meanwhile(
    dynamodb_url: str, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    store: Any = open_store(dynamodb_url)
    store.append(KEY, 0, [{"kind": "turn"}, LONG], label="a/b/s-1", at=1)
    call, new, begun, count = DynamoTable.call, [{"kind": "turn", "id": "new"}, LONG], [], [0]

    def begin_after(table: DynamoTable, operation: str, **request: Any) -> Any:
        answer = call(table, operation, **request)
        count[0] += 1
        if count[0] == calls:
            with suppress(SessionConflict):
                store.append(KEY, 0, new, label="a/b/s-1", at=2)
                begun.append(True)
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(DynamoTable, "call", begin_after)
        store.delete(KEY)
    assert count[0] >= calls and bool(begun) == (calls > 1)
    assert store.load(KEY) == (new if begun else [])
    store.delete(KEY)
    table = DynamoTable(store.url, "the table")
    assert list(table.query("pk = :pk", {"pk": f"session#{KEY}"})) == []
    store.close()


def test_deletion_in_postgresql_leaves_the_session_that_begins_meanwhile(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = (open_store(postgres_url) for _ in range(2))
    execute, new = psycopg.Connection.execute, [{"kind": "turn", "id": "new"}]

    def begin_after(db: Any, statement: Any, *values: Any, **options: Any) -> Any:
        cursor = execute(db, statement, *values, **options)
        if "orchestrator_session WHERE key" in str(statement):
            monkeypatch.undo()  # this once, as somebody else has deleted the session before
            other.append(KEY, 0, new, label="a/b/s-1", at=2)
        return cursor

    monkeypatch.setattr(psycopg.Connection, "execute", begin_after)
    store.delete(KEY)
    assert other.load(KEY) == new
    assert [it.records for it in other.list()] == [1]
    other.delete(KEY)
    assert store.load(KEY) == []
    for it in (store, other):
        it.close()  # type: ignore[attr-defined]


def test_two_processes_go_on_with_a_session_that_one_of_them_began_anew(dynamodb_url: str) -> None:
    one, other = (open_store(dynamodb_url) for _ in range(2))
    one.append(KEY, 0, [{"kind": "turn"}], label="a/b/s-1", at=1)
    other.append(KEY, 1, [{"kind": "end"}], label="a/b/s-1", at=2)
    other.delete(KEY)
    other.append(KEY, 0, [{"kind": "turn", "id": "2"}], label="a/b/s-1", at=3)
    with pytest.raises(SessionConflict):  # it knows the first one, which had as many records
        one.append(KEY, 1, [{"kind": "end"}], label="a/b/s-1", at=4)
    one.append(KEY, 1, [{"kind": "end", "id": "2"}], label="a/b/s-1", at=5)
    assert other.load(KEY) == [{"kind": "turn", "id": "2"}, {"kind": "end", "id": "2"}]
    for store in (one, other):
        store.close()  # type: ignore[attr-defined]
