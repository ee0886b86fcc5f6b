"""Session ids, the SQLite file, and journals that somebody else has written to."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import string
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from engine_turns import roc_agent
from hypothesis import given
from hypothesis import strategies as st
from stored_rows import append_rows
from whole_agents import NATIVE, Calls, agent, answer, texts_of

from orchestrator import (
    Agent,
    DependencyFailed,
    OrchestratorError,
    SessionConflict,
    Sessions,
    SQLiteStore,
    ValidationError,
)
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.models.base import Usage
from orchestrator.sessions.journal import Record
from orchestrator.testing import FakeClock, InMemoryStore

QUESTIONS = ["", "Days?", "Next?"]
EVERY_CHARACTER = string.ascii_letters + string.digits + "._:-"


NO_IDS = ["../..", "a/b", "a", "", "a" * 101, "a b", "ä" * 3, "a\n", "a\x00b", 7, b"ab"]


@pytest.mark.parametrize("session_id", NO_IDS)
def test_what_is_no_session_id(session_id: Any, tmp_path: Path) -> None:
    model = NATIVE.model([answer("Never.")])
    asked = agent(model, sessions=tmp_path / "s.db")
    for attempt in (asked.end_session, lambda id: asked.invoke("Hello?", id)):
        with pytest.raises(ValidationError, match="2 to 100 characters"):
            attempt(session_id)
    assert model.requests == []
    assert list(asked.sessions.store.list()) == []


@pytest.mark.parametrize(
    "session_id", [EVERY_CHARACTER[:64], EVERY_CHARACTER[-4:], "..", "a" * 100, "A-1", "a-1"]
)
def test_what_is_a_session_id(session_id: str, tmp_path: Path) -> None:
    model = NATIVE.model([answer("One."), answer("Two.")])
    asked = agent(model, sessions=tmp_path / "s.db")
    assert asked.invoke("First?", session_id).session_id == session_id
    asked.invoke("Second?", session_id)
    assert "First?" in texts_of(model.requests[1])
    # No id becomes a file, also not `..`.
    assert {file.name.partition("-")[0] for file in tmp_path.iterdir()} == {"s.db"}


def test_ids_that_differ_are_different_sessions(tmp_path: Path) -> None:
    ids = ["aa", "AA", "a.", "a:", "a-", "a_", "..", ".:"]
    model = NATIVE.model([answer("Hello.")] * len(ids))
    asked = agent(model, sessions=tmp_path / "s.db")
    for session_id in ids:
        asked.invoke(f"I am {session_id}", session_id)
    assert all(len(request.messages) == 1 for request in model.requests)


def test_without_an_id_every_question_has_a_session_of_its_own() -> None:
    model = NATIVE.model([answer("Hello.")] * 2)
    asked = agent(model)
    first, second = asked.invoke("First?"), asked.invoke("Second?")
    assert first.session_id != second.session_id
    assert len(model.requests[1].messages) == 1


@pytest.mark.parametrize("question", ["", "   ", "\n"])
def test_an_empty_question_is_refused(question: str) -> None:
    model = NATIVE.model([answer("Never.")])
    with pytest.raises(ValidationError, match="the question is empty"):
        agent(model).invoke(question, "s-1")
    assert model.requests == []


@pytest.mark.parametrize("question", [None, 5, b"Hello?", ["Hello?"]])
def test_a_question_is_a_text(question: Any) -> None:
    with pytest.raises(ValidationError, match="must be a text"):
        agent(NATIVE.model([])).invoke(question, "s-1")


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(TypeError, match="session_atributes"):
        agent(NATIVE.model([])).invoke("Hello?", "s-1", session_atributes={})  # type: ignore[call-arg]


def test_ending_a_session_that_never_was_is_no_error() -> None:
    store = InMemoryStore()
    agent(NATIVE.model([]), sessions=store).end_session("s-1")
    assert list(store.list()) == []


# The file.


def nowhere(folder: Path) -> Path:
    return folder / "no" / "such" / "folder" / "s.db"


def a_folder(folder: Path) -> Path:
    return folder


def not_a_database(folder: Path) -> Path:
    (folder / "s.db").write_text("This is my diary, and no database at all. " * 50)
    return folder / "s.db"


@pytest.mark.parametrize("place", [nowhere, a_folder, not_a_database])
def test_a_file_that_cannot_be_opened(place: Any, tmp_path: Path) -> None:
    path = place(tmp_path)
    with pytest.raises(DependencyFailed, match="cannot be opened") as failed:
        agent(NATIVE.model([]), sessions=path)
    assert failed.value.resource == str(path)


def test_a_file_of_a_newer_layout_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    SQLiteStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    before = path.read_bytes()
    with pytest.raises(DependencyFailed, match="layout 99, newer than this program's 4"):
        SQLiteStore(path)
    assert path.read_bytes() == before


def test_a_file_for_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE diary (day TEXT)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(DependencyFailed, match="is a file for something else; choose another one"):
        SQLiteStore(path)
    assert path.read_bytes() == before


def test_a_closed_file_is_a_typed_error(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "s.db")
    asked = agent(NATIVE.model([answer("Never.")]), sessions=store)
    store.close()
    for attempt in (lambda: asked.invoke("Hello?", "s-1"), lambda: list(store.list())):
        with pytest.raises(DependencyFailed, match="failed"):
            attempt()


def test_a_store_that_fails_in_the_middle_loses_no_session(tmp_path: Path) -> None:
    class Full(SQLiteStore):
        full = False

        def append(self, key: str, expected: int, records: Any, **options: Any) -> None:
            if self.full:
                raise DependencyFailed("the disk is full", resource="disk")
            super().append(key, expected, records, **options)

    def fill(*_: Any) -> None:
        store.full = True

    store = Full(tmp_path / "s.db")
    model = NATIVE.model([answer("Lost."), answer("Kept.")])
    asked = agent(model, sessions=store)
    events = asked.stream("Hello?", "s-1")
    next(events)
    fill()
    with pytest.raises(DependencyFailed, match="the disk is full"):
        list(events)
    store.full = False
    assert asked.invoke("Hello?", "s-1").text == "Kept."
    (info,) = store.list()
    assert [one["kind"] for one in store.load(info.key)] == ["turn", "claim", "model", "end"]


@pytest.mark.parametrize("told", [{"ResponseMetadata": {}}, 1, True, "written"])
def test_what_the_append_of_ones_own_store_returns_is_of_no_account(told: Any) -> None:
    class Own(InMemoryStore):
        durable = True

        def append(self, key: str, expected: int, records: Any, **options: Any) -> Any:
            super().append(key, expected, records, **options)
            return told

    asked = agent(NATIVE.model([answer("One."), answer("Two.")]), sessions=Own())
    assert [asked.invoke(text, "s-1").text for text in ("1?", "2?")] == ["One.", "Two."]


def test_a_deletion_that_fails_leaves_the_store_usable(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "s.db")
    asked = agent(NATIVE.model([answer("One."), answer("Two.")]), sessions=store)
    asked.invoke("Hello?", "s-1")
    with sqlite3.connect(tmp_path / "s.db") as db:
        db.execute(
            "CREATE TRIGGER full BEFORE DELETE ON session BEGIN SELECT RAISE(FAIL, 'full'); END"
        )
    db.close()
    (info,) = store.list()
    with pytest.raises(DependencyFailed, match="failed: full"):
        store.delete(info.key)
    assert store.load(info.key)  # nothing of it is gone
    assert asked.invoke("Hello?", "s-2").text == "Two."
    store.close()


# Journals with something else in them.


def started(path: Path) -> Agent:
    asked = agent(NATIVE.model([answer("Hello.")]), sessions=path)
    asked.invoke("Hello?", "s-1")
    return asked


TURN = {
    "kind": "turn",
    "id": "0c9e7d0a-2f4e-4bb1-9d2c-0a61f7c0a001",
    "at": 1,
    "question": "Hm?",
    "attributes": {},
    "prompt_attributes": {},
}


@pytest.mark.parametrize(
    "row",
    [
        "",
        "{",
        "\x00\x01",
        "nonsense",
        "[" * 100_000,
        "null",
        "5",
        '"turn"',
        "[]",
        "{}",
        '{"kind": "from the future", "at": 1}',
        '{"kind": ["turn"]}',
        '{"kind": "turn"}',
        '{"kind": "end", "at": "yesterday", "result": "answer", "text": "", "stop_reason": ""}',
        json.dumps({**TURN, "attributes": "many"}),
        json.dumps({**TURN, "question": None}),
        '{"kind": "model", "stage": "ORCHESTRATION"}',
        '{"kind": "returned", "invocation_id": "1"}',
    ],
)
def test_a_row_that_is_no_record_is_a_typed_error_every_time(row: str, tmp_path: Path) -> None:
    started(tmp_path / "s.db")
    append_rows(tmp_path / "s.db", [row])
    model = NATIVE.model([answer("Never."), answer("Another.")])
    asked = agent(model, sessions=tmp_path / "s.db")
    for _ in range(2):
        with pytest.raises(DependencyFailed) as failed:
            asked.invoke("Hello?", "s-1")
        assert "session" in failed.value.message
    for attempt in (
        lambda: asked.sessions.peek(f"{asked.plan.agent_id}/TSTALIASID/s-1"),
        lambda: asked.render("ORCHESTRATION", "Hello?", "s-1"),
        lambda: asked.end_session("s-1"),
    ):
        with pytest.raises(DependencyFailed):
            attempt()
    assert model.requests == []
    # Other sessions, and the list of all, are not touched by it.
    assert asked.invoke("Hello?", "s-2").text == "Never."
    assert len(list(asked.sessions.store.list())) == 2


def test_a_row_that_is_no_record_is_seen_by_a_process_that_knows_the_session(
    tmp_path: Path,
) -> None:
    asked = started(tmp_path / "s.db")
    append_rows(tmp_path / "s.db", ["nonsense"])
    with pytest.raises(DependencyFailed, match="not JSON"):
        asked.invoke("Hello?", "s-1")


@pytest.mark.parametrize("owner", ["", "x", "a:b", "host:1", "host:x:1", f"host:{10**30}:1"])
def test_a_strange_owner_holds_its_turn_until_its_lease_ends(owner: str, tmp_path: Path) -> None:
    started(tmp_path / "s.db")
    clock = FakeClock()
    lease = {"owner": owner, "until": clock.now + 10}
    append_rows(tmp_path / "s.db", [json.dumps({**TURN, "at": clock.now, **lease})])
    model = NATIVE.model([answer("Mine.")])
    sessions = Sessions(SQLiteStore(tmp_path / "s.db"), clock=clock)
    asked = agent(model, sessions=sessions)
    with pytest.raises(SessionConflict):
        asked.invoke("Hm?", "s-1")
    clock.now += 10
    assert asked.invoke("Hm?", "s-1").text == "Mine."


def test_a_turn_that_fits_no_longer_is_refused_and_then_given_up(tmp_path: Path) -> None:
    # Its journal goes on with the reply of a stage that this agent does not run.
    started(tmp_path / "s.db")
    reply = {
        "kind": "model",
        "stage": "PRE_PROCESSING",
        "content": [],
        "stop": "end_turn",
        "usage": [1, 1, 0, 0, 1],
        "began": 1,
        "ended": 2,
        "response": {},
    }
    lease = {"owner": "nobody.example:1:1", "until": 1}
    append_rows(tmp_path / "s.db", [json.dumps({**TURN, **lease}), json.dumps(reply)])
    model = NATIVE.model([answer("Anew.")])
    sessions = Sessions(SQLiteStore(tmp_path / "s.db"), clock=FakeClock(3))
    asked = agent(model, sessions=sessions)
    with pytest.raises(SessionConflict, match="another version of this agent"):
        asked.invoke("Hm?", "s-1")
    assert model.requests == []
    assert asked.invoke("Something else?", "s-1").text == "Anew."


def test_what_was_paid_for_is_written_before_more_is_spent(tmp_path: Path) -> None:
    class Looking(Model):
        model_id = NATIVE.model_id

        def complete(self, request: ModelRequest) -> ModelReply:
            found = [store.load(info.key) for info in store.list()]
            seen.append([record["kind"] for records in found for record in records])
            text = script.pop(0)
            return ModelReply([{"text": text}], "end_turn", Usage(1, 1, calls=1))

    seen: list[list[str]] = []
    store = SQLiteStore(tmp_path / "s.db")
    script = ["<category>D</category>", answer("Twelve."), "<final_response>12</final_response>"]
    enabled = {"promptState": "ENABLED"}
    stages = {"PRE_PROCESSING": enabled, "POST_PROCESSING": enabled}
    agent(Looking(), prompts=stages, sessions=store).invoke("Days?", "s-1")
    assert seen == [["turn"], ["turn", "model"], ["turn", "model", "model"]]
    store.close()


class Kept(InMemoryStore):
    """Journals in memory that are taken for another process's."""

    durable = True


class Ends(Model):
    """Answers whatever it is asked."""

    model_id = NATIVE.model_id

    def complete(self, request: ModelRequest) -> ModelReply:
        return ModelReply([{"text": answer("Well.")}], "end_turn", Usage(1, 1, calls=1))


def a_journal() -> list[dict[str, Any]]:
    """The journal of a session with a bit of everything, its last turn still open."""
    store = Kept()
    light = NATIVE.calls(("house::light", {"on": True}))
    days = NATIVE.calls(("vacations::get_days", {"employee": "E-1"}))
    script = [days, light, answer("On."), answer("Hm."), days, answer("Twelve.")]
    asked = roc_agent(NATIVE.model(script), *Calls().groups(), sessions=store)
    control = asked.invoke("Light?", "s-1", conversation_history=[said]).return_control
    assert control is not None
    asked.invoke(session_id="s-1", results=control.answer("on"))
    asked.invoke("Hm?", "s-1")
    asked.invoke("Days?", "s-1")
    (info,) = store.list()
    records: list[dict[str, Any]] = json.loads(json.dumps(store.load(info.key)))
    for record in records:
        if "owner" in record:
            record["owner"], record["until"] = "other.example:1:1", 1
    return records[:-1]


said = {"role": "user", "content": [{"text": "Hello."}]}
JOURNAL = a_journal()
ASKED = roc_agent(Ends(), *Calls().groups())
TIMES = ("at", "began", "ended")
JUNK = st.sampled_from([None, "", "junk", 7, -1, 1.5, True, [], {}, ["junk"], [{}], {"junk": 1}])


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to everything inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from places(inner, (*path, key))


def asked_with(path: Any, junk: Any) -> Agent:
    """The agent whose session has something else at a place of its journal."""
    journal = json.loads(json.dumps(JOURNAL))
    inner = journal
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = junk
    store = Kept()
    ASKED.sessions = Sessions(store)
    label = f"{ASKED.plan.agent_id}/TSTALIASID/s-1"
    store.append(hashlib.sha256(label.encode()).hexdigest(), 0, journal, label=label)
    return ASKED


@given(path=st.sampled_from(list(places(JOURNAL))), junk=JUNK, question=st.sampled_from(QUESTIONS))
def test_junk_anywhere_in_a_journal_is_a_typed_error(path: Any, junk: Any, question: str) -> None:
    with suppress(OrchestratorError):
        assert str(asked_with(path, junk).invoke(question, "s-1").trace)


@pytest.mark.parametrize("time", [-1, 10**21])
@pytest.mark.parametrize("path", [it for it in places(JOURNAL) if it[-1] in TIMES])
def test_a_time_that_no_clock_tells_is_told_with_its_record(path: Any, time: int) -> None:
    place, name = path
    with pytest.raises(DependencyFailed, match=rf"record {place} is a .* proper '{name}'"):
        str(asked_with(path, time).invoke("", "s-1").trace)


# Looking without taking.


def test_peek_shows_a_session_and_changes_nothing(tmp_path: Path) -> None:
    model = NATIVE.model([NATIVE.calls(("house::light", {"on": True}))])
    asked = roc_agent(model, sessions=tmp_path / "s.db")
    control = asked.invoke("Light?", "s-1", session_attributes={"a": "1"}).return_control
    assert control is not None
    label = f"{asked.plan.agent_id}/TSTALIASID/s-1"
    (before,) = asked.sessions.store.list()
    session = asked.sessions.peek(label)
    assert session.attributes == {"a": "1"}
    assert session.open is not None and session.open.suspend_record is not None
    assert session.open.suspend_record["invocation_id"] == control.invocation_id
    assert session.open.start["question"] == "Light?"
    assert (before.label, before.records) == (label, 3)
    assert list(asked.sessions.store.list()) == [before]


def test_peek_shows_nothing_of_a_session_that_never_was() -> None:
    session = Sessions().peek("agent/alias/s-1")
    assert (session.count, session.open, session.history, session.attributes) == (0, None, [], {})


def test_sessions_are_listed_by_their_last_change(tmp_path: Path) -> None:
    clock = FakeClock()
    sessions = Sessions(SQLiteStore(tmp_path / "s.db"), clock=clock)
    asked = agent(NATIVE.model([answer("Hello.")] * 4), sessions=sessions)
    for session_id in ("s-1", "s-2", "s-3", "s-1"):
        clock.advance(1)
        asked.invoke("Hello?", session_id)
    found = [info.label.rpartition("/")[2] for info in sessions.store.list()]
    assert found == ["s-1", "s-3", "s-2"]


def test_only_so_many_sessions_are_kept_decoded(tmp_path: Path) -> None:
    sessions = Sessions(SQLiteStore(tmp_path / "s.db"), cached=3)
    model = NATIVE.model([answer("Hello.")] * 12)
    asked = agent(model, sessions=sessions)
    for turn in range(2):
        for n in range(6):
            asked.invoke(f"Turn {turn} of {n}", f"s-{n}")
    assert len(sessions._cache._sessions) <= 3
    for n in range(6):
        assert f"Turn 0 of {n}" in texts_of(model.requests[6 + n])


class CountingStore(SQLiteStore):
    """Counts how often a whole journal is read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.whole: list[str] = []

    def load(self, key: str, after: int = 0) -> list[Record]:
        found = super().load(key, after)
        if not after and found:
            self.whole.append(key)
        return found


def test_only_so_many_bytes_of_sessions_are_kept_decoded(tmp_path: Path) -> None:
    store = CountingStore(tmp_path / "s.db")
    sessions = Sessions(store, cached_bytes=250_000)
    model = NATIVE.model([answer("Hello.")] * 20)
    asked = agent(model, sessions=sessions)
    for n in range(4):
        asked.invoke(f"{n}" * 100_000, f"s-{n}")
    assert store.whole == []
    asked.invoke("Again?", "s-3")
    asked.invoke("Again?", "s-2")
    assert store.whole == []  # the last two were kept
    for n in (0, 1, 3):
        asked.invoke("Again?", f"s-{n}")
    assert len(store.whole) == len(set(store.whole)) == 3
    assert [texts_of(it).count("0" * 100_000) for it in model.requests[6:]] == [1, 0, 0]


def test_a_session_that_is_too_large_to_be_kept(tmp_path: Path) -> None:
    store = CountingStore(tmp_path / "s.db")
    asked = agent(
        NATIVE.model([answer("Hello.")] * 4), sessions=Sessions(store, cached_bytes=150_000)
    )
    asked.invoke("Hello?", "s-1")
    for _ in range(2):
        asked.invoke("x" * 100_000, "s-2")
    assert store.whole == []
    asked.end_session("s-2")
    assert len(store.whole) == 1  # the small one is read again no sooner than it is used
    asked.invoke("Hello?", "s-1")
    assert len(store.whole) == 2


def test_a_stream_may_be_closed_by_the_collector_while_its_thread_takes_a_session(
    tmp_path: Path,
) -> None:
    asked = agent(NATIVE.model([answer("Hello.")] * 2), sessions=SQLiteStore(tmp_path / "s.db"))
    events = asked.stream("Hello?", "s-1")
    next(events)

    def close() -> None:
        with asked.sessions._cache.lock:  # as while a session is made; the collector may come then
            events.close()

    thread = Thread(target=close, daemon=True)  # without the mend it waits for itself, for ever
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert asked.invoke("And?", "s-1").text == "Hello."


def test_sessions_in_memory_are_not_freed_for_their_size() -> None:
    model = NATIVE.model([answer("Hello.")] * 2)
    asked = agent(model, sessions=Sessions(cached_bytes=0))
    asked.invoke("First?", "s-1")
    asked.invoke("Second?", "s-1")
    assert "First?" in texts_of(model.requests[1])


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), "\ud800", "\x00", "\\ud800", "日本 🙂", 10**30, 0.1, '"],["', "'"],
)
def test_a_file_keeps_every_value_as_it_is(value: Any, tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "s.sqlite")
    deep: Any = value
    for _ in range(400):
        deep = [deep] if isinstance(deep, dict) else {"in": deep}
    store.append("k", 0, [{"kind": "x", "value": value}, {"kind": "y", "value": deep}], label="l")
    store.append("k", 2, [{"kind": "z"}])
    found = store.load("k")
    assert repr(found) == repr(
        [{"kind": "x", "value": value}, {"kind": "y", "value": deep}, {"kind": "z"}]
    )
    assert store.load("k", 1) == found[1:] or value != value
    assert store.load("other") == []
