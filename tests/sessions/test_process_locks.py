"""Whether the process that runs a turn still lives: in other containers, after forks and kills."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from whole_agents import NATIVE, agent, answer

from orchestrator import DependencyFailed, SessionConflict, Sessions, SQLiteStore
from orchestrator.sessions import NEVER
from orchestrator.support.process_locks import ProcessLocks, share_locks
from orchestrator.testing import FakeClock

NAMESPACE = "unshare --user --map-root-user --pid --fork --kill-child --mount-proc".split()

# A process in the middle of a turn; without /proc, if its second argument says so.
RUNNING = """
import sys
from pathlib import Path
if sys.argv[2] == "without /proc":
    read_text = Path.read_text
    def read(path, *more, **options):
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(path)
        return read_text(path, *more, **options)
    Path.read_text = read
from whole_agents import NATIVE, agent, answer
model = NATIVE.model([answer("Hello.")])
for _ in agent(model, sessions=sys.argv[1]).stream("Hello?", "s-1"):
    print("ready", flush=True)
    sys.stdin.readline()
"""

FORKING = """
import os, sys
from whole_agents import NATIVE, agent, answer
asked = agent(NATIVE.model([answer("Hello.")] * 2), sessions=sys.argv[1])
locks = asked.sessions.store.processes
name = locks.me
child = os.fork()
if not child:
    assert not locks.is_own(name)
    assert locks.is_alive(name) and locks.me != name
    sys.exit(0)  # what the parent has locked stays so
assert os.waitpid(child, 0)[1] == 0
assert locks.me == name
for _ in asked.stream("Hello?", "s-1"):
    print("ready", flush=True)
    sys.stdin.readline()
"""


# Its child says whether it lives when it was asked to, in a file.
ORPHAN = """
import os, sys
from pathlib import Path
from orchestrator.support.process_locks import ProcessLocks
locks = ProcessLocks(Path(sys.argv[1]))
name = locks.me
read, write = os.pipe()
if not os.fork():
    os.close(write)
    before = locks.is_alive(name)
    print("ready", flush=True)
    os.read(read, 1)  # its end is its parent's
    Path(sys.argv[2]).write_text(f"{before} {locks.is_alive(name)}")
    sys.exit(0)
sys.stdin.readline()
"""


@contextmanager
def child(
    script: str, *arguments: object, prefix: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    """A process that has printed that it is in the middle of a turn."""
    here = Path(__file__).resolve()
    paths = [str(here.parents[1]), str(here.parents[2])]
    with subprocess.Popen(
        [*prefix, sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def locks_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.lock"))


def nobody(*_: Any) -> None:
    raise ProcessLookupError


def somebody(*_: Any) -> None:
    """What `os.kill` says of a process id that another process has now."""


def test_a_turn_is_not_taken_over_from_another_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = agent(NATIVE.model([answer("Never.")]), sessions=tmp_path / "s.db")
    with child(RUNNING, tmp_path / "s.db", ""):
        # The same host name, and process ids that mean others: Docker's containers of one pod.
        monkeypatch.setattr(os, "kill", nobody)
        for question in ("Hello?", "Something else?"):
            with pytest.raises(SessionConflict, match="busy in another process"):
                asked.invoke(question, "s-1")
        monkeypatch.undo()


@pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run([*NAMESPACE, "true"]).returncode != 0,
    reason="this user may not make process id namespaces",
)
def test_a_turn_of_another_namespace_is_its_own_until_its_process_is_killed(
    tmp_path: Path,
) -> None:
    # Its process id there is 1, which is somebody else's here.
    asked = agent(NATIVE.model([answer("Hello.")]), sessions=tmp_path / "s.db")
    with child(RUNNING, tmp_path / "s.db", "", prefix=NAMESPACE) as process:
        with pytest.raises(SessionConflict, match="busy in another process"):
            asked.invoke("Hello?", "s-1")
        process.kill()
        process.wait()
        assert process.stdout is not None and process.stdout.read() == ""  # all of it has ended
    assert asked.invoke("Hello?", "s-1").text == "Hello."


def test_a_process_id_that_another_process_has_now_holds_no_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with child(RUNNING, tmp_path / "s.db", "without /proc") as process:
        process.kill()
        process.wait()
    read_text = Path.read_text

    def read(path: Path, *more: Any, **options: Any) -> str:
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(path)
        return read_text(path, *more, **options)

    monkeypatch.setattr(Path, "read_text", read)
    monkeypatch.setattr(os, "kill", somebody)
    asked = agent(NATIVE.model([answer("Hello.")]), sessions=tmp_path / "s.db")
    assert asked.invoke("Hello?", "s-1").text == "Hello."


def test_a_process_and_the_server_on_its_file_see_each_other(tmp_path: Path) -> None:
    from orchestrator.server.settings import Settings
    from orchestrator.server.state import ServerState

    label = f"{agent(NATIVE.model([])).plan.owner}/s-1"
    with child(RUNNING, tmp_path / "s.db", "") as process:
        with ServerState(Settings(state=tmp_path / "s.db")) as server:
            session = server.sessions.acquire(label, NEVER)
            with pytest.raises(SessionConflict, match="busy in another process"):
                server.sessions.refuse_running(session)
            process.send_signal(signal.SIGKILL)
            process.wait()
            server.sessions.refuse_running(session)
            server.sessions.release(session)


def test_a_fork_is_another_process_and_frees_nothing_of_its_parent(tmp_path: Path) -> None:
    asked = agent(NATIVE.model([answer("Hello.")]), sessions=tmp_path / "s.db")
    with child(FORKING, tmp_path / "s.db") as process:
        with pytest.raises(SessionConflict, match="busy in another process"):
            asked.invoke("Hello?", "s-1")
        process.kill()
        process.wait()
    assert asked.invoke("Hello?", "s-1").text == "Hello."


def test_a_fork_sees_that_its_parent_has_died(tmp_path: Path) -> None:
    with child(ORPHAN, tmp_path / "locks", tmp_path / "seen") as process:
        process.kill()
        assert process.stdout is not None
        assert process.stdout.read() == ""  # the child has ended, too
    assert (tmp_path / "seen").read_text() == "True False"


def test_a_process_that_ends_leaves_no_lock_file(tmp_path: Path) -> None:
    with child(RUNNING, tmp_path / "s.db", "") as process:
        assert len(locks_in(tmp_path / "s.db-processes")) == 1
        process.communicate("\n" * 99)
    assert locks_in(tmp_path / "s.db-processes") == []


def test_the_stores_of_one_process_on_one_file_are_one_process(tmp_path: Path) -> None:
    first, second = (SQLiteStore(tmp_path / "s.db") for _ in range(2))
    assert first.processes is second.processes
    name = first.processes.me
    assert locks_in(tmp_path / "s.db-processes") == [f"{name}.lock"]
    another = ProcessLocks(tmp_path / "s.db-processes")
    assert another.is_alive(name)
    for store in (first, second):
        store.close()
    del first, second, store
    assert another.is_alive(name) is False
    another.close()


def test_lock_files_of_the_dead_are_removed_after_a_day(tmp_path: Path) -> None:
    living = ProcessLocks(tmp_path)
    dead, young = tmp_path / f"{'a' * 32}.lock", tmp_path / f"{'b' * 32}.lock"
    for path in (dead, young):
        path.touch()
    for path in (dead, tmp_path / f"{living.me}.lock"):
        os.utime(path, (1, 1))
    another = ProcessLocks(tmp_path)
    assert locks_in(tmp_path) == sorted([dead.name, young.name, f"{living.me}.lock"])
    names = [young.name, f"{living.me}.lock", f"{another.me}.lock"]
    assert locks_in(tmp_path) == sorted(names)
    for locks in (living, another):
        locks.close()


def test_reading_a_session_takes_no_lock(tmp_path: Path) -> None:
    with child(RUNNING, tmp_path / "s.db", ""):
        sessions = Sessions.of(tmp_path / "s.db")
        (info,) = sessions.store.list()
        log = sessions.peek(info.label).open
        assert log is not None and sessions.is_running(log)
        assert len(locks_in(tmp_path / "s.db-processes")) == 1  # the other process's


def test_a_folder_that_cannot_be_made_is_a_typed_error_before_anything_is_spent(
    tmp_path: Path,
) -> None:
    (tmp_path / "s.db-processes").write_text("no folder")
    model = NATIVE.model([answer("Never.")])
    asked = agent(model, sessions=tmp_path / "s.db")
    with pytest.raises(DependencyFailed, match="check that its folder is writable") as failed:
        asked.invoke("Hello?", "s-1")
    assert str(failed.value.resource).startswith(str(tmp_path / "s.db-processes"))
    assert model.requests == []


def test_a_lock_that_cannot_be_looked_at_holds_its_turn_until_its_lease_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    holder = ProcessLocks(tmp_path / "s.db-processes")
    store = SQLiteStore(tmp_path / "s.db")
    asked = agent(NATIVE.model([answer("Mine.")]), sessions=Sessions(store, clock=clock))
    turn = {
        "kind": "turn",
        "id": "0c9e7d0a-2f4e-4bb1-9d2c-0a61f7c0a001",
        "at": clock.now,
        "question": "Hm?",
        "attributes": {},
        "prompt_attributes": {},
        "owner": holder.me,
        "until": clock.now + 10,
    }
    label = f"{asked.plan.owner}/s-1"
    store.append(asked.sessions.key(label), 0, [turn], label=label)
    connect = sqlite3.connect

    def refuse(path: Any, *more: Any, **options: Any) -> sqlite3.Connection:
        if str(path).endswith("mode=ro"):
            raise sqlite3.OperationalError("unable to open database file")
        return connect(path, *more, **options)

    monkeypatch.setattr(sqlite3, "connect", refuse)
    with pytest.raises(SessionConflict, match="busy in another process"):
        asked.invoke("Hm?", "s-1")
    clock.now += 10
    assert asked.invoke("Hm?", "s-1").text == "Mine."
    holder.close()


def test_what_is_in_memory_alone_has_no_lock_files(tmp_path: Path) -> None:
    asked = agent(NATIVE.model([answer("Hello.")]), sessions=Sessions(SQLiteStore(":memory:")))
    assert asked.invoke("Hello?", "s-1").text == "Hello."
    assert share_locks(tmp_path) is share_locks(tmp_path)
    assert locks_in(tmp_path) == []
