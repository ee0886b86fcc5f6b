"""Which process runs a turn, and whether it still does."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

__all__ = ["owner_is_alive", "process_owner"]


@cache
def _host() -> str:
    import socket

    return socket.gethostname()


def process_owner() -> str:
    """Names this process: host, process id, and when it was started."""
    return _owner(os.getpid())


@cache
def _owner(pid: int) -> str:
    return f"{_host()}:{pid}:{_read_start_time(pid)}"


def _read_start_time(pid: int) -> str:
    # Tells a process apart from an earlier one with the same id; field 22 of Linux's stat. One
    # that has ended and whose parent does not know yet (state Z) is no longer the same.
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "0"
    fields = stat.rpartition(")")[2].split()
    return "ended" if fields[0] in "ZX" else fields[19]


def owner_is_alive(owner: str) -> bool | None:
    """Whether the process that an `owner` names still runs; `None` when that can't be told."""
    host, _, process = owner.partition(":")
    number, _, started = process.partition(":")
    if host != _host() or os.name != "posix" or not number.isdecimal():
        return None
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return None
    return _read_start_time(int(number)) == started
