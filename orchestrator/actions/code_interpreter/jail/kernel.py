"""The kernel's calls that Python's library does not have, through the C library."""

from __future__ import annotations

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

_LONG = ctypes.c_long


class Refused(Exception):
    """The sandbox cannot be made here; its text says why, for a person."""


def check_result(result: int, what: str) -> int:
    """`result`; raises `OSError` when it says that `what` failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(number: int, what: str, *arguments: int) -> int:
    """A system call by its number, of numbers and addresses; raises `OSError` when it fails."""
    return check_result(libc.syscall(_LONG(number), *(_LONG(one) for one in arguments)), what)


def prctl(option: int, *arguments: int) -> int:
    """`prctl(2)`; raises `OSError` when it fails."""
    values = [*arguments, 0, 0, 0, 0][:4]
    return check_result(
        libc.prctl(option, *(ctypes.c_ulong(one) for one in values)), f"prctl {option}"
    )
