"""Lambda handlers in processes of their own, as AWS Lambda runs them.

The working directory is the folder of the code, `sys.path` begins with it, and a process has one
call at a time and is used again while it is warm. What a handler changes of its process, it changes
for itself; one that hangs is ended. The child is `lambda_worker.py`, which speaks lines of JSON.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.actions.handlers import LambdaHandler
from orchestrator.actions.lambda_contract import DONE, LARGEST_PAYLOAD
from orchestrator.actions.lambda_environment import (
    LONGEST_SECONDS,
    LambdaContext,
    lambda_variables,
)
from orchestrator.errors import ActionOutcomeUnknown, DefinitionError, DependencyFailed
from orchestrator.support.encryption import KEYS as ENCRYPTION_KEYS
from orchestrator.support.load_errors import (
    describe_load_error,
    report_load_error,
    reports_load_errors,
)
from orchestrator.support.logs import get_logger
from orchestrator.support.safe_json import json_or
from orchestrator.support.user_code import describe_type, is_debugging

MOST_PROCESSES = 4
"""How many processes one handler has at most: as many of its calls run at once."""

MOST_WARM = 16
"""How many processes of all handlers wait for their next call; the oldest are ended."""

_log = get_logger("orchestrator.handler")
_PROGRAM = Path(__file__).with_name("lambda_worker.py")
_CHUNK = 1 << 16
_LONGEST_LINE = 10_000  # characters of a line of the log
_MOST_REST = 2  # chunks of output that are read after an answer: as much as a pipe holds


class LambdaProcess(LambdaHandler):
    """Runs a Lambda handler file in a process of its own, with Bedrock's event and response.

    The file is checked when the handler is made; the first call starts the process, and runs the
    file in it. What it prints and logs goes to the logger `orchestrator.handler`. It needs a system
    with process groups: Linux or macOS.
    """

    def __init__(
        self,
        path: str | Path,
        function: str = "lambda_handler",
        *,
        environment: Mapping[str, str] | None = None,
        root: str | Path | None = None,
        processes: int = MOST_PROCESSES,
    ) -> None:
        """Makes the executor.

        Args:
            path: The handler's file, as for `LambdaHandler`.
            function: The handler function in it.
            environment: Its environment variables, besides those of this process.
            root: The folder that the file must be in, after links are resolved.
            processes: How many calls of it run at once; further ones wait.

        Raises:
            DefinitionError: There is no such file or function, as for `LambdaHandler`, or this
                system cannot run handlers in processes.
        """
        super().__init__(path, function, environment=environment, root=root)
        if not has_processes():
            raise DefinitionError("handlers run in their own processes on Linux and macOS only")
        self._places = threading.BoundedSemaphore(processes)
        self._warm_key = object()
        weakref.finalize(self, _warm.end_all, self._warm_key)

    def __repr__(self) -> str:
        return f"LambdaProcess({self.file.name!r}, {self.function!r})"

    def close(self) -> None:
        """Ends the processes that wait for a call; the next call starts one again."""
        _warm.end_all(self._warm_key)

    def invoke(
        self,
        event: dict[str, Any],
        about: LambdaContext,
        *,
        resource: str = "",
    ) -> Any:
        """What the handler returns for an event, as JSON data.

        Raises:
            DependencyFailed: The handler raised, ended its process, or returned what has no JSON
                form; or no process was free in time, and nothing was begun.
            ActionOutcomeUnknown: The time was up, and the process was ended.
        """
        seconds = min(about.get_remaining_time_in_millis() / 1000, LONGEST_SECONDS)
        until = time.monotonic() + seconds
        name = resource or self.name
        request = _make_request(event, about, until)
        if len(request) > LARGEST_PAYLOAD:
            raise _fail(name, f"was not called: its event has more than {LARGEST_PAYLOAD} bytes")
        if not self._places.acquire(timeout=seconds):
            raise _fail(name, "was not begun: all processes of its handler are busy")
        try:
            return self._read(self._ask(request, about, until, name), name)
        finally:
            self._places.release()

    def _ask(self, request: bytes, about: LambdaContext, until: float, name: str) -> Any:
        worker = self._take_warm() or self._start(about)
        try:
            line = worker.ask(request, until)
        except TimeoutError:
            raise ActionOutcomeUnknown(
                f"the action {name!r} did not answer before its time was up, and its process was "
                "ended; it may have taken effect",
                resource=name,
            ) from None
        except EOFError:
            ended = worker.describe_end()
            raise _fail(name, f"ended its process ({ended}); its log may say why") from None
        answer = json_or(line.decode("utf-8", "replace"), None)
        # After `sys.exit`, or an error while its file ran, a process is not as it was meant.
        if isinstance(answer, dict) and not answer.get("ended"):
            _warm.keep(self._warm_key, worker)
        else:
            worker.end()
        return answer

    def _take_warm(self) -> _Worker | None:
        # One that has ended while it waited, such as for want of memory, fails no call.
        while (worker := _warm.take(self._warm_key)) is not None and worker.has_ended():
            worker.end()
        return worker

    def _start(self, about: LambdaContext) -> _Worker:
        variables = lambda_variables(self.file, self.function, about, self._environment)
        job = {
            "module": self.file.stem,
            "function": self.function,
            "most_bytes": LARGEST_PAYLOAD,
        }
        return _Worker(self.file.parent, {**_inherit(), **variables}, json.dumps(job).encode())

    def _read(self, answer: Any, name: str) -> Any:
        match answer:
            case {"returned": returned}:
                return returned
            case {"raised": str(kind), "place": str(place), "text": str(text)}:
                self._report_load_error(answer, kind[:100], place[:300])
                error = _fail(name, describe_type(kind[:100], place[:300]))
                raise error from (_make_cause(text) if text else None)
            case {"no_json": str(what)}:
                raise _fail(name, f"returned {what[:100]}, which has no JSON form")
            case {"large": int(size)}:
                return f"{DONE} has {size} bytes, and is not shown."
        raise _fail(name, "answered what is no answer")

    def _report_load_error(self, answer: Mapping[str, Any], kind: str, place: str) -> None:
        message = answer.get("message")  # there only when the file could not be loaded
        if not isinstance(message, str):
            return
        name, _, line = place.rpartition(":")
        file, number = (
            (self.file.parent / name, int(line)) if line.isdecimal() else (self.file, None)
        )
        report_load_error(
            describe_load_error(kind, message, file, number, environment=self._environment)
        )


def has_processes() -> bool:
    """Whether handlers can run in processes of their own on this system."""
    return hasattr(os, "killpg") and bool(sys.executable) and not getattr(sys, "frozen", False)


class _Traceback(Exception):
    """The traceback of another process, for debugging."""


def _make_cause(text: str) -> _Traceback:
    # A turn keeps only a cause that was raised.
    try:
        raise _Traceback(text)
    except _Traceback as cause:
        return cause


def _fail(name: str, what: str) -> DependencyFailed:
    return DependencyFailed(f"the action {name!r} {what}", resource=name)


_CONTEXT = (
    *("function_name", "function_version", "memory_limit_in_mb", "aws_request_id"),
    *("invoked_function_arn", "log_group_name", "log_stream_name", "identity", "client_context"),
)


def _make_request(event: Mapping[str, Any], about: LambdaContext, until: float) -> bytes:
    request = {
        "event": event,
        "context": {name: getattr(about, name) for name in _CONTEXT},
        "seconds": until - time.monotonic(),
        "debug": is_debugging(),
        "reports_load_errors": reports_load_errors(),
    }
    return json.dumps(request, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"


class _Worker:
    """A process, and the socket and the pipe to it."""

    def __init__(self, folder: Path, environment: Mapping[str, str], job: bytes) -> None:
        self._socket, theirs = socket.socketpair()
        flags = ["-u", "-B", "-P", "-X", "utf8"]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *flags, str(_PROGRAM), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                pass_fds=(theirs.fileno(),),
                cwd=folder,
                env=dict(environment),
                start_new_session=True,
            )
        assert self._process.stdout is not None
        self._output = self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._line = b""
        self._job = job + b"\n"

    def ask(self, request: bytes, until: float) -> bytes:
        """The line that answers a request.

        Raises:
            TimeoutError: The time was up; the process is ended.
            EOFError: The process ended.
        """
        try:
            self._socket.settimeout(max(until - time.monotonic(), 0.001))
            self._socket.sendall(self._job + request)
            self._job = b""
            answer = self._receive(until)
            self._log_rest()
        except (ConnectionError, EOFError):
            self._log_rest()
            self.end()
            raise EOFError from None
        except BaseException:  # also of whoever waits, such as Ctrl-C
            self._log_rest()
            self.end()
            raise
        return answer

    def _receive(self, until: float) -> bytes:
        received = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            selector.register(self._output, selectors.EVENT_READ)
            while True:
                left = until - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                for key, _ in selector.select(left):
                    if key.fileobj is self._output:
                        if not self._log_output():
                            selector.unregister(self._output)
                        continue
                    if not (data := self._socket.recv(_CHUNK)):
                        raise EOFError
                    received += data
                    # A little more than the largest answer, for the names around it.
                    if len(received) > LARGEST_PAYLOAD + _CHUNK:
                        raise EOFError
                    if received.endswith(b"\n"):
                        return bytes(received)

    def _log_output(self) -> bool:
        """Logs what can be read at once; false when there will be no more."""
        # One chunk only: who prints without end must not keep the clock from being looked at.
        try:
            data = self._output.read(_CHUNK)
        except (BlockingIOError, ValueError):
            return True
        if data:
            *lines, self._line = (self._line + data).split(b"\n")
            for line in lines:
                self._log_line(line)
            self._line = self._line[:_LONGEST_LINE]
        return data != b""

    def _log_rest(self) -> None:
        for _ in range(_MOST_REST):
            if not self._log_output():
                break
        if self._line:
            self._log_line(self._line)
            self._line = b""

    def _log_line(self, line: bytes) -> None:
        if _log.isEnabledFor(logging.INFO):
            _log.info("%s", line.decode("utf-8", "replace")[:_LONGEST_LINE])

    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def describe_end(self) -> str:
        """How the process ended."""
        code = self._process.returncode
        return f"exit status {code}" if code >= 0 else signal.Signals(-code).name

    def end(self) -> None:
        """Ends the process and all of its group at once."""
        self._socket.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.05)  # one that ends by itself says how
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._output.close()

    def forget(self) -> None:
        """In a forked process: closes the socket, which is the other process's."""
        self._socket.close()


class _Entry(NamedTuple):
    key: object
    worker: _Worker


class _Warm:
    """The processes that wait for a call, those that have waited longest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[_Entry] = []
        self._others: list[_Entry] = []  # of the process that this one was forked from

    def take(self, key: object) -> _Worker | None:
        """The one that waits shortest; its memory is the most likely to be there still."""
        with self._lock:
            for index in reversed(range(len(self._waiting))):
                if self._waiting[index].key is key:
                    return self._waiting.pop(index).worker
        return None

    def keep(self, key: object, worker: _Worker) -> None:
        with self._lock:
            self._waiting.append(_Entry(key, worker))
            surplus = self._waiting[:-MOST_WARM]
            self._waiting = self._waiting[-MOST_WARM:]
        for entry in surplus:
            entry.worker.end()

    def end_all(self, key: object) -> None:
        with self._lock:
            ended = [entry for entry in self._waiting if entry.key is key]
            self._waiting = [entry for entry in self._waiting if entry.key is not key]
        for entry in ended:
            entry.worker.end()

    def forget_all(self) -> None:
        """In a forked process, which has none of these."""
        self._lock = threading.Lock()
        self._others += self._waiting
        self._waiting = []
        for entry in self._others:
            entry.worker.forget()


_warm = _Warm()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_warm.forget_all)


def _inherit() -> dict[str, str]:
    # The key of everybody's conversations is no handler's business.
    return {name: value for name, value in os.environ.items() if name != ENCRYPTION_KEYS}
