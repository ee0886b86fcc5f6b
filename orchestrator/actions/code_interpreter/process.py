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

from orchestrator.actions.code_interpreter.files import check_size
from orchestrator.actions.code_interpreter.settings import CodeInterpreterSettings
from orchestrator.actions.code_interpreter.storage import Storage, bounds, check_hidden_usage

# What confines files; each is tried, and at least one must hold.
LAYERS = ("namespaces", "landlock")

_TICK = 0.05  # seconds between two looks at the limits
_CHUNK = 1 << 16
_MACHINES = ("x86_64", "aarch64")
_OPEN_FILES = 128
# The exit status where the sandbox has written to standard error why a program failed. Programs
# themselves hardly end with it.
_EXPLAINED = 201
# A range of users that systems leave free for programs (systemd: dynamic users).
_FIRST_USER, _USERS = 61184, 4336
_VERSIONED = f"python{sys.version_info[0]}.{sys.version_info[1]}"
_FOR_ALL = ("/usr/local/bin", "/usr/bin")
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
    """How a program ended."""

    output: str  # its standard output
    error: str  # its standard error, with the traceback when it raised
    stopped: str  # why it was ended, for the model; empty when it ended by itself
    timeout: bool  # whether its time was up
    # What the sandbox was made of: `namespaces`, `landlock`, `seccomp`; nothing when the program
    # was ended before it began
    isolation: tuple[str, ...]
    failed: bool = False  # whether it raised, or ended with another exit status than 0


@cache
def check_platform() -> str:
    """Why there can be no sandbox on this machine; empty when there may be one."""
    if sys.platform != "linux":
        return f"there is no sandbox for the platform {sys.platform!r}, only for Linux"
    machine = os.uname().machine
    if machine not in _MACHINES or sys.maxsize < 1 << 32:
        return f"there is no sandbox for {machine!r} machines, only for {' and '.join(_MACHINES)}"
    if getattr(sys, "frozen", False) or not _base_python():
        return "there is no Python executable to run code with"
    if not _find_python():
        return _explain_access()
    try:
        _packages()  # while what it needs can be imported
    except ImportError as error:
        return f"{_explain_access()} ({error})"
    return ""


# Outside of its virtual environment, so that only `packages` says what can be imported.
def _base_python() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable or "")


# A process that has given up root may not run what is below root's home any more; then a Python of
# the same version does that is installed for all users, which imports the same packages.
def _find_python() -> str:
    paths = (_base_python(), *(f"{folder}/{_VERSIONED}" for folder in _FOR_ALL))
    return next((path for path in paths if os.access(path, os.X_OK)), "")


def _explain_access() -> str:
    return (
        f"{_base_python()!r} or its library cannot be used by the user {os.geteuid()}; make them "
        f"and the folders above readable and executable for it, or install {_VERSIONED} in "
        f"{_FOR_ALL[0]}"
    )


@cache
def _packages() -> list[str]:
    found = (sysconfig.get_path(name) for name in ("purelib", "platlib"))
    return list(dict.fromkeys(os.path.realpath(path) for path in found if os.path.isdir(path)))


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a program."""

    code: str  # the program
    settings: CodeInterpreterSettings  # its limits
    # When it is ended at the latest, on the monotonic clock; or when the setting `seconds` have
    # passed since the sandbox was ready
    until: float
    output_bytes: int  # how many bytes of each of its outputs are stored
    stopping: Callable[[], bool]  # asked often; when it says so, the program is ended

    def run(self, base: Path, folder: Path, storage: Storage) -> Outcome:
        """Runs the program to its end; then its process is gone.

        `base` is the private folder with `root` and `probe`, `folder` the session's scratch folder,
        and `storage` says what is in it. Raises `Refusal` when there is no sandbox.
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
        errors = watched.text("stderr")
        is_explained = process.returncode == _EXPLAINED and errors.strip()
        if process.returncode > 0 and not is_explained:  # `os._exit` says nothing of it
            stopped = stopped or f"it ended with the exit status {process.returncode}"
        failed = process.returncode != 0
        return Outcome(watched.text("stdout"), errors, stopped, late, isolation, failed)

    def _start(self, base: Path, folder: Path, status: int) -> subprocess.Popen[bytes]:
        flags = ["-I", "-S", "-B", "-X", "utf8"]
        own = str(Path(__file__).parent)
        with tempfile.TemporaryFile(dir=base) as job:
            job.write(json.dumps(self._job(base, folder)).encode())
            job.seek(0)
            try:
                return subprocess.Popen(
                    [_find_python(), *flags, "-c", _START, own, str(status)],
                    stdin=job,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=(status,),
                    cwd=folder,
                    env=_environment(folder),
                    start_new_session=True,
                )
            except OSError:
                raise Refusal(_explain_access()) from None

    def _job(self, base: Path, folder: Path) -> dict[str, Any]:
        return {
            "code": self.code,
            "parent": os.getpid(),
            "layers": list(LAYERS),
            "packages": _packages() if self.settings.packages else [],
            "scratch": str(folder),
            "bounds": bounds(self.settings),
            "kept": {
                "bytes": self.settings.scratch_bytes,
                "files": self.settings.scratch_files,
            },
            "root": str(base / "root"),
            "outside": str(base),
            "user": _FIRST_USER + os.getpid() % _USERS,
            "limits": self._limits(),
            "explained": _EXPLAINED,
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
        most = self.settings.scratch_bytes
        if not storage.bounded and (why := check_hidden_usage(process, folder, most)):
            return why
        return check_size(storage.used, most, self.settings.scratch_files)


def _environment(folder: Path) -> dict[str, str]:
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
    def __init__(
        self, process: subprocess.Popen[bytes], status: socket.socket, run: Run, storage: Storage
    ) -> None:
        assert process.stdout is not None and process.stderr is not None  # both are pipes
        self._process = process
        self._status = status
        self._storage = storage
        self._begun = False
        self._run = run
        self._until = run.until
        self._ready = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._outputs: dict[str, Output] = {}
        streams: dict[str, IO[bytes] | socket.socket] = {
            "status": status,
            "stdout": process.stdout,
            "stderr": process.stderr,
        }
        for name, stream in streams.items():
            self._outputs[name] = Output(_CHUNK if name == "status" else run.output_bytes)
            self._selector.register(stream, selectors.EVENT_READ, name)

    def text(self, name: str) -> str:
        return self._outputs[name].text()

    def seconds(self) -> float:
        return time.monotonic() - self._ready

    def watch(self, too_large: Callable[[int], str]) -> str:
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

    # With a file system that the sandbox has made, it waits for the session's files.
    def _read_status(self) -> bytes:
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        try:
            data, descriptors, _, _ = socket.recv_fds(self._status, _CHUNK, 1, flags)
        except ConnectionResetError:  # it ended without reading an answer
            return b""
        for folder in descriptors:
            self._storage.move(folder)
            with suppress(BrokenPipeError):
                self._status.send(b"\n")
        return data

    def end(self) -> None:
        process = self._process
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # it leads a group of its own
            process.wait()
        self._selector.close()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


# The process says before it runs the code what the sandbox was made of.
def _isolation(status: str) -> tuple[str, ...]:
    if not status.strip():
        raise Refusal(f"the sandbox's process ended before it was ready ({_find_python()!r})")
    answer = json.loads(status)
    if "refused" in answer:
        raise Refusal(answer["refused"])
    return tuple(answer["isolation"])


def _explain_signal(code: int, settings: CodeInterpreterSettings) -> str:
    if code >= 0:
        return ""
    if code == -signal.SIGXCPU:
        return f"it used up its {settings.cpu_seconds} seconds of processor time"
    if code == -signal.SIGKILL:
        return "the system ended it: it used too much memory or processor time"
    return f"it crashed ({signal.Signals(-code).name})"


# `RLIMIT_NPROC` counts all threads of a user, on the whole system.
def _threads_of_all() -> int:
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, IndexError, ValueError):
        return 1024


class Output:
    """Keeps the beginning and the end of a stream of bytes."""

    __slots__ = ("_first", "_half", "_last", "_left_out")

    def __init__(self, most: int) -> None:
        # The beginning says what the program did, and the end how it ended.
        self._half = max(most // 2, 1)
        self._first = bytearray()
        self._last = bytearray()
        self._left_out = 0

    def take(self, data: bytes) -> None:
        """Takes what was printed next."""
        free = self._half - len(self._first)
        self._first += data[:free] if free > 0 else b""
        self._last += data[max(free, 0) :]
        if (extra := len(self._last) - self._half) > 0:
            self._left_out += extra
            del self._last[:extra]

    def text(self) -> str:
        """The text, which says how much was left out of its middle."""
        if not self._left_out:
            return (self._first + self._last).decode(errors="replace")
        first, last = self._first.decode(errors="ignore"), self._last.decode(errors="ignore")
        return f"{first}\n[... {self._left_out} bytes were left out here ...]\n{last}"
