"""Tables in PostgreSQL: made and checked, found again after a restart, and no password shown."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import psycopg
import pytest
from postgres_server import PASSWORD, PostgresServer
from psycopg_pool.base import AttemptWithBackoff
from waiting import HANGS, until

from orchestrator.errors import DependencyFailed, ValidationError
from orchestrator.support import postgres
from orchestrator.support.content_root import content_root
from orchestrator.support.postgres import PostgresDatabase
from orchestrator.support.store_urls import PostgresUrl, parse_store

Open = Callable[..., PostgresDatabase]


def parse(text: str) -> PostgresUrl:
    url = parse_store(text)
    assert isinstance(url, PostgresUrl)
    return url


@pytest.fixture
def open_database(postgres_url: str) -> Iterator[Open]:
    opened: list[PostgresDatabase] = []

    def open(url: str = postgres_url) -> PostgresDatabase:
        opened.append(PostgresDatabase(parse(url), "sessions", "the session store"))
        return opened[-1]

    yield open
    for one in opened:
        one.close()


def find_versions(url: str) -> list[tuple[object, ...]]:
    with closing(psycopg.connect(url)) as db:
        return db.execute("SELECT * FROM orchestrator_schema").fetchall()


def test_many_processes_that_begin_make_the_tables_once(
    postgres_url: str, open_database: Open
) -> None:
    with ThreadPoolExecutor(8) as threads:
        databases = list(threads.map(lambda _: open_database(), range(8)))
    assert find_versions(postgres_url) == [("sessions", 3)]
    assert [one.rows("SELECT count(*) FROM orchestrator_session") for one in databases] == [
        [(0,)]
    ] * 8


def test_tables_of_a_newer_program_are_refused(postgres_url: str, open_database: Open) -> None:
    open_database()
    with closing(psycopg.connect(postgres_url, autocommit=True)) as db:
        db.execute("UPDATE orchestrator_schema SET version = 99")
    with pytest.raises(DependencyFailed, match=r"version 99, newer than .* update the program"):
        open_database()


def test_tables_of_an_older_program_are_brought_up_to_date(
    postgres_url: str, open_database: Open
) -> None:
    first = content_root() / "memory" / "postgres" / "sessions" / "1.sql"
    with closing(psycopg.connect(postgres_url, autocommit=True)) as db:
        db.execute(first.read_bytes())
        db.execute("INSERT INTO orchestrator_session VALUES ('k', 'a/b/c', 1, 0, false, 2)")
        db.execute("CREATE TABLE orchestrator_schema (component text PRIMARY KEY, version integer)")
        db.execute("INSERT INTO orchestrator_schema VALUES ('sessions', 1)")
    database = open_database()
    assert find_versions(postgres_url) == [("sessions", 3)]
    assert database.rows("SELECT count(*) FROM orchestrator_plan") == [(0,)]
    assert database.rows("SELECT key FROM orchestrator_session") == [("k",)]


def test_a_restart_is_waited_for(postgres_server: PostgresServer, open_database: Open) -> None:
    database = open_database()
    assert database.rows("SELECT 1") == [(1,)]
    postgres_server.restart()
    assert database.rows("SELECT 2") == [(2,)]
    with database.transaction() as db:
        assert db.execute("SELECT 3").fetchall() == [(3,)]


def test_a_database_that_was_away_for_long_is_found_by_the_next_call(
    postgres_server: PostgresServer, open_database: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As after minutes: the pool's own next try is far away.
    monkeypatch.setattr(AttemptWithBackoff, "INITIAL_DELAY", 10 * HANGS)
    monkeypatch.setattr(postgres, "_PATIENCE", 0.2)
    database = open_database()

    def answers() -> bool:
        with suppress(DependencyFailed):
            return database.rows("SELECT 1") == [(1,)]
        return False

    until(answers)
    with postgres_server.stopped(), pytest.raises(DependencyFailed, match="connection"):
        database.rows("SELECT 2")
    until(answers)


def test_an_error_undoes_a_transaction(open_database: Open) -> None:
    database = open_database()
    with pytest.raises(DependencyFailed, match="division by zero"), database.transaction() as db:
        db.execute("INSERT INTO orchestrator_process VALUES ('p', now())")
        db.execute("SELECT 1 / 0")
    assert database.rows("SELECT * FROM orchestrator_process") == []


def test_stores_of_one_database_share_its_connections(
    open_database: Open, postgres_url: str
) -> None:
    url = f"{postgres_url}?pool_size=1"
    first, second = open_database(url), open_database(url)
    with first.transaction() as one:
        pass
    with second.transaction() as other:
        assert one is other
    first.close()
    assert second.rows("SELECT 1") == [(1,)]
    with pytest.raises(DependencyFailed, match="is closed"):
        first.rows("SELECT 1")


@pytest.mark.parametrize("change", ["password", "port", "database", "parameter"])
def test_no_error_and_no_log_shows_the_password(
    change: str, postgres_url: str, open_database: Open, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = {
        "password": postgres_url.replace(PASSWORD, PASSWORD[::-1]),
        "port": postgres_url.replace("127.0.0.1:", "127.0.0.1:1"),
        "database": postgres_url + "-missing",
        "parameter": postgres_url + "?sslmod=require",
    }[change]
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises((DependencyFailed, ValidationError)) as raised,
    ):
        open_database(wrong)
    shown = [str(raised.value), repr(raised.value.__cause__), caplog.text]
    assert "the session store" in shown[0] or "the store" in shown[0]
    assert not any(part in text for text in shown for part in (PASSWORD, PASSWORD[::-1]))


def test_what_to_install_where_the_driver_is_missing(
    monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg_pool", None)
    with pytest.raises(ValidationError, match=r"pip install 'bedrock-orchestrator\[postgres\]'"):
        PostgresDatabase(parse(postgres_url), "sessions", "the session store")
