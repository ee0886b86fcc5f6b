"""Attack 18: whoever writes a store without its key moves, swaps or spoils encrypted records."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stored_rows import write_checksums

from orchestrator.errors import EncryptionError, OrchestratorError
from orchestrator.memory import EncryptedMemory, SqliteMemory, build_summary
from orchestrator.memory.stores import write_checksums as write_memory_checksums
from orchestrator.server.document_store import DocumentStore
from orchestrator.server.operations import Caller, Request
from orchestrator.sessions import EncryptedStore, SQLiteStore
from orchestrator.support.encryption import Cipher
from orchestrator.support.encryption.key_sources import GivenKey

CIPHER = Cipher([GivenKey(b"k" * 32)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.sqlite"


@pytest.fixture
def store(file: Path) -> Iterator[EncryptedStore]:
    made = EncryptedStore(SQLiteStore(file), CIPHER)
    for key in ("victim", "attacker"):
        records = [{"kind": "closed", "reason": f"{key} {n}", "at": n} for n in range(3)]
        made.append(key, 0, records, label=f"a/b/{key}", at=1)
    yield made
    made.close()


# The victim's session has the id 1, the attacker's 2.
MOVES = {
    "a record of another session": "UPDATE journal SET record = (SELECT record FROM journal "
    "WHERE place = (2 << 32) + 1) WHERE place = (1 << 32) + 1",
    "two records swapped": "UPDATE journal SET place = 7 WHERE place = 1 << 32; "
    "UPDATE journal SET place = 1 << 32 WHERE place = (1 << 32) + 1; "
    "UPDATE journal SET place = (1 << 32) + 1 WHERE place = 7",
    "a record cut out, the rest moved up": "DELETE FROM journal WHERE place = 1 << 32; "
    "UPDATE journal SET place = place - 1 WHERE place >> 32 = 1",
    "a record twice": "UPDATE journal SET record = (SELECT record FROM journal "
    "WHERE place = (1 << 32) + 2) WHERE place = (1 << 32) + 1",
    "a whole session under another key": "DELETE FROM session WHERE key = 'victim'; "
    "UPDATE session SET key = 'victim' WHERE key = 'attacker'",
    "all records of another session": "DELETE FROM journal WHERE place >> 32 = 1; "
    "UPDATE journal SET place = place - (1 << 32)",
}


@pytest.mark.parametrize("name", MOVES)
def test_a_record_that_was_moved_is_refused(name: str, file: Path, store: EncryptedStore) -> None:
    with sqlite3.connect(file) as db:
        db.executescript(MOVES[name])
        write_checksums(db)
    db.close()
    with pytest.raises(EncryptionError, match="changed, cut or moved"):
        store.load("victim")


@pytest.mark.parametrize(
    "text",
    [
        '{"kind": "sealed"}',
        '{"kind": "sealed", "text": 7}',
        '{"kind": "sealed", "text": "plain"}',
        '{"kind": "sealed", "text": "orchestrator:sealed:1:kms:QUJD:QUJD"}',
        '{"kind": "sealed", "text": "orchestrator:sealed:1:::"}',
        '{"kind": "sealed", "text": "orchestrator:sealed:9999:a:b:c"}',
        '{"kind": "sealed", "text": {"lc": 1}}',
    ],
)
def test_a_forged_envelope_is_never_a_record(text: str, file: Path, store: EncryptedStore) -> None:
    from orchestrator.sessions import Sessions

    key = Sessions(store).key("a/b/forged")
    store.append(key, 0, [{"kind": "closed", "reason": "ended", "at": 1}], label="a/b/forged", at=1)
    with sqlite3.connect(file) as db:
        db.execute("UPDATE journal SET record = ? WHERE place >> 32 = 3", (text,))
        write_checksums(db)
    db.close()
    with pytest.raises(OrchestratorError):
        Sessions(store).peek("a/b/forged")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE summary SET owner = 'b/x' WHERE owner = 'a/x'",
        "UPDATE summary SET memory_id = 'bob' WHERE owner = 'a/x'",
        "UPDATE summary SET session_id = 's-9' WHERE owner = 'a/x'",
        "UPDATE summary SET started = 2 WHERE owner = 'a/x'",
        "UPDATE summary SET expires = NULL WHERE owner = 'a/x'",
    ],
)
def test_a_summary_that_was_moved_is_refused(change: str, file: Path) -> None:
    inner = SqliteMemory(file)
    memory = EncryptedMemory(inner, CIPHER)
    topics = [{"topic": "T", "summary": "S"}]
    memory.add("a/x", build_summary("ana", "s-1", topics, started=1, now=1))
    with sqlite3.connect(file) as db:
        db.execute(change)
        write_memory_checksums(db)
    db.close()
    refused = 0
    for info in memory.memories(2):
        with pytest.raises(EncryptionError, match="changed, cut or moved"):
            memory.recent(info.owner, info.memory_id, 2, 9)
        refused += 1
    assert refused == 1
    inner.close()


@pytest.mark.parametrize("column", ["tenant", "kind", "parent", "id"])
def test_a_document_of_another_tenant_is_not_read_as_ones_own(column: str, file: Path) -> None:
    documents = DocumentStore(file, cipher=CIPHER)
    documents.put("victim", "agent", "A", {"secret": "canary"}, "P", name="n")
    assert b"canary" not in file.read_bytes() + Path(f"{file}-wal").read_bytes()
    moved: dict[str, Any] = {"tenant": "victim", "kind": "agent", "parent": "P", "id": "A"}
    moved[column] = "attacker"
    with sqlite3.connect(file) as db:
        db.execute(f"UPDATE document SET {column} = 'attacker'")
    db.close()
    one = moved["tenant"], moved["kind"], moved["id"], moved["parent"]
    listed = moved["tenant"], moved["kind"], moved["parent"]
    for read in (
        lambda: documents.get(*one),
        lambda: documents.all(*listed),
        lambda: documents.page(*listed),
        lambda: documents.page_by_name(*listed),
    ):
        with pytest.raises(EncryptionError, match="changed, cut or moved"):
            read()
    documents.close()


def test_an_answer_to_another_token_is_not_given(file: Path) -> None:
    documents = DocumentStore(file, cipher=CIPHER)

    def ask(token: str, tenant: str = "t") -> Any:
        params = {"clientToken": token, "name": "n"}
        request = Request("bedrock-agent", "CreateAgent", params, Caller(tenant=tenant))
        return documents.run_once(request, lambda: {"answer": f"canary {tenant}"})

    assert ask("x") == ask("x") == {"answer": "canary t"}
    with sqlite3.connect(file) as db:
        db.execute("UPDATE token SET tenant = 'u'")
    db.close()
    with pytest.raises(EncryptionError, match="changed, cut or moved"):
        ask("x", "u")
    documents.close()
    plain = DocumentStore(file)
    with pytest.raises(EncryptionError, match="is encrypted: set"):
        plain.run_once(
            Request(
                "bedrock-agent",
                "CreateAgent",
                {"clientToken": "x", "name": "n"},
                Caller(tenant="u"),
            ),
            dict,
        )
    plain.close()
