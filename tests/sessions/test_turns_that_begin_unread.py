"""A turn begins without a look at its session's journal, if nobody else has written to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from postgres_server import PostgresServer

from orchestrator import Agent, Sessions, ValidationError
from orchestrator.message import text_of
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.sessions import EncryptedStore, dynamodb_items, postgres_store
from orchestrator.sessions.between_turns import end_session
from orchestrator.sessions.open_store import open_store
from orchestrator.support.encryption import Cipher
from orchestrator.support.encryption.key_sources import GivenKey
from orchestrator.testing import FakeClock

KEY = sha256(b"a/b/s-1").hexdigest()
LABEL = "a/b/s-1"
CIPHER = Cipher([GivenKey(b"1" * 32)])


def turn(id: str, text: str = "") -> dict[str, Any]:
    return {"kind": "turn", "id": id, "text": text}


@pytest.fixture(params=["sqlite", "dynamodb", "postgres", "encrypted"])
def open_one(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """Opens the store; each call gives another object over the same one."""
    name: Any = tmp_path / "s.sqlite"
    if request.param in ("dynamodb", "postgres"):
        name = request.getfixturevalue(f"{request.param}_url")
    opened: list[Any] = []

    def open() -> Any:
        opened.append(open_store(name))
        return EncryptedStore(opened[-1], CIPHER) if request.param == "encrypted" else opened[-1]

    yield open
    for one in opened:
        one.close()


def begin(store: Any, expected: int, id: str, since: int = 0, at: int = 9, text: str = "") -> Any:
    """What was read; `None` if the turn has begun."""
    found = store.begin(KEY, expected, turn(id, text), label=LABEL, at=at, since=since)
    if isinstance(found, list):
        return found
    assert found > len(text)  # so many characters were written
    return None


def test_a_store_begins_a_turn_where_it_was_expected(open_one: Any) -> None:
    store = open_one()
    first = begin(store, 0, "1")
    if first is None:
        assert store.load(KEY) == [turn("1")]
    else:  # it prefers to read sessions that are new to it
        assert first == store.load(KEY) == []
        store.append(KEY, 0, [turn("1")], label=LABEL, at=9)
    assert begin(store, 1, "2", since=9, at=10) is None
    assert open_one().load(KEY) == [turn("1"), turn("2")]
    (info,) = store.list()
    assert (info.records, info.updated, info.label) == (2, 10, LABEL)
    assert [it.key for it in store.list_unfinished()] == [KEY]


@pytest.mark.parametrize(
    ("expected", "since"),
    [(0, 0), (1, 0), (3, 0), (9, 0), (2, 4), (2, 6)],
    ids=["new", "fewer", "one more", "more", "earlier", "later"],
)
def test_what_else_is_there_is_read_and_nothing_written(
    open_one: Any, expected: int, since: int
) -> None:
    store, known = open_one(), [turn("1"), turn("2", "\n ü \ud800")]
    store.append(KEY, 0, known, label=LABEL, at=5)
    assert begin(store, expected, "3", since) == known[max(expected - 1, 0) :]
    assert open_one().load(KEY) == known
    assert [it.updated for it in store.list()] == [5]


def test_long_and_large_journals_are_read(open_one: Any) -> None:
    store = open_one()
    known = [turn(str(number)) for number in range(100)]
    store.append(KEY, 0, known, label=LABEL, at=1)
    assert begin(store, 0, "x") == known
    large = turn("large", "large" * 120_000)
    store.append(KEY, 100, [large], label=LABEL, at=2)
    assert begin(store, 100, "x") == [known[99], large]


def test_a_large_turn_begins(open_one: Any) -> None:
    store, text = open_one(), "large" * 120_000
    store.append(KEY, 0, [turn("1")], label=LABEL, at=1)
    found = begin(store, 1, "2", since=1, text=text)
    assert found is None or found == [turn("1")]  # it may read first
    assert store.load(KEY, 1) == ([turn("2", text)] if found is None else [])


def test_a_session_that_was_deleted_is_not_there(open_one: Any) -> None:
    store, other = open_one(), open_one()
    store.append(KEY, 0, [turn("1"), turn("2")], label=LABEL, at=1)
    other.delete(KEY)
    assert begin(store, 2, "3", since=1) == []
    assert other.load(KEY) == []


class Echo(Model):
    """Tells all questions of the conversation."""

    model_id = "anthropic.claude-3-5-sonnet-20240620-v1:0"

    def complete(self, request: ModelRequest) -> ModelReply:
        users = [text_of(it["content"]) for it in request.messages if it["role"] == "user"]
        return ModelReply([{"text": f"<answer>{'; '.join(users)}"}])


class Process:
    """An agent as another process has it: it has not read what this one knows."""

    def __init__(self, store: Any, clock: FakeClock) -> None:
        self.clock = clock
        self.sessions = Sessions(store, clock=clock)
        self.agent = Agent("echo", "You echo.", Echo(), sessions=self.sessions)
        self.loads = 0
        load = store.load

        def count(*asked: Any) -> Any:
            self.loads += 1
            return load(*asked)

        store.load = count

    def ask(self, question: str) -> str:
        self.clock.advance(seconds=1)
        return self.agent.invoke(question, "s-1").text

    def count_loads(self) -> int:
        loads, self.loads = self.loads, 0
        return loads


@pytest.fixture
def two(open_one: Any) -> tuple[Process, Process]:
    clock = FakeClock()
    return Process(open_one(), clock), Process(open_one(), clock)


def test_a_process_does_not_read_what_it_wrote_itself(two: Any) -> None:
    one, _ = two
    one.ask("1")
    one.count_loads()
    assert [one.ask(text) for text in "234"] == ["1; 2", "1; 2; 3", "1; 2; 3; 4"]
    assert one.count_loads() == 0


def test_what_another_process_wrote_is_read(two: Any) -> None:
    one, other = two
    assert [one.ask("1"), one.ask("2")] == ["1", "1; 2"]
    assert other.ask("3") == "1; 2; 3"
    assert one.ask("4") == "1; 2; 3; 4"
    assert other.ask("5") == "1; 2; 3; 4; 5"


def test_what_another_process_undid_is_forgotten(two: Any) -> None:
    one, other = two
    for text in "12":
        one.ask(text)
    other.agent.undo_turn("s-1")
    assert one.ask("3") == "1; 3"


def test_a_session_that_another_process_began_anew_is_read(two: Any) -> None:
    one, other = two
    one.ask("1")
    (info,) = one.sessions.store.list()
    other.sessions.store.delete(info.key)
    assert other.ask("other") == "other"  # as many records as before
    assert one.ask("2") == "other; 2"


def test_a_session_that_another_process_ended_begins_anew(two: Any) -> None:
    one, other = two
    one.ask("1")
    end_session(other.sessions, f"{other.agent.plan.owner}/s-1")
    assert one.ask("2") == "2"


def test_a_mistake_of_the_caller_has_nothing_read_again(two: Any) -> None:
    one, _ = two
    one.ask("1")
    one.count_loads()
    with pytest.raises(ValidationError, match="knowledge_bases"):
        one.agent.invoke("2", "s-1", knowledge_bases={"KB12345678": {}})
    assert one.ask("3") == "1; 3"
    assert one.count_loads() == 0


def test_an_idle_session_begins_anew(two: Any) -> None:
    one, _ = two
    one.ask("1")
    one.clock.advance(seconds=24 * 3600)
    assert one.ask("2") == "2"


def test_a_session_that_has_expired_is_not_gone_on_with(
    dynamodb_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_store(f"{dynamodb_url}&ttl_days=1")) as mortal:  # type: ignore[type-var]
        mortal.append(KEY, 0, [turn("1")], label=LABEL, at=1)
    with closing(open_store(dynamodb_url)) as store:  # type: ignore[type-var]
        assert store.load(KEY) == [turn("1")]
        later = time.time() + 2 * 24 * 3600
        monkeypatch.setattr(dynamodb_items, "time", SimpleNamespace(time=lambda: later))
        assert begin(store, 1, "2", since=1) == []
        store.append(KEY, 0, [turn("3")], label=LABEL, at=3)
        assert store.load(KEY) == [turn("3")]


def test_a_connection_that_breaks_leaves_one_turn(
    postgres_url: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the statement was carried out nobody knows: the journal says it."""
    store: Any = open_store(postgres_url)
    do_early, broken = postgres_store.do_early, []

    def break_once(works: Any, db: Any) -> Any:
        found = do_early(works, db)
        if not broken:
            broken.append(works)
            postgres_server.restart()
            db.execute("SELECT 1")
        return found

    monkeypatch.setattr(postgres_store, "do_early", break_once)
    process = Process(store, FakeClock())
    assert process.ask("1") == "1"
    assert broken and [it.question for it in process.agent.turns("s-1")] == ["1"]
    store.close()
