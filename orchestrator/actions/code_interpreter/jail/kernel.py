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
    """`result`, unless it says that `what` failed.

    Raises:
        OSError: It does.
    """
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(number: int, what: str, *arguments: int) -> int:
    """A system call by its number; every argument is a number or an address.

    Raises:
        OSError: It failed.
    """
    return check_result(libc.syscall(_LONG(number), *(_LONG(one) for one in arguments)), what)


def prctl(option: int, *arguments: int) -> int:
    """`prctl(2)`.

    Raises:
        OSError: It failed.
    """
    values = [*arguments, 0, 0, 0, 0][:4]
    return check_result(
        libc.prctl(option, *(ctypes.c_ulong(one) for one in values)), f"prctl {option}"
    )
