"""Runs one program in a sandbox's process, and ends it when it must end."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import IO, Any

from orchestrator.actions.code_interpreter.disk_usage import check_hidden_usage
from orchestrator.actions.code_interpreter.files import check_size
from orchestrator.actions.code_interpreter.output import Output
from orchestrator.actions.code_interpreter.settings import CodeInterpreterSettings
from orchestrator.actions.code_interpreter.storage import Storage, bounds

__all__ = ["LAYERS", "Outcome", "Refusal", "Run", "check_platform"]

LAYERS = ("namespaces", "landlock")
"""What confines files; each is tried, and at least one must hold."""

_TICK = 0.05  # seconds between two looks at the limits
_CHUNK = 1 << 16
_MACHINES = ("x86_64", "aarch64")
_OPEN_FILES = 128
# A range of users that systems leave free for programs (systemd: dynamic users).
_FIRST_USER, _USERS = 61184, 4336
_START = """
import sys
sys.path.insert(0, sys.argv[1])
from jail.main import main
main(int(sys.argv[2]))
"""


class Refusal(Exception):
    """No sandbox could be made, and the code did not run; its text says why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended.

    Attributes:
        output: Its standard output.
        error: Its standard error, with the traceback when it raised.
        stopped: Why it was ended, for the model; empty when it ended by itself.
        timeout: Whether its time was up.
        isolation: What the sandbox was made of: `namespaces`, `landlock`, `seccomp`; nothing when
            the program was ended before it began.
    """

    output: str
    error: str
    stopped: str
    timeout: bool
    isolation: tuple[str, ...]


@cache
def check_platform() -> str:
    """Why there can be no sandbox on this machine; empty when there may be one."""
    if sys.platform != "linux":
        return f"there is no sandbox for the platform {sys.platform!r}, only for Linux"
    machine = os.uname().machine
    if machine not in _MACHINES or sys.maxsize < 1 << 32:
        return f"there is no sandbox for {machine!r} machines, only for {' and '.join(_MACHINES)}"
    if getattr(sys, "frozen", False) or not _python():
        return "there is no Python executable to run code with"
    return ""


def _python() -> str:
    """The Python that runs code: this one, outside its virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable or "")


def _packages() -> list[str]:
    found = (sysconfig.get_path(name) for name in ("purelib", "platlib"))
    return list(dict.fromkeys(os.path.realpath(path) for path in found if os.path.isdir(path)))


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a program.

    Attributes:
        code: The program.
        settings: Its limits.
        until: When it is ended at the latest, on the monotonic clock; or when the setting
            `seconds` have passed since the sandbox was ready.
        output_bytes: How much of each of its outputs is kept.
        stopping: Asked often; when it says so, the program is ended.
    """

    code: str
    settings: CodeInterpreterSettings
    until: float
    output_bytes: int
    stopping: Callable[[], bool]

    def run(self, base: Path, folder: Path, storage: Storage) -> Outcome:
        """Runs the program to its end; then its process is gone.

        Args:
            base: The private folder, with `root` and `probe`.
            folder: The session's scratch folder.
            storage: What is in it, and where the program uses it.

        Raises:
            Refusal: There is no sandbox, and the code did not run.
        """
        status, theirs = socket.socketpair()
        with status:
            with theirs:
                process = self._start(base, folder, theirs.fileno())
            watched = _ProcessMonitor(process, status, self, storage)
            try:
                why = watched.watch(partial(self._too_large, folder, storage))
            finally:
                watched.end()
        if why and not watched.text("status").strip():
            return Outcome("", "", f"{why}, before it began", why == _TIME, ())
        isolation = _isolation(watched.text("status"))
        late = why == _TIME or process.returncode == -signal.SIGXCPU
        if why == _TIME:
            why = f"it was stopped after {watched.seconds():.1f} seconds"
        stopped = why or _explain_signal(process.returncode, self.settings)
        return Outcome(watched.text("stdout"), watched.text("stderr"), stopped, late, isolation)

    def _start(self, base: Path, folder: Path, status: int) -> subprocess.Popen[bytes]:
        flags = ["-I", "-S", "-B", "-X", "utf8"]
        own = str(Path(__file__).parent)
        with tempfile.TemporaryFile(dir=base) as job:
            job.write(json.dumps(self._job(base, folder)).encode())
            job.seek(0)
            return subprocess.Popen(
                [_python(), *flags, "-c", _START, own, str(status)],
                stdin=job,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(status,),
                cwd=folder,
                env=_environment(folder),
                start_new_session=True,
            )

    def _job(self, base: Path, folder: Path) -> dict[str, Any]:
        return {
            "code": self.code,
            "parent": os.getpid(),
            "layers": list(LAYERS),
            "packages": _packages() if self.settings.packages else [],
            "scratch": str(folder),
            "bounds": bounds(self.settings),
            "root": str(base / "root"),
            "outside": str(base),
            "user": _FIRST_USER + os.getpid() % _USERS,
            "limits": self._limits(),
        }

    def _limits(self) -> dict[str, int]:
        settings = self.settings
        return {
            "AS": settings.memory_bytes,
            "CPU": settings.cpu_seconds,
            "FSIZE": settings.scratch_bytes,
            "NOFILE": _OPEN_FILES,
            # Where the kernel counts the threads of the user, and not of this execution, those
            # that there are already must not use the limit up.
            "NPROC": _threads_of_all() + settings.threads,
            **dict.fromkeys(("CORE", "MEMLOCK", "MSGQUEUE"), 0),
        }

    def _too_large(self, folder: Path, storage: Storage, process: int) -> str:
        """Why the program uses too much of the disk; empty when it does not."""
        most = self.settings.scratch_bytes
        if not storage.bounded and (why := check_hidden_usage(process, folder, most)):
            return why
        return check_size(storage.used, most, self.settings.scratch_files)


def _environment(folder: Path) -> dict[str, str]:
    """All variables that the program sees."""
    cached = f"{folder}/.cache"
    return {
        **dict.fromkeys(("HOME", "TMPDIR"), str(folder)),
        "XDG_CACHE_HOME": cached,
        "MPLCONFIGDIR": f"{cached}/matplotlib",
        "MPLBACKEND": "Agg",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        # Every thread of these libraries reserves address space.
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        "MALLOC_ARENA_MAX": "2",
    }


_TIME = "its time was up"


class _ProcessMonitor:
    """A process whose output is read while its limits are looked at."""

    def __init__(
        self, process: subprocess.Popen[bytes], status: socket.socket, run: Run, storage: Storage
    ) -> None:
        self._process = process
        self._status = status
        self._storage = storage
        self._begun = False
        self._run = run
        self._until = run.until
        self._ready = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._outputs: dict[str, Output] = {}
        streams: dict[str, IO[bytes] | socket.socket | None] = {
            "status": status,
            "stdout": process.stdout,
            "stderr": process.stderr,
        }
        for name, stream in streams.items():
            assert stream is not None  # both are pipes
            self._outputs[name] = Output(_CHUNK if name == "status" else run.output_bytes)
            self._selector.register(stream, selectors.EVENT_READ, name)

    def text(self, name: str) -> str:
        """What was read of `status`, `stdout` or `stderr`."""
        return self._outputs[name].text()

    def seconds(self) -> float:
        """For how long the program has been running."""
        return time.monotonic() - self._ready

    def watch(self, too_large: Callable[[int], str]) -> str:
        """Waits for the end; says why the process must be ended, or nothing."""
        look = time.monotonic() + _TICK
        while not self._poll():
            now = time.monotonic()
            if now >= self._until:
                return _TIME
            if now >= look:
                if self._run.stopping():
                    return "it was cancelled"
                if self._begun and (why := too_large(self._process.pid)):
                    return why
                look = time.monotonic() + _TICK
        return ""

    def _poll(self) -> bool:
        """Reads what there is, or waits a little; whether the process has ended."""
        if not self._selector.get_map():  # it may close its output and go on
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_TICK)
            return self._process.returncode is not None
        for key, _ in self._selector.select(_TICK):
            data = self._read_status() if key.data == "status" else os.read(key.fd, _CHUNK)
            self._outputs[key.data].take(data)
            if not data:
                self._selector.unregister(key.fileobj)
                if key.data == "status":  # the sandbox is ready, and the program begins
                    self._begun = True
                    self._ready = time.monotonic()
                    self._until = min(self._until, self._ready + self._run.settings.seconds)
        return False

    def _read_status(self) -> bytes:
        """What the sandbox says; with a file system that it has made, it waits for the files."""
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        try:
            data, given, _, _ = socket.recv_fds(self._status, _CHUNK, 1, flags)
        except ConnectionResetError:  # it ended without reading an answer
            return b""
        for folder in given:
            self._storage.move(folder)
            with suppress(BrokenPipeError):
                self._status.send(b"\n")
        return data

    def end(self) -> None:
        """Ends the process, if it has not ended, and waits for it."""
        process = self._process
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # it leads a group of its own
            process.wait()
        self._selector.close()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _isolation(status: str) -> tuple[str, ...]:
    """What the sandbox was made of, as the process said before it ran the code.

    Raises:
        Refusal: There was none.
    """
    if not status.strip():
        raise Refusal("the sandbox's process ended before it was ready")
    answer = json.loads(status)
    if "refused" in answer:
        raise Refusal(answer["refused"])
    return tuple(answer["isolation"])


def _explain_signal(code: int, settings: CodeInterpreterSettings) -> str:
    """What a signal that ended the program means."""
    if code >= 0:
        return ""
    if code == -signal.SIGXCPU:
        return f"it used up its {settings.cpu_seconds} seconds of processor time"
    if code == -signal.SIGKILL:
        return "the system ended it: it used too much memory or processor time"
    return f"it crashed ({signal.Signals(-code).name})"


def _threads_of_all() -> int:
    """How many threads the system has."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, IndexError, ValueError):
        return 1024
