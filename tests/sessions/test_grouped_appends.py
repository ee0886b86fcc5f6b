"""Appends to several sessions go to PostgreSQL together; what becomes of each is its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from hashlib import sha256
from threading import Event
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer

from orchestrator import DependencyFailed, SessionConflict
from orchestrator.sessions import PostgresStore, postgres_store
from orchestrator.support import postgres

FIRST, SECOND = {"kind": "turn", "id": "1"}, {"kind": "end", "text": '"\\{},\n é 😀'}


def key(name: str) -> str:
    return sha256(name.encode()).hexdigest()


@pytest.fixture
def store(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    # A server that starts again on a busy machine may take longer than users would wait.
    monkeypatch.setattr(postgres, "_PATIENCE", 60.0)
    with closing(PostgresStore(postgres_url)) as opened:
        yield opened


class Groups:
    """Holds the first groups back, until so many appends wait, and counts how large each is."""

    def __init__(self, store: PostgresStore, waiting: int) -> None:
        self.sizes: list[int] = []
        self._store, self._waiting = store, waiting
        self._append, self.has_begun = postgres_store.append_some, Event()

    def append(self, appends: Sequence[Any], db: Any) -> list[bool]:
        self.sizes.append(len(appends))
        self.has_begun.set()
        while len(self.sizes) == 1 and self._store._appends.waiting < self._waiting:
            os.sched_yield()
        return self._append(appends, db)


Group = Callable[..., "list[Future[None]]"]


@pytest.fixture
def group_of(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    """Begins to append to sessions, to all in one batch; each is a name and what it is to have."""
    with ThreadPoolExecutor(16) as threads:

        def append(*appends: tuple[str, int]) -> list[Future[None]]:
            groups = Groups(store, len(appends))
            monkeypatch.setattr(postgres_store, "append_some", groups.append)
            begin = partial(threads.submit, store.append)
            begin(key("held"), 0, [FIRST], label="a/b/held", at=1)
            assert groups.has_begun.wait(60)
            futures = [
                begin(key(name), count, [SECOND], label=f"a/b/{name}", at=2)
                for name, count in appends
            ]
            while len(groups.sizes) < 2:
                os.sched_yield()
            assert groups.sizes[:2] == [1, len(appends)]
            return futures

        yield append


def wait(futures: Sequence[Future[None]]) -> list[BaseException | None]:
    return [future.exception(60) for future in futures]


@contextmanager
def in_transaction(url: str) -> Iterator[psycopg.Connection]:
    with closing(psycopg.connect(url)) as db, db.transaction():
        yield db


def test_new_sessions_and_old_ones_are_written_together(store: Any, group_of: Any) -> None:
    for name in "ab":
        store.append(key(name), 0, [FIRST], label=f"a/b/{name}", at=1)
    assert wait(group_of(("a", 1), ("new", 0), ("b", 1))) == [None, None, None]
    assert [store.load(key(name)) for name in ("a", "b", "new")] == [
        *([FIRST, SECOND], [FIRST, SECOND], [SECOND])
    ]
    assert {(it.label, it.records, it.updated) for it in store.list()} == {
        *(("a/b/a", 2, 2), ("a/b/b", 2, 2), ("a/b/new", 1, 2), ("a/b/held", 1, 1))
    }


def test_a_conflict_is_that_sessions_alone(store: Any, group_of: Any) -> None:
    for name in "ab":
        store.append(key(name), 0, [FIRST], label=f"a/b/{name}", at=1)
    raised = wait(group_of(("a", 1), ("b", 0), ("b-2", 3), ("c", 0)))
    assert [type(it) for it in raised] == [type(None), SessionConflict, SessionConflict, type(None)]
    assert [len(store.load(key(name))) for name in ("a", "b", "b-2", "c")] == [2, 1, 0, 1]


def test_damage_is_that_sessions_alone(store: Any, group_of: Any, postgres_url: str) -> None:
    for name in "abc":
        store.append(key(name), 0, [FIRST], label=f"a/b/{name}", at=1)
    with closing(psycopg.connect(postgres_url, autocommit=True)) as db:
        db.execute(
            "INSERT INTO orchestrator_journal SELECT key, 1, record, sum FROM orchestrator_journal "
            "WHERE key = %s",
            (key("b"),),
        )
    one, damaged, other = wait(group_of(("a", 1), ("b", 1), ("c", 1)))
    assert (one, other) == (None, None)
    assert isinstance(damaged, DependencyFailed)
    assert damaged.message.endswith("or restore the store from a backup")
    assert [store.load(key(name)) for name in "ac"] == [[FIRST, SECOND]] * 2


def test_a_session_that_is_locked_keeps_nobody_else_waiting(
    store: Any, group_of: Any, postgres_url: str
) -> None:
    for name in "abc":
        store.append(key(name), 0, [FIRST], label=f"a/b/{name}", at=1)
    with in_transaction(postgres_url) as db:  # as a deletion does
        db.execute("SELECT FROM orchestrator_session WHERE key = %s FOR UPDATE", (key("b"),))
        one, locked, other = group_of(("a", 1), ("b", 1), ("c", 1))
        assert wait([one, other]) == [None, None]
        assert not locked.done()
    assert wait([locked]) == [None]
    assert [store.load(key(name)) for name in "abc"] == [[FIRST, SECOND]] * 3


def test_sessions_are_read_together_but_for_long_and_large_ones(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = [{**FIRST, "id": place} for place in range(100)]
    store.append(key("long"), 0, long, label="a/b/long", at=1)
    store.append(key("short"), 0, [FIRST, SECOND], label="a/b/short", at=1)
    large = [FIRST, {**SECOND, "text": "large" * 60_000}]
    store.append(key("large"), 0, large, label="a/b/large", at=1)
    alone, find_alone = [], store._find_alone

    def note(*asked: Any) -> Any:
        alone.append(asked)
        return find_alone(*asked)

    monkeypatch.setattr(store, "_find_alone", note)
    found = postgres_store.do_early
    sizes, held = [], Event()

    def find(loads: Sequence[Any], db: Any) -> Any:
        sizes.append(len(loads))
        held.set()
        while len(sizes) == 1 and store._early.waiting < 6:
            os.sched_yield()
        return found(loads, db)

    monkeypatch.setattr(postgres_store, "do_early", find)
    asked = [("short", 0), ("long", 99), ("long-2", 0), ("none", 3), ("large", 0), ("short", 2)]
    with ThreadPoolExecutor(16) as threads:
        first = threads.submit(store.load, key("long"))
        assert held.wait(60)
        loads = [threads.submit(store.load, key(name), after) for name, after in asked]
    assert first.result() == long
    assert [it.result() for it in loads] == [[FIRST, SECOND], long[99:], [], [], large, []]
    # The two of one session are in two groups.
    assert (sizes, alone) == ([1, 5, 1], [(key("long"), 0), (key("large"), 0)])


@pytest.mark.exhaustive
def test_groups_whose_server_restarts_are_written_once(
    store: Any, postgres_server: PostgresServer
) -> None:
    reached = Event()

    def fill(name: str) -> None:
        for place in range(40):
            store.append(key(name), place, [{**FIRST, "id": place}], label=f"a/b/{name}", at=place)
            if place == 10:
                reached.set()

    names = [f"s-{number}" for number in range(16)]
    with ThreadPoolExecutor(16) as threads:
        futures = [threads.submit(fill, name) for name in names]
        assert reached.wait(60)
        postgres_server.restart()
    assert [it.exception() for it in futures] == [None] * 16
    for name in names:
        assert [record["id"] for record in store.load(key(name))] == [*range(40)]
