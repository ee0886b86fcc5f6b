"""Work in the background: a few threads for each tenant, so that none keeps others waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from orchestrator.server.operations import Fault

__all__ = ["BackgroundWork"]

_THREADS = 2
_MOST_WAITING = 10  # Bedrock: "Concurrent IngestKnowledgeBaseDocuments requests per account"


class BackgroundWork:
    """Does work by and by. Safe for many threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._waiting: Counter[str] = Counter()

    def run(self, tenant: str, work: Callable[[], None]) -> None:
        """Has work done, which sees to its own errors."""
        with self._lock:
            pool = self._pools.get(tenant)
            if pool is None:
                pool = self._pools[tenant] = ThreadPoolExecutor(_THREADS, "ingestion")
            pool.submit(work)

    def reserve(self, tenant: str) -> Callable[[], None]:
        """A place for a request whose documents are held until they are put in.

        Returns:
            What gives the place back.

        Raises:
            Fault: ServiceQuotaExceededException, when a tenant has too many.
        """
        with self._lock:
            if self._waiting[tenant] >= _MOST_WAITING:
                raise Fault(
                    "ServiceQuotaExceededException",
                    f"the documents of {_MOST_WAITING} requests are still being put in: wait until "
                    "some are INDEXED",
                )
            self._waiting[tenant] += 1

        def release() -> None:
            with self._lock:
                self._waiting[tenant] -= 1

        return release

    def close(self) -> None:
        """Waits for the end of what was begun."""
        with self._lock:
            pools = list(self._pools.values())
        for pool in pools:
            pool.shutdown()
