"""Checksums of journals: what was lost, swapped or changed shows; older files get them."""

from __future__ import annotations

import json
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orchestrator import DependencyFailed, SessionConflict, SQLiteStore
from orchestrator.sessions.journal import leaves_turn_open
from orchestrator.sessions.rows import sum_entry, sum_record

JOURNAL = json.loads((Path(__file__).parent / "journals" / "v1.json").read_text())
RECORDS: list[dict[str, Any]] = next(
    one["records"] for one in JOURNAL.values() if len(one["records"]) > 4
)
KEY, LABEL = "0123456789abcdef" * 4, "agent/alias/s-1"

# Files of a program that wrote no checksums.
VERSION_1 = """
CREATE TABLE session (
    key TEXT PRIMARY KEY, label TEXT NOT NULL, updated INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE journal (
    key TEXT NOT NULL, place INTEGER NOT NULL, record TEXT NOT NULL, PRIMARY KEY (key, place)
) WITHOUT ROWID;
PRAGMA application_id = 1111577413;
PRAGMA user_version = 1;
"""

CHANGES = {
    "a changed record": "UPDATE journal SET record = replace(record, 'a', 'b') "
    "WHERE place & 255 = 1",
    "a changed last record": "UPDATE journal SET record = record || ' ' WHERE place & 255 = :last",
    "a lost record": "DELETE FROM journal WHERE place & 255 = 1",
    "a lost last record": "DELETE FROM journal WHERE place & 255 = :last",
    "no records": "DELETE FROM journal",
    "swapped records": "UPDATE journal SET record = (SELECT record FROM journal AS other "
    "WHERE other.place = (2 << 32) + 3 - journal.place) WHERE place & 255 IN (1, 2)",
    "another label": "UPDATE session SET label = 'agent/alias/s-2'",
    "another count": "UPDATE session SET records = records - 1",
    "another session": "UPDATE journal SET place = place + (1 << 32) WHERE place & 255 = :last",
    "another time": "UPDATE session SET updated = updated + 1",
    "texts for numbers": "UPDATE session SET records = 'many'",
    "no text": "UPDATE journal SET record = CAST(x'7bff7d' AS TEXT) WHERE place & 255 = 1",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with closing(SQLiteStore(tmp_path / "s.db")) as store:
        store.append(KEY, 0, RECORDS[:2], label=LABEL, at=7)
        store.append(KEY, 2, RECORDS[2:], label="", at=8)
    return tmp_path / "s.db"


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        assert db.execute(statement, {"last": len(RECORDS) - 1}).rowcount


@pytest.mark.parametrize(
    "damaged",
    ["record || ' '", "CAST(x'7bff7d' AS TEXT)", "''", "1"],
    ids=["changed", "no text", "empty", "number"],
)
def test_of_many_last_records_a_damaged_one_is_left_out(damaged: str, file: Path) -> None:
    other = KEY[::-1]
    with closing(SQLiteStore(file)) as store:
        store.append(other, 0, RECORDS, label="agent/alias/s-2", at=9)
        listed = list(store.list())
        assert store.load_last(listed) == {KEY: RECORDS[-1], other: RECORDS[-1]}
        change(file, f"UPDATE journal SET record = {damaged} WHERE place = (1 << 32) + :last")
        assert store.load_last(listed) == {other: RECORDS[-1]}


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_changed_is_a_typed_error_with_the_file_and_the_way_out(
    name: str, file: Path
) -> None:
    change(file, CHANGES[name])
    last = len(RECORDS) - 1
    with closing(SQLiteStore(file)) as store:
        with pytest.raises(DependencyFailed, match="damaged") as read:
            store.load(KEY)
        assert str(file) in read.value.message
        assert re.search("delete the session|move it away", read.value.message)
        if name == "a changed last record":
            with pytest.raises(DependencyFailed, match="damaged"):
                store.load(KEY, last)  # what a process asks that knows the session
        store.delete(KEY)
        assert store.load(KEY) == []


def test_an_entry_that_has_lost_its_key_is_named(file: Path) -> None:
    # The table with row ids stands for overwritten bytes: SQLite stores no such key in ours.
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("DROP TABLE session")
        db.execute("CREATE TABLE session (key, label, updated, records, sum)")
        db.execute("INSERT INTO session VALUES (NULL, ?, 7, 1, 1)", (LABEL,))
    with closing(SQLiteStore(file)) as store:
        for read in (store.list, lambda: store.labels("agent/alias/", "", 9)):
            with pytest.raises(DependencyFailed, match=r"the key None\.\.\., .* was changed"):
                list(read())


def test_records_whose_entry_is_gone_are_in_no_session(file: Path) -> None:
    change(file, "DELETE FROM session")
    with closing(SQLiteStore(file)) as store:
        assert store.load(KEY) == []
        with pytest.raises(SessionConflict, match="changed by another invocation"):
            store.append(KEY, len(RECORDS), RECORDS[:1], label=LABEL, at=9)
        for key in (KEY, KEY[::-1]):  # neither has the number of the one that is gone
            store.append(key, 0, RECORDS[:1], label=LABEL, at=9)
            assert store.load(key) == RECORDS[:1]


def test_a_session_that_begins_is_never_taken_for_a_damaged_one(file: Path) -> None:
    with closing(SQLiteStore(file)) as writer, closing(SQLiteStore(file)) as reader:
        keys = [f"{number:064x}" for number in range(300)]

        def begin_all() -> None:
            for key in keys:
                writer.append(key, 0, RECORDS[:1], label=LABEL, at=9)

        with ThreadPoolExecutor(1) as threads:
            begun = threads.submit(begin_all)
            while not begun.done():
                for key in keys:
                    assert reader.load(key) in ([], RECORDS[:1])
            begun.result()


def test_a_journal_that_another_process_has_added_to_is_a_conflict(file: Path) -> None:
    with closing(SQLiteStore(file)) as store:
        with pytest.raises(SessionConflict, match="changed by another invocation"):
            store.append(KEY, 2, RECORDS[:1], label=LABEL, at=9)


def test_a_file_without_checksums_gets_them(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    with closing(sqlite3.connect(file)) as db, db:
        db.executescript(VERSION_1)
        db.execute("INSERT INTO session VALUES (?, ?, ?)", (KEY, LABEL, 7))
        rows = [(KEY, place, json.dumps(one)) for place, one in enumerate(RECORDS[:-1])]
        db.executemany("INSERT INTO journal VALUES (?, ?, ?)", rows)
    with closing(SQLiteStore(file)) as store, closing(SQLiteStore(file)) as second:
        assert store.load(KEY) == second.load(KEY) == RECORDS[:-1]
        second.append(KEY, len(RECORDS) - 1, RECORDS[-1:], label=LABEL, at=8)
        assert store.load(KEY) == RECORDS
        (info,) = store.list()
        assert (info.label, info.records, info.updated) == (LABEL, len(RECORDS), 8)
    change(file, CHANGES["a changed record"])
    with closing(SQLiteStore(file)) as store, pytest.raises(DependencyFailed, match="damaged"):
        store.load(KEY)


VERSION_3 = """
CREATE TABLE session (
    key TEXT PRIMARY KEY, label TEXT NOT NULL, updated INTEGER NOT NULL,
    records INTEGER NOT NULL, sum INTEGER NOT NULL, unfinished INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE journal (
    key TEXT NOT NULL, place INTEGER NOT NULL, record TEXT NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (key, place)
) WITHOUT ROWID;
PRAGMA application_id = 1111577413;
PRAGMA user_version = 3;
"""


def write_version_3(file: Path, sessions: dict[str, list[dict[str, Any]]]) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.executescript(VERSION_3)
        for at, (key, records) in enumerate(sessions.items()):
            texts = [json.dumps(one) for one in records]
            label = f"agent/alias/s-{at}"
            total = sum_entry(key, label, at, len(texts))
            entry = (key, label, at, len(texts), total, leaves_turn_open(records))
            db.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)", entry)
            rows = [(key, n, it, sum_record(key, n, it)) for n, it in enumerate(texts)]
            db.executemany("INSERT INTO journal VALUES (?, ?, ?, ?)", rows)


def test_sessions_of_a_file_with_keys_for_places_go_on(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    sessions = {key * 64: RECORDS[: n + 1] for n, key in enumerate("fa1")}
    write_version_3(file, sessions)
    with closing(SQLiteStore(file)) as store, closing(SQLiteStore(file)) as second:
        assert {key: second.load(key) for key in sessions} == sessions
        assert [one.label for one in store.list()] == [f"agent/alias/s-{n}" for n in (2, 1, 0)]
        open_keys = {key for key, records in sessions.items() if leaves_turn_open(records)}
        assert {one.key for one in store.list_unfinished()} == open_keys
        for key, records in sessions.items():
            store.append(key, len(records), RECORDS[-1:], at=9)
            assert second.load(key) == [*records, RECORDS[-1]]


def test_what_was_damaged_in_such_a_file_is_told_of_that_session_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "s.db"
    write_version_3(file, {key * 64: RECORDS for key in "abcdef"})
    damages = (
        "DELETE FROM journal WHERE key LIKE 'a%' AND place = 1",
        "UPDATE journal SET place = 1 << 32 WHERE key LIKE 'b%' AND place = 1",
        "UPDATE journal SET place = 'first' WHERE key LIKE 'c%' AND place = 0",
        "UPDATE journal SET record = '7' WHERE key LIKE 'd%' AND place = 0",
        "DELETE FROM session WHERE key LIKE 'e%'",
    )
    for damage in damages:
        change(file, damage)
    with closing(SQLiteStore(file)) as store:
        for key in "abcd":
            with pytest.raises(DependencyFailed, match="damaged"):
                store.load(key * 64)
        assert store.load("e" * 64) == []
        assert store.load("f" * 64) == RECORDS
    assert "1 damaged sessions without an entry are not in the new layout" in caplog.text
