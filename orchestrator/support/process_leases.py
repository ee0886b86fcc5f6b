"""Which of the processes that share a database still live: each renews a lease while it does.

It stands where processes have no file system in common (`process_locks.py`), with the same members.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from threading import Event, Thread
from typing import Protocol

from orchestrator.errors import OrchestratorError
from orchestrator.support.forks import ForkSafeLock
from orchestrator.support.logs import get_logger
from orchestrator.support.process_locks import NamedProcess

LEASE_SECONDS = 30
"""How long a lease lasts: after a crash a process's turns are free when it has passed."""

_RENEWAL = 10.0  # seconds; a lease outlives two renewals that fail
_log = get_logger("orchestrator.leases")


class LeaseTable(Protocol):
    """Keeps leases; whether one has passed is decided by the database's clock, if it has one."""

    def renew(self, process: str, seconds: int) -> None:
        """Has the lease of a process last for so many seconds from now."""

    def is_current(self, process: str) -> bool:
        """Whether a process has a lease that has not passed."""

    def remove(self, process: str) -> None:
        """Ends the lease of a process."""

    def close(self) -> None:
        """Closes what the table has open."""


class ProcessLeases(NamedProcess):
    """This process among those that share a database.

    A process has one lease for all its turns, which one thread renews. A process that was paused
    for longer, or cut off from the database, counts as ended: others may go on with its turns, and
    its own next append is refused, since the journal has grown.
    """

    def __init__(self, table: LeaseTable) -> None:
        """Takes no lease yet."""
        super().__init__()
        self._table = table
        self._ended = Event()
        self._users = 1

    def _show_alive(self, name: str) -> None:
        self._table.renew(name, LEASE_SECONDS)
        self._ended = Event()
        weakref.finalize(self, self._ended.set).atexit = False
        Thread(
            target=_renew,
            args=(weakref.ref(self), name, self._ended),
            name="orchestrator-lease",
            daemon=True,
        ).start()

    def renew(self) -> None:
        """Renews the lease, as its thread does every ten seconds."""
        self._table.renew(self._name, LEASE_SECONDS)

    def is_alive(self, process: str) -> bool | None:
        """Whether a process lives; `None` for what is no name of one.

        Raises:
            DependencyFailed: The database failed.
        """
        if self.is_own(process):
            return True
        if not self._NAME.fullmatch(process):
            return None
        return self._table.is_current(process)

    def close(self) -> None:
        """Gives the lease back when the last store closes: from then on the process has ended."""
        with _shared_guard:
            self._users -= 1
            if self._users:
                return
            for identity in [key for key, it in _shared.items() if it is self]:
                del _shared[identity]
        self._give_back()
        self._table.close()

    def _give_back(self) -> None:
        with self._guard:
            if self._pid != os.getpid() or self._ended.is_set():
                return
            self._ended.set()
            self._pid = 0
            try:
                self._table.remove(self._name)
            except OrchestratorError as error:  # it passes by itself
                _log.info("the lease of this process could not be given back: %s", error)


def _renew(leases: weakref.ref[ProcessLeases], name: str, ended: Event) -> None:
    while not ended.wait(_RENEWAL):
        kept = leases()
        if kept is None:
            return
        try:
            kept.renew()
        except Exception as error:  # whatever it is, the next renewal may succeed
            _log.warning("the lease of this process could not be renewed: %s", error)
        del kept


_shared: dict[str, ProcessLeases] = {}
_shared_guard = ForkSafeLock()


def share_leases(identity: str, build: Callable[[], LeaseTable]) -> ProcessLeases:
    """The leases in a database, the same object for all stores of this process that use it.

    Each of the stores closes them.
    """
    with _shared_guard:
        leases = _shared.get(identity)
        if leases is None:
            leases = _shared[identity] = ProcessLeases(build())
        else:
            leases._users += 1
        return leases
