"""Forked processes: what their parent has open, and the locks of threads that they do not have."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from forking import run_in_child

from orchestrator import DependencyFailed
from orchestrator.sessions.store_use import StoreUse
from orchestrator.support import forks, sqlite_log_copier
from orchestrator.support.aws import Settings, Target, get_shared_client
from orchestrator.support.private_files import create_private
from orchestrator.support.process_leases import share_leases
from orchestrator.support.process_locks import share_locks
from orchestrator.support.sqlite import SqliteFile
from orchestrator.support.sqlite_layout import Layout

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]

LAYOUT = Layout(7, 1, "CREATE TABLE note (text TEXT);")


def open_file(path: str | Path) -> SqliteFile:
    return SqliteFile(path, "the notes", LAYOUT)


def write(file: SqliteFile, text: str) -> None:
    with file.transaction() as db:
        db.execute("INSERT INTO note VALUES (?)", (text,))


def write_reserved(file: SqliteFile, text: str) -> None:
    reservation = file.reserve()
    assert reservation
    with reservation:
        write(file, text)


def read(file: SqliteFile) -> list[str]:
    return [text for (text,) in file.rows("SELECT text FROM note ORDER BY rowid")]


def read_committed(file: SqliteFile) -> list[str]:
    return [text for (text,) in file.rows_of_last_commit("SELECT text FROM note ORDER BY rowid")]


def begin_to_write(file: SqliteFile, text: str, *, until: Event) -> Thread:
    """Has a thread in a transaction, which it commits when the event has come."""
    begun = Event()

    def work() -> None:
        with file.transaction() as db:
            db.execute("INSERT INTO note VALUES (?)", (text,))
            begun.set()
            assert until.wait(60)

    writer = Thread(target=work)
    writer.start()
    assert begun.wait(60)
    return writer


@pytest.fixture
def before_forks() -> Iterator[list[Callable[[], None]]]:
    """What is done when a fork begins, before anything waits for it."""
    yield _before
    _before.clear()


_before: list[Callable[[], None]] = []
if hasattr(os, "fork"):
    os.register_at_fork(before=lambda: [do() for do in _before])  # the last one is the first


def test_what_a_child_writes_stays_when_its_parent_closes_the_file(tmp_path: Path) -> None:
    file = open_file(tmp_path / "notes.db")
    write(file, "one")
    write_reserved(file, "two")
    assert read_committed(file) == ["one", "two"]
    to_child, from_parent = os.pipe()
    to_parent, from_child = os.pipe()

    def close() -> None:
        os.read(to_parent, 1)
        file.close()
        os.write(from_parent, b"x")

    parent = Thread(target=close)

    def work() -> None:
        write(file, "three")
        os.write(from_child, b"x")
        os.read(to_child, 1)
        write(file, "four")
        write_reserved(file, "five")
        assert read(file) == read_committed(file) == ["one", "two", "three", "four", "five"]

    parent.start()
    assert run_in_child(work) == 0
    parent.join()
    with sqlite3.connect(tmp_path / "notes.db") as db:
        found = [text for (text,) in db.execute("SELECT text FROM note ORDER BY rowid")]
    db.close()
    assert found == ["one", "two", "three", "four", "five"]


@pytest.mark.parametrize("path", ["notes.db", ":memory:"])
def test_a_child_has_no_locks_of_threads_that_it_has_not(
    path: str, tmp_path: Path, before_forks: list[Callable[[], None]]
) -> None:
    file = open_file(path if path == ":memory:" else tmp_path / path)
    forking = Event()
    before_forks.append(forking.set)
    writer = begin_to_write(file, "parent", until=forking)

    def work() -> None:
        write(file, "child")
        assert read(file) == ["parent", "child"]
        file.close()

    assert run_in_child(work) == 0
    writer.join()
    write(file, "later")
    assert read(file) == ["parent", *(["child"] if path != ":memory:" else []), "later"]
    file.close()


def test_a_fork_in_the_middle_of_a_log_that_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before_forks: list[Callable[[], None]]
) -> None:
    copying, forking = Event(), Event()
    copy = sqlite_log_copier.copy_what_is_there

    def copy_later(db: sqlite3.Connection) -> bool | None:
        copying.set()
        assert forking.wait(60)
        return copy(db)

    monkeypatch.setattr(sqlite_log_copier, "copy_what_is_there", copy_later)
    before_forks.append(forking.set)
    file = open_file(tmp_path / "notes.db")
    long = "x" * 1_000_000
    while not copying.is_set():
        reservation = file.reserve()
        if reservation:
            with reservation, file.transaction(len(long)) as db:
                db.execute("INSERT INTO note VALUES (?)", (long,))
        else:
            write(file, long)

    def work() -> None:
        write(file, "child")
        file.close()

    assert run_in_child(work) == 0
    assert read(file)[-1] == "child"
    file.close()


def test_a_daemon_that_goes_to_another_folder_has_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = open_file("notes.db")
    write(file, "one")
    (tmp_path / "elsewhere").mkdir()

    def work() -> None:
        os.chdir("elsewhere")
        write(file, "two")
        assert read_committed(file) == ["one", "two"]

    assert run_in_child(work) == 0
    assert read(file) == ["one", "two"]
    assert list((tmp_path / "elsewhere").iterdir()) == []
    file.close()


def test_a_closed_file_stays_closed(tmp_path: Path) -> None:
    file = open_file(tmp_path / "notes.db")
    file.close()

    def work() -> None:
        with pytest.raises(DependencyFailed, match="closed database"):
            read(file)

    assert run_in_child(work) == 0
    with pytest.raises(DependencyFailed, match="closed database"):
        write(file, "x")


def test_a_file_that_is_gone_after_a_fork_is_told_when_it_is_used(tmp_path: Path) -> None:
    file = open_file(tmp_path / "notes.db")
    assert run_in_child(lambda: None) == 0
    (tmp_path / "notes.db").unlink()
    (tmp_path / "notes.db").mkdir()
    for use in (read, lambda file: write(file, "x")):
        with pytest.raises(DependencyFailed, match=r"the notes .* unable to open"):
            use(file)
    assert file.reserve() is False
    (tmp_path / "notes.db").rmdir()
    write(file, "x")
    assert read(file) == ["x"]
    file.close()


class Slow(type(Path())):  # type: ignore[misc]
    """A path of which a thread learns the name, or whether it exists, when the event has come."""

    reached: Event
    until: Event

    def wait(self) -> None:
        self.reached.set()
        assert self.until.wait(60)

    def exists(self, **options: Any) -> bool:
        self.wait()
        return bool(super().exists(**options))

    def __hash__(self) -> int:
        self.wait()
        return super().__hash__()


STS, TARGET = Settings("sts", "eu-west-1"), Target("the thing 'x'", "x", "allow it")
SHARED: dict[str, Callable[[Any], object]] = {
    "sessions in use": StoreUse.of,
    "lock files": share_locks,
    "leases": lambda path: share_leases(str(path), path.exists),
    "private files": create_private,
    "clients for AWS": lambda path: get_shared_client(STS, TARGET, lambda _: path.exists()),
}


@pytest.mark.usefixtures("canaries")
@pytest.mark.parametrize("share", SHARED.values(), ids=SHARED)
def test_a_child_has_no_lock_of_what_a_thread_of_its_parent_looks_for(
    share: Callable[[Any], object], tmp_path: Path
) -> None:
    path = Slow(tmp_path / "slow")
    path.reached, path.until = Event(), Event()
    other = Thread(target=share, args=(path,))
    other.start()
    assert path.reached.wait(60)
    try:
        assert run_in_child(lambda: share(tmp_path / "another")) == 0
    finally:
        path.until.set()
        other.join()


class Held:
    """Something of which another one's user waits."""

    def __init__(self, *answers: bool, seen: list[Any]) -> None:
        self.answers, self.seen = list(answers), seen

    def hold(self) -> bool:
        answer = self.answers.pop(0) if self.answers else True
        self.seen.append(("hold", answer))
        return answer

    def suspend(self) -> None:
        self.seen.append("suspend")

    def let_go(self) -> None:
        self.seen.append("let go")


def test_a_fork_keeps_nobody_waiting_for_what_it_holds_while_it_waits() -> None:
    first: list[Any] = []
    second: list[Any] = []
    both = Held(True, True, seen=first), Held(False, True, seen=second)
    for one in both:
        forks.suspend_at_fork(one)
    try:
        assert run_in_child(lambda: None) == 0
    finally:
        for one in both:
            forks.forget(one)
    assert first[-3:] == second[-3:] == [("hold", True), "suspend", "let go"]
    # Whichever was asked first was let go when the other one was not to be had.
    assert first[:-3] in ([], [("hold", True), "let go"])
    assert second[:-3] == [("hold", False)]


def test_a_fork_that_loses_patience_leaves_what_is_used_to_the_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "_PATIENCE", 0.0)
    used, idle = open_file(tmp_path / "used.db"), open_file(tmp_path / "idle.db")
    write(used, "one")
    write(idle, "one")
    done = Event()
    writer = begin_to_write(used, "of the parent", until=done)

    def work() -> None:
        assert read(used) == ["one"]
        write(idle, "two")

    try:
        assert run_in_child(work) == 0
    finally:
        done.set()
        writer.join()
    assert read(idle) == ["one", "two"]
    assert read(used) == ["one", "of the parent"]
    used.close()
    idle.close()
