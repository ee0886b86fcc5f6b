"""Sessions in each durable store, beside a plain journal of ten appends a turn."""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import local
from typing import Any

from bench import subject
from bench.databases import open_database
from bench.harness import Row
from bench.script import QUESTION
from orchestrator.sessions import Sessions
from orchestrator.sessions.open_store import open_store

_THREADS, _ROUNDS = 16, 7
_APPENDS = 10  # of a plain journal, for each turn
_RECORD = '{"kind": "model", "text": "' + "x" * 300 + '"}'
_FLAT_LIMIT = 1.3
_YOUNG = 15  # turns of the session that a long one is compared with: its turns 6 to 15
_KINDS = ("sqlite", "postgres", "dynamodb")
# moto takes most of the time that is measured with it.
_SHARES = {"sqlite": 1.0, "postgres": 1.0, "dynamodb": 0.1}


def stores(turns: int = 400, longest: int = 500, kinds: tuple[str, ...] = _KINDS) -> list[Row]:
    """Turns of sixteen threads in each store, its appends, and a session of 500 turns; wall clock.

    Turns and a plain journal take turns, so that what else the machine does befalls both alike.
    """
    return [row for kind in kinds for row in _measure(kind, turns, longest)]


def _measure(kind: str, turns: int, longest: int) -> Iterator[Row]:
    count, many = (int(number * _SHARES[kind]) for number in (turns, longest))
    with open_database(kind) as url:
        if url is None:
            return
        with closing(open_store(url)) as store:  # type: ignore[type-var]
            rate, *plain = _compare_rates(kind, url, store, count)
            note = "on moto"
            if plain:
                note = f"{rate / plain[0]:.2f} of a plain journal's {plain[0]:,.0f}"
            yield f"{kind}: turns of {_THREADS} threads", rate, "turns/s", None, note
            yield f"{kind}: an append", _time_appends(store, count), "µs", None, "one thread"
            first, last = _time_session(store, many)
            note = f"{first:.2f} ms and {last:.2f} ms"
            yield f"{kind}: turn {many}", last / first, "x turn 10", _FLAT_LIMIT, note


def _compare_rates(kind: str, url: str, store: Any, turns: int) -> list[float]:
    """Turns a second of the store, and of a plain journal where there is one: the medians."""
    agent = subject.engine(subject.Script(), sessions=Sessions(store))

    def ask(number: int) -> None:
        agent.invoke(QUESTION, f"s-{number}")

    with ExitStack() as opened, ThreadPoolExecutor(_THREADS) as threads:
        works: list[Callable[[int], None]] = [ask]
        if kind != "dynamodb":
            works.append(_open_plain(kind, url, opened))
        rates = [
            [_time(threads, work, number, turns) for work in works] for number in range(_ROUNDS)
        ]
    return [statistics.median(it) for it in zip(*rates, strict=True)]


def _time(
    threads: ThreadPoolExecutor, work: Callable[[int], object], number: int, turns: int
) -> float:
    first = number * (turns + _THREADS)
    list(threads.map(work, range(first, first + _THREADS)))  # what is made once
    began = time.perf_counter()
    list(threads.map(work, range(first + _THREADS, first + _THREADS + turns)))
    return turns / (time.perf_counter() - began)


def _open_plain(kind: str, url: str, opened: ExitStack) -> Callable[[int], None]:
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

    def append_ten(number: int) -> None:
        if not hasattr(own, "db"):
            own.db = connect()
        for place in range(_APPENDS):
            own.db.execute(insert, (f"s-{number}", place, _RECORD))

    return append_ten


def _time_appends(store: Any, count: int) -> float:
    key, record = "0" * 64, {"kind": "end", "text": "x" * 300}
    began = time.perf_counter()
    for place in range(count):
        store.append(key, place, [record], label="a/b/c", at=place)
    return (time.perf_counter() - began) / count * 1e6


def _time_session(store: Any, turns: int) -> tuple[float, float]:
    """Milliseconds of a turn of a young session and of a long one, which take turns.

    So what the store has besides befalls both alike.
    """
    agent = subject.engine(subject.Script(), sessions=Sessions(store))

    def ask(session: str) -> float:
        began = time.perf_counter()
        agent.invoke(QUESTION, session)
        return (time.perf_counter() - began) * 1000

    for _ in range(turns - _YOUNG):
        ask("long-session")
    times = [(ask("young-session"), ask("long-session")) for _ in range(_YOUNG)]
    young, long = (statistics.median(it[_YOUNG // 3 :]) for it in zip(*times, strict=True))
    return young, long
