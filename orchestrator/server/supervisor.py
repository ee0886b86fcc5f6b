"""Worker processes, and the process that starts them and looks after them."""

from __future__ import annotations

import logging
import socket
import time

import uvicorn
from uvicorn.supervisors import Multiprocess, multiprocess

from orchestrator.server import metrics


class Worker(multiprocess.Process):
    """A worker process, which its supervisor looks at without waiting for it.

    Uvicorn's waits for each worker's answer in turn. While one of them starts or loads a model, it
    would see none of the others end, for as long as a minute.
    """

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
            return False
        try:
            if self._asked is None:
                self.parent_conn.send(b"ping")
                self._asked = time.monotonic()
            elif self.parent_conn.poll():
                self.parent_conn.recv()
                self._asked = None
        except (OSError, EOFError):
            return False
        return self._asked is None or time.monotonic() - self._asked < timeout


class Supervisor(Multiprocess):
    """Starts worker processes, and others for those that die, until it is told to stop."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        # Tells of workers that died, and of their successors.
        log = logging.getLogger("uvicorn.error")
        log.setLevel(logging.INFO)
        multiprocess.Process = Worker  # type: ignore[misc]
        super().__init__(config, sockets)

    def join_all(self) -> None:
        """Waits for the workers, which were told to end; takes no more connections.

        While this process had the port open, new connections would wait for an answer that nobody
        gives, instead of being refused, for as long as the workers' last turns take.
        """
        for listening in self.sockets:
            listening.close()
        super().join_all()
