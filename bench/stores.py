"""Sessions in each durable store, beside a plain journal of ten appends a turn."""

from __future__ import annotations

import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import local
from typing import Any

from bench import subject
from bench.harness import REPOSITORY, Row
from bench.script import QUESTION
from orchestrator.sessions import Sessions
from orchestrator.sessions.open_store import open_store

_THREADS = 16
_APPENDS = 10  # of a plain journal, for each turn
_RECORD = '{"kind": "model", "text": "' + "x" * 300 + '"}'
_FLAT_LIMIT = 1.3
_KINDS = ("sqlite", "postgres", "dynamodb")
# moto takes most of the time that is measured with it.
_SHARES = {"sqlite": 1.0, "postgres": 1.0, "dynamodb": 0.1}

Append = Callable[[str, int], None]


def stores(turns: int = 400, longest: int = 500, kinds: tuple[str, ...] = _KINDS) -> list[Row]:
    """Turns of sixteen threads in each store, its appends, and a session of 500 turns; wall clock.

    PostgreSQL is one that is started for it, with its usual settings; where it is not installed,
    its rows are left out. DynamoDB is moto's server.
    """
    return [row for kind in kinds for row in _measure(kind, turns, longest)]


def _measure(kind: str, turns: int, longest: int) -> Iterator[Row]:
    count, many = (int(number * _SHARES[kind]) for number in (turns, longest))
    with _open_place(kind) as url:
        if url is None:
            return
        plain = 0.0
        if kind != "dynamodb":
            plain = _time_plain(kind, url, count)
        with closing(open_store(url)) as store:  # type: ignore[type-var]
            rate = _time_turns(store, count)
            note = f"{rate / plain:.2f} of a plain journal's {plain:,.0f}" if plain else "on moto"
            yield f"{kind}: turns of {_THREADS} threads", rate, "turns/s", None, note
            yield f"{kind}: an append", _time_appends(store, count), "µs", None, "one thread"
            first, last = _time_session(store, many)
            note = f"{first:.2f} ms and {last:.2f} ms"
            yield f"{kind}: turn {many}", last / first, "x turn 10", _FLAT_LIMIT, note


@contextmanager
def _open_place(kind: str) -> Iterator[str | None]:
    sys.path.insert(0, str(REPOSITORY / "tests"))
    from dynamodb_server import DynamoServer
    from postgres_server import PostgresServer, find_programs

    with ExitStack() as stack:
        if kind == "sqlite":
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            yield f"sqlite:///{folder}/sessions.sqlite"
        elif kind == "postgres":
            programs = find_programs()
            if isinstance(programs, str):
                print(f"left out: {programs}", file=sys.stderr)
                yield None
                return
            server = stack.enter_context(closing(PostgresServer(programs, options=())))
            yield server.url(server.create_database())
        else:
            os.environ |= {"AWS_ACCESS_KEY_ID": "moto", "AWS_SECRET_ACCESS_KEY": "moto"}
            moto = stack.enter_context(closing(DynamoServer()))
            yield moto.create_table("bench")


def _time_plain(kind: str, url: str, turns: int) -> float:
    with ExitStack() as opened:
        append = _open_plain(kind, url, opened)

        def run(number: int) -> None:
            for place in range(_APPENDS):
                append(f"s-{number}", place)

        return _rate(run, turns)


def _open_plain(kind: str, url: str, opened: ExitStack) -> Append:
    own = local()
    mark = "?" if kind == "sqlite" else "%s"
    insert: Any = f"INSERT INTO plain VALUES ({mark}, {mark}, {mark})"

    def connect() -> Any:
        if kind == "sqlite":
            file = Path(url.removeprefix("sqlite:///")).with_name("plain.sqlite")
            db = sqlite3.connect(file, timeout=60, isolation_level=None, check_same_thread=False)
            db.execute("PRAGMA journal_mode=WAL")
            return opened.enter_context(closing(db))
        import psycopg

        return opened.enter_context(closing(psycopg.connect(url, autocommit=True)))

    connect().execute("CREATE TABLE plain (s text, place int, record text, PRIMARY KEY (s, place))")

    def append(session: str, place: int) -> None:
        if not hasattr(own, "db"):
            own.db = connect()
        own.db.execute(insert, (session, place, _RECORD))

    return append


def _time_turns(store: Any, turns: int) -> float:
    agent = subject.engine(subject.Script(), sessions=Sessions(store))
    return _rate(lambda number: agent.invoke(QUESTION, f"s-{number}"), turns)


def _rate(work: Callable[[int], object], count: int) -> float:
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(work, range(-_THREADS, 0)))  # what is made once
        began = time.perf_counter()
        list(threads.map(work, range(count)))
        return count / (time.perf_counter() - began)


def _time_appends(store: Any, count: int) -> float:
    key, record = "0" * 64, {"kind": "end", "text": "x" * 300}
    began = time.perf_counter()
    for place in range(count):
        store.append(key, place, [record], label="a/b/c", at=place)
    return (time.perf_counter() - began) / count * 1e6


def _time_session(store: Any, turns: int) -> tuple[float, float]:
    agent = subject.engine(subject.Script(), sessions=Sessions(store))
    times = []
    for _ in range(turns):
        began = time.perf_counter()
        agent.invoke(QUESTION, "long-session")
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times[5:15]), statistics.median(times[-10:])
