"""Random ids, from the system's generator, without a system call for each."""

from __future__ import annotations

import os
from threading import Lock

__all__ = ["request_id"]

_AT_ONCE = 256  # ids of one system call, which costs as much as a good part of a turn


class _Source:
    # Bytes of the system's generator that nobody has seen. Each is handed out once: also not in
    # a child process again.
    def __init__(self) -> None:
        self._lock = Lock()
        self._unused = b""
        self._at = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = Lock()
        self._unused = b""
        self._at = 0

    def sixteen(self) -> bytes:
        with self._lock:
            if self._at >= len(self._unused):
                self._unused, self._at = os.urandom(16 * _AT_ONCE), 0
            self._at += 16
            return self._unused[self._at - 16 : self._at]


_source = _Source()


def request_id() -> str:
    """A version 4 UUID, as `uuid.uuid4` makes it."""
    digits = _source.sixteen().hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
