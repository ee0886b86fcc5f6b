"""Both stores keep, expire and forget alike; the file is safe to share."""

from __future__ import annotations

import base64
import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import DependencyFailed
from orchestrator.memory import (
    SessionSummary,
    SqliteMemory,
    build_summary,
    open_memory,
)
from orchestrator.memory.summaries import DAY
from orchestrator.sessions import SQLiteStore
from orchestrator.support.encryption import KEYS

NOW = 1_800_000_000_000_000_000


def summary(session="s-1", memory="ana", at=0, days=30, topic="Orders"):
    topics = [{"topic": topic, "summary": f"Ana asked in {session}."}]
    when = NOW + at * DAY
    return build_summary(memory, session, topics, started=when, now=when, storage_days=days)


@pytest.fixture(params=["memory", "sqlite", "postgres", "dynamodb", "encrypted"])
def store(request, tmp_path, monkeypatch):
    """Every store passes the same tests, and so does one that is encrypted."""
    monkeypatch.delenv(KEYS, raising=False)
    name = {"memory": "memory:"}.get(request.param, tmp_path / "memory.sqlite")
    if request.param in ("postgres", "dynamodb"):
        name = request.getfixturevalue(f"{request.param}_url")
    if request.param == "encrypted":
        monkeypatch.setenv(KEYS, base64.b64encode(bytes(32)).decode())
    made = open_memory(name)
    yield made
    getattr(made, "close", lambda: None)()


def sessions(store, owner="a/x", memory="ana", now=NOW + DAY, limit=20):
    return [it.session_id for it in store.recent(owner, memory, now, limit)]


def test_the_newest_come_first_and_no_more_than_asked_for(store):
    for at, name in enumerate(("s-1", "s-2", "s-3")):
        store.add("a/x", summary(name, at=at - 3))
    assert sessions(store) == ["s-3", "s-2", "s-1"]
    assert sessions(store, limit=2) == ["s-3", "s-2"]
    assert sessions(store, limit=0) == []


def test_what_is_kept_comes_back_whole(store):
    store.add("a/x", kept := summary(topic="Größe 👟"))
    assert store.recent("a/x", "ana", NOW, 1) == [kept]


def test_a_session_is_remembered_once(store):
    store.add("a/x", summary(topic="Old"))
    store.add("a/x", summary(topic="New"))
    (kept,) = store.recent("a/x", "ana", NOW, 9)
    assert kept.topics[0]["topic"] == "New"


def test_what_has_expired_is_not_told(store):
    store.add("a/x", summary("s-1", days=1))
    store.add("a/x", SessionSummary("ana", "s-2", NOW - 1, None, [], "for ever"))
    assert sessions(store, now=NOW + DAY - 1) == ["s-1", "s-2"]
    assert sessions(store, now=NOW + DAY) == ["s-2"]
    store.add("a/x", summary("s-0", days=0))
    assert sessions(store, now=NOW) == ["s-1", "s-2"]


def test_nobody_sees_anothers(store):
    for owner, memory in (("a/x", "ana"), ("a/y", "ana"), ("b/x", "ana"), ("a/x", "bob")):
        store.add(owner, summary(f"s-{owner}-{memory}".replace("/", "."), memory))
    assert sessions(store) == ["s-a.x-ana"]
    assert sessions(store, "a/y") == ["s-a.y-ana"]
    store.delete("a/x", "ana")
    assert sessions(store) == [] and sessions(store, "b/x") == ["s-b.x-ana"]
    assert sessions(store, memory="bob") == ["s-a.x-bob"]


def test_forgetting_a_session_a_memory_and_all(store):
    for memory in ("ana", "bob"):
        for name in ("s-1", "s-2"):
            store.add("a/x", summary(name, memory))
    store.delete("a/x", "ana", "s-1")
    assert sessions(store) == ["s-2"]
    store.delete("a/x", None, "s-2")
    assert sessions(store) == [] and sessions(store, memory="bob") == ["s-1"]
    store.delete("a/x", "nobody")
    store.delete("a/x")
    assert store.memories(NOW) == []


def test_the_memories_of_a_store(store):
    store.add("a/x", summary("s-1", "ana", at=-2))
    store.add("a/x", summary("s-2", "ana", at=-1))
    store.add("b/x", summary("s-3", "bob", at=0))
    store.add("c/x", summary("s-4", "old", at=-9, days=1))
    assert [tuple(it) for it in store.memories(NOW)] == [
        ("b/x", "bob", 1, NOW),
        ("a/x", "ana", 2, NOW - DAY),
    ]


@given(st.text(), st.text(min_size=1), st.text())
def test_any_text_can_be_remembered(topic, said, text):
    made = build_summary(
        "m-1", "s-1", [{"topic": topic, "summary": said}], started=1, now=1, text=text
    )
    store = SqliteMemory(":memory:")
    store.add("a/x", made)
    assert store.recent("a/x", "m-1", 1, 1) == [made]
    store.close()


def test_halves_of_surrogate_pairs_are_no_failure(store):
    store.add("a/x", build_summary("m-1", "s-1", [], started=1, now=1, text="a\ud800b"))
    (kept,) = store.recent("a/x", "m-1", 1, 1)
    assert kept.text.startswith("a") and kept.text.endswith("b")


def test_the_file_outlives_the_process_and_is_shared(tmp_path):
    one, two = (SqliteMemory(tmp_path / "m.sqlite") for _ in range(2))
    one.add("a/x", summary())
    assert sessions(two) == ["s-1"]
    one.close()
    two.close()
    three = SqliteMemory(tmp_path / "m.sqlite")
    assert sessions(three) == ["s-1"]
    three.close()


def test_many_threads_and_openers_at_once(tmp_path):
    failures = []

    def work(number):
        try:
            store = SqliteMemory(tmp_path / "m.sqlite")
            for count in range(10):
                store.add("a/x", summary(f"s-{number}-{count}"))
            store.close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    store = SqliteMemory(tmp_path / "m.sqlite")
    assert len(sessions(store, limit=100)) == 80
    store.close()


def test_what_has_expired_leaves_the_file(tmp_path):
    store = SqliteMemory(tmp_path / "m.sqlite")
    store.add("a/x", summary("s-1", days=1))
    store.add("a/x", summary("s-2", at=2))
    with sqlite3.connect(tmp_path / "m.sqlite") as db:
        assert db.execute("SELECT session_id FROM summary").fetchall() == [("s-2",)]
    db.close()
    store.close()


def test_a_file_of_a_newer_version_is_refused(tmp_path):
    SqliteMemory(tmp_path / "m.sqlite").close()
    with sqlite3.connect(tmp_path / "m.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(DependencyFailed, match="update the program"):
        SqliteMemory(tmp_path / "m.sqlite")


def test_a_file_for_something_else_is_refused_and_left_alone(tmp_path):
    SQLiteStore(tmp_path / "sessions.sqlite").close()
    with pytest.raises(DependencyFailed, match="is a file for something else"):
        SqliteMemory(tmp_path / "sessions.sqlite")
    (tmp_path / "text").write_text("no database " * 1000)
    with pytest.raises(DependencyFailed, match="cannot be opened"):
        SqliteMemory(tmp_path / "text")
    assert (tmp_path / "text").read_text().startswith("no database")
    with pytest.raises(DependencyFailed, match="check that its folder exists"):
        SqliteMemory(tmp_path / "nowhere" / "m.sqlite")


def test_a_failing_file_is_a_typed_error(tmp_path):
    store = SqliteMemory(tmp_path / "m.sqlite")
    with sqlite3.connect(tmp_path / "m.sqlite") as db:
        db.execute("DROP TABLE summary")
    db.close()
    for call in (
        lambda: store.add("a", summary()),
        lambda: sessions(store),
        lambda: store.delete("a"),
    ):
        with pytest.raises(DependencyFailed, match=r"m\.sqlite' failed"):
            call()
    store.close()


def test_a_summary_that_was_changed_is_a_typed_error_and_older_files_get_checksums(
    tmp_path: Path,
) -> None:
    file = tmp_path / "m.db"
    store = SqliteMemory(file)
    for session in ("s-1", "s-2"):
        topics = [{"topic": "T", "summary": "Ana likes tea."}]
        store.add("a/x", build_summary("ana", session, topics, started=1, now=1))
    store.close()
    with sqlite3.connect(file) as db:
        db.execute("ALTER TABLE summary DROP COLUMN sum")  # as version 1 was
        db.execute("PRAGMA user_version = 1")
    db.close()
    store = SqliteMemory(file)
    assert len(store.recent("a/x", "ana", 2, 9)) == 2
    store.close()
    with sqlite3.connect(file) as db:
        db.execute("UPDATE summary SET text = replace(text, 'tea', 'gin'), "
                   "topics = replace(topics, 'tea', 'gin') WHERE session_id = 's-1'")  # fmt: skip
    db.close()
    store = SqliteMemory(file)
    with pytest.raises(DependencyFailed, match=r"m\.db' is damaged.*'s-1' was changed; delete it"):
        store.recent("a/x", "ana", 2, 9)
    store.delete("a/x", "ana", "s-1")
    assert len(store.recent("a/x", "ana", 2, 9)) == 1
    store.close()
