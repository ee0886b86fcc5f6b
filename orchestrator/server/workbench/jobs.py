"""Work that goes on while pages come and go, each in a thread of its own; pages follow its news."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Any

from orchestrator.errors import OrchestratorError, SessionConflict
from orchestrator.support.logs import get_logger

_log = get_logger("orchestrator.server")

Key = tuple[str, ...]
_MOST_ENDED = 100  # jobs whose end is remembered
_PAUSE = 0.1  # seconds between two of a page's news
_LAST_SECONDS = 20  # for jobs that run when the workbench ends


class Job:
    """One piece of work.

    Attributes:
        error: Why it did not come to its end; empty otherwise.
    """

    def __init__(
        self, work: Callable[[Job], None], stop: Callable[[], None] = lambda: None
    ) -> None:
        """Takes the work, which reports and looks whether it is stopped; `stop` hastens that."""
        self._work, self._hasten = work, stop
        self._lock = threading.Lock()
        self._state: Mapping[str, Any] = {}
        self._number = 0  # of the news
        self._followers: set[Callable[[], None]] = set()
        self._stopped = threading.Event()
        self._ended = threading.Event()
        self.error = ""
        self._thread = threading.Thread(target=self._run, name="workbench-job", daemon=True)

    @property
    def has_ended(self) -> bool:
        """Whether it has come to an end, whichever."""
        return self._ended.is_set()

    @property
    def is_stopped(self) -> bool:
        """Whether it shall end."""
        return self._stopped.is_set()

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Has it end as soon as it can."""
        self._stopped.set()
        self._hasten()
        self._notify()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until it has ended, and says whether it has."""
        return self._ended.wait(seconds)

    def report(self, state: Mapping[str, Any]) -> None:
        """Says how far it is."""
        with self._lock:
            self._state = state
        self._notify()

    def describe(self) -> dict[str, Any]:
        """How far it is, and whether it ends."""
        with self._lock:
            state = dict(self._state)
        return {
            **state,
            "running": not self.has_ended,
            "stopping": self.is_stopped and not self.has_ended,
            "error": self.error,
        }

    async def follow(self) -> AsyncGenerator[dict[str, Any], None]:
        """Its states, the last one when it has ended; those that were overtaken are left out."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(changed.set)

        with self._lock:
            self._followers.add(wake)
        try:
            seen = -1
            while True:
                changed.clear()
                ended, number = self.has_ended, self._number
                if number != seen:
                    yield self.describe()
                    seen = number
                if ended:
                    return
                await changed.wait()
                await asyncio.sleep(_PAUSE)
        finally:
            with self._lock:
                self._followers.discard(wake)

    def _run(self) -> None:
        try:
            self._work(self)
        except OrchestratorError as error:
            self.error = error.message
        except Exception as error:
            _log.error("a job of the workbench failed", exc_info=error)
            self.error = f"the workbench failed here ({type(error).__name__}); its log says where"
        self._ended.set()
        self._notify()

    def _notify(self) -> None:
        with self._lock:
            self._number += 1
            followers = list(self._followers)
        for wake in followers:
            wake()


class Jobs:
    """The jobs of a workbench, by what they are about."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[Key, Job] = {}

    def begin(self, key: Key, job: Job) -> Job:
        """Starts a job.

        Raises:
            SessionConflict: One with this key runs.
        """
        with self._lock:
            self._check_free(key)
            self._jobs.pop(key, None)
            for old in [one for one, it in self._jobs.items() if it.has_ended][:-_MOST_ENDED]:
                del self._jobs[old]
            self._jobs[key] = job
        job.start()
        return job

    def check_free(self, key: Key) -> None:
        """Checks that no job with a key runs.

        Raises:
            SessionConflict: One does.
        """
        with self._lock:
            self._check_free(key)

    def _check_free(self, key: Key) -> None:
        known = self._jobs.get(key)
        if known is not None and not known.has_ended:
            raise SessionConflict("that runs already; wait for its end, or stop it")

    def find(self, key: Key) -> Job | None:
        """The job with a key, also when it has ended."""
        with self._lock:
            return self._jobs.get(key)

    def close(self) -> None:
        """Stops all, and waits for them."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            job.stop()
        for job in jobs:
            job.wait(_LAST_SECONDS)
