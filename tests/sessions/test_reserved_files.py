"""A session file that was reserved for an append: it waits for nobody, and nobody for it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orchestrator import SessionConflict, SQLiteStore


class Watched(sqlite3.Connection):
    """A connection of which every statement is seen before and after it is carried out."""

    before: Callable[[Watched, str], None] | None = None
    after: Callable[[Watched, str], None] | None = None
    waits = True  # for another connection that writes

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if Watched.before is not None:
            Watched.before(self, sql)
        cursor = super().execute(sql, *values)
        if Watched.after is not None:
            Watched.after(self, sql)
        return cursor


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Watched]]:
    connect = sqlite3.connect

    def connect_watched(*where: Any, **options: Any) -> sqlite3.Connection:
        both = type("WatchedConnection", (Watched, options.pop("factory", sqlite3.Connection)), {})
        made = connect(*where, factory=both, **options)
        assert isinstance(made, Watched)
        made.waits = options.get("timeout", 1) > 0
        return made

    monkeypatch.setattr("orchestrator.support.sqlite.sqlite3.connect", connect_watched)
    yield Watched
    Watched.before = Watched.after = None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.sqlite"


def write(store: SQLiteStore, key: str, size: int = 1) -> None:
    store.append(key, 0, [{"kind": "turn", "x": "x" * size}], label=f"a/{key}", at=1)


def write_reserved(store: SQLiteStore, key: str, size: int = 1) -> bool:
    """Writes, reserved if it may be: whether it was."""
    reservation = store.reserve()
    if reservation:
        with reservation:
            write(store, key, size)
    else:
        write(store, key, size)
    wait_for_copies()
    return bool(reservation)


def wait_for_copies() -> None:
    """Waits for the threads that copy logs into their files."""
    for thread in threading.enumerate():
        if thread.name == "orchestrator-sqlite-log":
            thread.join(timeout=60)
            assert not thread.is_alive()


def assert_free(store: SQLiteStore, path: Path) -> None:
    """Nobody has the file: neither this process nor another is kept out."""
    other = sqlite3.connect(path, timeout=0, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("COMMIT")
    other.close()
    assert write_reserved(store, "last")
    assert {info.key for info in store.list()} == {"first", "last"}


def test_an_interrupt_after_the_beginning_leaves_no_transaction(
    watched: type[Watched], path: Path
) -> None:
    def interrupt(db: Watched, statement: str) -> None:
        if statement.startswith("BEGIN"):
            raise KeyboardInterrupt

    store = SQLiteStore(path)
    write(store, "first")
    watched.after = interrupt
    with pytest.raises(KeyboardInterrupt):
        store.reserve()
    watched.after = None
    assert_free(store, path)
    store.close()


@pytest.mark.parametrize("error", [sqlite3.OperationalError("disk I/O error"), KeyboardInterrupt()])
@pytest.mark.parametrize("used", [False, True])
def test_a_reservation_that_cannot_be_undone_is_given_up(
    used: bool, error: BaseException, watched: type[Watched], path: Path
) -> None:
    def fail(db: Watched, statement: str) -> None:
        if statement in ("COMMIT", "ROLLBACK"):
            raise error

    store = SQLiteStore(path)
    write(store, "first")
    reservation = store.reserve()
    assert reservation
    watched.before = fail
    try:
        with reservation:
            if used:
                write(store, "lost")
    except BaseException as raised:
        assert raised is error or raised.__cause__ is error
    watched.before = None
    assert_free(store, path)
    store.close()


class Clock:
    """The time for those who wait for a file, which goes on while they sleep."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.on_sleep: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.on_sleep()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("orchestrator.support.sqlite_backoff.time", made)
    return made


def test_who_finds_a_file_busy_for_a_moment_has_it_then(path: Path, clock: Clock) -> None:
    store, other = SQLiteStore(path), sqlite3.connect(path, isolation_level=None)
    write(store, "first")
    assert write_reserved(store, "second")
    other.execute("BEGIN IMMEDIATE")
    clock.on_sleep = lambda: other.rollback()
    assert write_reserved(store, "third")
    for db in (store, other):
        db.close()


def test_a_file_that_is_busy_for_long_costs_little_time(path: Path, clock: Clock) -> None:
    store, other = SQLiteStore(path), sqlite3.connect(path, isolation_level=None)
    write(store, "first")
    assert write_reserved(store, "second")
    other.execute("BEGIN IMMEDIATE")
    waited = 0.0
    for _ in range(10_000):
        before = clock.now
        assert store.reserve() is None
        waited += clock.now - before
        clock.now += 0.0001
    assert 0.01 < waited < 0.1  # of 1 s
    other.execute("COMMIT")
    clock.now += 0.2
    assert write_reserved(store, "third")
    for db in (store, other):
        db.close()


def test_a_closed_file_is_not_reserved(path: Path) -> None:
    store = SQLiteStore(path)
    write(store, "first")
    assert write_reserved(store, "last")
    store.close()
    assert store.reserve() is False


def read_start(path: Path) -> bytes:
    # SQLite syncs the log when it begins it anew, with another "salt" in its head.
    try:
        with Path(f"{path}-wal").open("rb") as log:
            return log.read(24)[16:]
    except FileNotFoundError:
        return b""


@pytest.mark.parametrize("processes", [1, 3])
def test_who_has_reserved_a_file_hardly_ever_begins_its_log_anew(
    processes: int, watched: type[Watched], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine a copier gives up, and the others do not know that all is copied.
    monkeypatch.setattr("orchestrator.support.sqlite_log_copier._PATIENCE", 60)
    stores = [SQLiteStore(path) for _ in range(processes)]
    starts, begun = {read_start(path)}, []

    def note(db: Watched, statement: str) -> None:
        if statement == "COMMIT" and read_start(path) not in starts:
            starts.add(read_start(path))
            begun.append("not reserved" if db.waits else "reserved")

    watched.after = note
    reserved = 0
    for number in range(300):
        store = stores[number % processes]
        if number % 70:
            reserved += write_reserved(store, f"k-{number}", 12_000)
        else:
            write(store, f"k-{number}", 5_000_000)
    # Of several, one that comes between a copying of the log and the next transaction may, as
    # `reserve` says.
    assert begun.count("reserved") <= (processes > 1)
    assert begun.count("not reserved") > 2
    assert reserved > 280
    for store in stores:
        store.close()


def test_the_first_reservation_of_a_file_does_not_begin_its_log_anew(path: Path) -> None:
    store = SQLiteStore(path)
    number = 0
    while not number or Path(f"{path}-wal").stat().st_size < 4_120_032:
        number += 1  # until SQLite copies it by itself, soon after somebody looked at it
        write(store, f"k-{number}", 12_000)
    before = read_start(path)
    assert not write_reserved(store, "first")
    assert read_start(path) != before
    assert write_reserved(store, "second")
    store.close()


def test_a_log_that_was_begun_anew_before_its_copier_came_is_begun_by_no_reserved_append(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copiers: list[Callable[[], None]] = []

    class Later:
        def __init__(self, target: Callable[[], None], **_: Any) -> None:
            self.start = partial(copiers.append, target)

    store = SQLiteStore(path)
    write(store, "long", 5_000_000)
    monkeypatch.setattr("orchestrator.support.sqlite_log_copier.Thread", Later)
    assert not write_reserved(store, "first")  # it begins the log anew
    (copy,) = copiers
    copy()
    before = read_start(path)
    assert write_reserved(store, "second")
    assert read_start(path) == before
    store.close()


def test_who_copies_a_log_lets_go_of_it_while_another_has_the_file(path: Path) -> None:
    store = SQLiteStore(path)
    write(store, "first")
    written = 0
    while reservation := store.reserve():
        with reservation:
            written += 1
            write(store, f"k-{written}", 1_000_000)
            wait_for_copies()  # though this thread has the file
    wait_for_copies()  # the last refusal has begun one
    assert 3 < written < 8
    write(store, "last")  # it begins the log anew, unless that copy has
    assert Path(f"{path}-wal").stat().st_size < 100_000
    assert write_reserved(store, "second")
    store.close()


@pytest.mark.parametrize("error", [RuntimeError("no thread"), MemoryError()])
def test_a_log_that_no_thread_copies_is_copied_before_it_has_no_end(
    error: Exception, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise error

    store = SQLiteStore(path)
    write(store, "first")
    assert write_reserved(store, "second")
    monkeypatch.setattr("orchestrator.support.sqlite_log_copier.Thread", refuse)
    sizes, reserved = [], []
    for number in range(20):
        reserved.append(write_reserved(store, f"k-{number}", 1_000_000))
        sizes.append(Path(f"{path}-wal").stat().st_size)
    assert max(sizes) < 18_000_000
    assert min(sizes[10:]) < 2_000_000
    assert reserved.count(False) == 1
    store.close()


def test_a_process_that_reserves_nothing_copies_no_log_before_it_is_long(path: Path) -> None:
    one, other = SQLiteStore(path), SQLiteStore(path)
    for number in range(100):  # some 3 MB
        write(one, f"k-{number}", 12_000)
        before = read_start(path)
        assert write_reserved(other, f"reserved-{number}")
        assert read_start(path) == before
    for store in (one, other):
        store.close()


def test_an_undone_transaction_does_not_leave_a_copied_log_to_who_reserves(path: Path) -> None:
    store = SQLiteStore(path)
    write(store, "first", 5_000_000)
    with pytest.raises(SessionConflict):
        write(store, "first")  # the log was copied before it, and not begun anew by it
    before = read_start(path)
    assert not write_reserved(store, "second")
    assert read_start(path) != before
    assert write_reserved(store, "third")
    store.close()


def test_processes_that_do_not_live_long_leave_no_long_log(path: Path) -> None:
    stores = []
    for process in range(4):
        store = SQLiteStore(path)
        for number in range(120):
            write_reserved(store, f"k-{process}-{number}", 12_000)
        stores.append(store)  # as if it was killed: its log stays
    assert Path(f"{path}-wal").stat().st_size < 5_000_000
    for store in stores:
        store.close()


def test_a_file_by_a_link_is_reserved_too(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    store = SQLiteStore(link)
    write(store, "first")
    assert write_reserved(store, "second")
    store.close()


def test_a_log_does_not_grow_without_end_while_others_always_read(
    watched: type[Watched], path: Path
) -> None:
    store = SQLiteStore(path)
    readers = [
        sqlite3.connect(path, isolation_level=None, check_same_thread=False) for _ in range(2)
    ]

    def end_when_waited_for(db: Watched, statement: str) -> None:
        if "RESTART" in statement:
            readers[0].execute("ROLLBACK")
            readers[0].execute("BEGIN")

    watched.before = end_when_waited_for
    for reader in readers:
        reader.execute("BEGIN")
    sizes = []
    for number in range(30):
        readers.reverse()  # each begins before the other one ends: one always reads
        readers[0].execute("SELECT count(*) FROM session").fetchone()
        readers[1].execute("ROLLBACK")
        readers[1].execute("BEGIN")
        write_reserved(store, f"k-{number}", 1_000_000)
        sizes.append(Path(f"{path}-wal").stat().st_size)
    assert max(sizes) < 20_000_000
    for db in (store, *readers):
        db.close()


def test_nobody_waits_for_who_reads_what_was_there_before(
    watched: type[Watched], path: Path
) -> None:
    told = []
    store, reader = SQLiteStore(path), sqlite3.connect(path, isolation_level=None)
    write(store, "first")
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM session").fetchall()
    watched.before = lambda db, statement: told.append(statement)
    for number in range(10):  # longer than what is copied, and shorter than what has no end
        write_reserved(store, f"k-{number}", 1_000_000)
    assert any("PASSIVE" in statement for statement in told)
    assert not any("RESTART" in statement for statement in told)
    for db in (store, reader):
        db.close()


def test_who_reads_for_long_keeps_nobody_from_writing(path: Path) -> None:
    store, reader = SQLiteStore(path), sqlite3.connect(path, isolation_level=None)
    write(store, "first")
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM session").fetchall()
    for number in range(20):
        write_reserved(store, f"k-{number}", 1_000_000)
    assert Path(f"{path}-wal").stat().st_size > 20_000_000
    reader.close()
    for number in range(20):  # somebody looks at the log now and then
        write_reserved(store, f"l-{number}")
    assert Path(f"{path}-wal").stat().st_size < 5_000_000
    assert write_reserved(store, "last")
    store.close()


def test_a_text_is_written_for_its_own_record_alone(path: Path) -> None:
    records: list[dict[str, Any]] = [{"kind": "turn"}, {"kind": "model"}, {"kind": "end"}]
    lost, (turn, model, _) = {"kind": "lost"}, records
    store = SQLiteStore(path)
    texts = [(lost, '{"kind": "lost"}'), (model, '{"kind": "model", "as": "told"}'), (turn, "{}")]
    store.append("one", 0, records, label="a/one", at=1, encoded=texts)
    store.append("two", 0, records[:1], label="a/two", at=1, encoded=[*texts, (lost, "{}")])
    assert store.load("one") == [{"kind": "turn"}, {"kind": "model", "as": "told"}, {"kind": "end"}]
    assert store.load("two") == [{"kind": "turn"}]
    store.close()
