"""A real PostgreSQL for tests: on a free port of this machine, in a folder that is deleted.

Debian's package has the programs; they refuse to run as root, which becomes another user for them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path

import pytest
from loopback import reserve_port
from waiting import until

USER, PASSWORD = "orchestrator", "canary-database-password-41c7"
_PROGRAMS = "/usr/lib/postgresql/*/bin"
# What a test writes need not outlive the machine.
_FAST = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "shared_buffers=16MB")


def find_programs() -> Path | str:
    """The folder of PostgreSQL's programs; a text that says why there is none."""
    if found := shutil.which("postgres"):
        return Path(found).parent
    folders = sorted(Path("/").glob(f"{_PROGRAMS[1:]}/postgres"))
    if not folders:
        return f"PostgreSQL is not installed: no program postgres in PATH or {_PROGRAMS}"
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        return "PostgreSQL refuses to run as root, and there is no setpriv to become another user"
    return folders[-1].parent


def is_up(process: subprocess.Popen[bytes], url: str) -> bool:
    """Whether the server of a process takes connections; it must not have ended."""
    import psycopg

    assert process.poll() is None, "the server has ended at once"
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


class PostgresServer:
    """A server that runs. `socket_folder` lets processes without a network reach it.

    One that `forgets` writes to its disk what has to be there, and nothing else in time.
    """

    def __init__(
        self, programs: Path, *, options: tuple[str, ...] = _FAST, forgets: bool = False
    ) -> None:
        self._programs, self._options, self._numbers = programs, options, count()
        self._forgets = forgets
        self.folder = Path(tempfile.mkdtemp(prefix="orchestrator-pg-"))
        self._prefix: list[str] = []
        if os.getuid() == 0:
            # A user of no rights, whether or not the package has made one.
            shutil.chown(self.folder, 65534, 65534)
            self._prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        # Its data are its owner's alone; the socket is for whoever has a password, or none here.
        self.folder.chmod(0o755)
        self.socket_folder = self.folder
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        authentication = ("--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile=password")
        layout = ("-D", "data", "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync")
        self._run("initdb", *layout, *authentication)
        self._reserved = ExitStack()
        self.port = self._reserved.enter_context(reserve_port())
        self._process = self._start()

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self._prefix, str(self._programs / program), *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{program}: {done.stderr[-2000:]}"

    def _start(self) -> subprocess.Popen[bytes]:
        settings = (
            *self._options,
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={self.socket_folder}",
        )
        process = subprocess.Popen(
            [*self._prefix, str(self._programs / "postgres"), "-D", "data"]
            + [it for one in settings for it in ("-c", one)],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait_until_ready(process)
        if self._forgets:
            self._wal_writer = self._find_wal_writer()
            os.kill(self._wal_writer, signal.SIGSTOP)
        return process

    def _find_wal_writer(self) -> int:
        # What writes to the disk, now and then, what no transaction waits for.
        import psycopg

        asked = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"
        with psycopg.connect(self.socket_url("postgres"), autocommit=True) as db:
            until(lambda: db.execute(asked).fetchone() is not None)
            ((pid,),) = db.execute(asked).fetchall()
        return int(pid)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        until(lambda: is_up(process, self.socket_url("postgres")))

    def url(self, database: str) -> str:
        """The URL of a database, over TCP and with the password."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def socket_url(self, database: str) -> str:
        """The URL of a database, over the socket in `socket_folder`."""
        return f"postgresql://{USER}@/{database}?host={self.socket_folder}&port={self.port}"

    def create_database(self) -> str:
        """The name of a new, empty database."""
        import psycopg

        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.socket_url("postgres"), autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}".encode())
        return name

    def restart(self) -> None:
        """Ends the server, which breaks every connection, and starts it again."""
        with self.stopped():
            pass

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Ends the server; it is started again after the `with` block."""
        self._stop()
        try:
            yield
        finally:
            self._process = self._start()

    def crash(self) -> None:
        """Ends the server as a crash does, which loses what it has not written, and starts it."""
        self._stop(signal.SIGQUIT)
        self._process = self._start()

    def _stop(self, how: signal.Signals = signal.SIGINT) -> None:
        # By itself "fast": it rolls back, writes what is left, and closes.
        self._process.send_signal(how)
        if self._forgets:  # what stands still cannot end otherwise
            os.kill(self._wal_writer, signal.SIGKILL)
        self._process.wait(timeout=60)

    def close(self) -> None:
        """Ends the server and deletes its folder."""
        self._stop()
        self._reserved.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def open_server(
    options: tuple[str, ...] = _FAST, *, forgets: bool = False
) -> Iterator[PostgresServer]:
    """A server with options; the tests that ask for it are skipped where it is missing."""
    pytest.importorskip("psycopg", reason="PostgreSQL: the extra 'postgres' is not installed")
    programs = find_programs()
    if isinstance(programs, str):
        pytest.skip(programs)
    with closing(PostgresServer(programs, options=options, forgets=forgets)) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for the tests of this process."""
    with open_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """The URL of a new, empty database."""
    return postgres_server.url(postgres_server.create_database())
