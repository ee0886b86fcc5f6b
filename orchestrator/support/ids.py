"""Random ids, from the system's generator, without a system call for each."""

from __future__ import annotations

import os

_AT_ONCE = 256  # ids of one system call, which costs as much as a good part of a turn

# Ids that nobody has seen. Each is handed out once (`pop` is atomic), and a child process makes
# its own.
_unused: list[str] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unused.clear)


def request_id() -> str:
    """A version 4 UUID, as `uuid.uuid4` makes it."""
    while True:
        try:
            return _unused.pop()
        except IndexError:
            digits = os.urandom(16 * _AT_ONCE).hex()
            _unused.extend(_uuid(digits[at : at + 32]) for at in range(0, len(digits), 32))


def _uuid(digits: str) -> str:
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
