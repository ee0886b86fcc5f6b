"""Worker processes, and the process that starts them and looks after them."""

from __future__ import annotations

import logging
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Literal

import uvicorn
from uvicorn.supervisors import Multiprocess, multiprocess

from orchestrator.server import metrics
from orchestrator.support.logs import get_logger

_log = get_logger("orchestrator.server")

_ENDS = (signal.SIGTERM, signal.SIGINT)
# Seconds between looks at the workers while some of them are replaced.
_MOMENT = 0.1


class Worker(multiprocess.Process):
    """A worker process, which its supervisor looks at without waiting for it.

    Uvicorn's waits for each worker's answer in turn. While one of them starts or loads a model, it
    would see none of the others end, for as long as a minute.
    """

    has_started = False  # whether it has said that it serves
    _asked: float | None = None  # since when an answer is awaited, by the monotonic clock

    def start(self) -> None:
        """Starts the process."""
        super().start()
        # As long as this process has the worker's end of their pipe open, the pipe does not end
        # with the worker, and to wait for an answer takes its whole time.
        self.child_conn.close()

    def join(self) -> None:
        """Waits for its end; what it was doing counts no more."""
        super().join()
        metrics.forget_process(self.pid)

    def is_alive(self, timeout: float = 5) -> bool:
        """Whether the process runs, and has answered within `timeout` seconds, as far as known."""
        if not self.process.is_alive():
            return self._log_end()
        try:
            if self._asked is None:
                self.parent_conn.send(b"ping")
                self._asked = time.monotonic()
            elif self.parent_conn.poll():
                self.has_started = self.parent_conn.recv()
                self._asked = None
        except (OSError, EOFError):
            self.process.join(_MOMENT)  # it is about to end
            return self._log_end()
        if self._asked is None or time.monotonic() - self._asked < timeout:
            return True
        _log.error("worker process %d has not answered for %g seconds", self.pid, timeout)
        return False

    def _log_end(self) -> Literal[False]:
        _log.error("worker process %d ended: %s", self.pid, _describe_exit(self.exitcode))
        return False


def _has_ended(worker: multiprocess.Process) -> bool:
    return not worker.process.is_alive()


def _describe_exit(code: int | None) -> str:
    if code is None:
        return "it closed its pipe"
    if code >= 0:
        return f"its exit code is {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    # Linux says what it killed for want of memory in its own log alone.
    reason = ", which the system sends when memory is short" if name == "SIGKILL" else ""
    return f"it was killed by {name}{reason}"


class Supervisor(Multiprocess):
    """Starts worker processes, and others for those that die, until it is told to stop."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        # Tells of workers that died, and of their successors.
        log = logging.getLogger("uvicorn.error")
        log.setLevel(logging.INFO)
        multiprocess.Process = Worker  # type: ignore[misc]
        super().__init__(config, sockets)
        self._leaving: list[multiprocess.Process] = []  # in no place, with turns to finish

    def restart_all(self) -> None:
        """Replaces each worker, one after the other; the last turns of each may take long.

        Uvicorn's waits for each worker's end alone: meanwhile it neither replaces those that die
        nor ends when it is told to.
        """
        for place in range(len(self.processes)):
            new = Worker(self.config, self.sockets)
            new.start()
            if not self._wait_until_serving(new):
                return
            old, self.processes[place] = self.processes[place], new
            old.terminate()
            self._leaving.append(old)
            if not self._wait_until(partial(_has_ended, old)):
                return
            self._leaving.remove(old)
            old.join()

    def _wait_until_serving(self, new: Worker) -> bool:
        seconds = self.config.timeout_worker_healthcheck
        end = time.monotonic() + seconds
        stays = self._wait_until(
            lambda: time.monotonic() > end or not new.is_alive(seconds) or new.has_started
        )
        if not stays:  # this process is to end, and the new worker may just have begun a turn
            new.terminate()
            self._leaving.append(new)
            return False
        if new.process.is_alive() and new.has_started:
            return True
        new.kill()
        new.join()
        _log.error("a new worker did not begin to serve; the others stay as they are")
        return False

    def _wait_until(self, condition: Callable[[], bool]) -> bool:
        """Looks after the workers until something is so; false if this process is to end before."""
        while not condition():
            if self.should_exit.is_set() or any(one in _ENDS for one in self.signal_queue):
                return False
            self.keep_subprocess_alive()
            time.sleep(_MOMENT)
        return True

    def join_all(self) -> None:
        """Waits for the workers, which were told to end; takes no more connections.

        While this process had the port open, new connections would wait for an answer that nobody
        gives, instead of being refused, for as long as the workers' last turns take.
        """
        for listening in self.sockets:
            listening.close()
        super().join_all()
        for process in self._leaving:
            process.join()
