"""The filter of system calls: what the code may ask of the kernel (seccomp, in classic BPF).

It is a list of what is allowed. The code's process can make threads but no other process, so it
can leave nothing behind; it can make no socket but a connected pair, so there is no network; and
it can signal nobody but itself.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

from . import syscalls
from .kernel import Refused, prctl

# Architectures whose system calls are known here.
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_*

_LOAD, _EQUAL, _AND, _RETURN = 0x20, 0x15, 0x54, 0x06
_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in `struct seccomp_data`
_SET_SECCOMP, _FILTER = 22, 2

_CLONE_THREAD = 0x00010000
_UNIX, _STREAM, _TYPE = 1, 1, 0xF
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # terminal? size? bytes? blocking, exec
# Duplicates, flags, locks and a pipe's size; not who is signalled, leases and notices.
_FCNTLS = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032)
_PRCTLS = (15, 16)  # a thread's name

_Code = list[tuple[int, int, int, int]]


def _refuse(number: int) -> _Code:
    return [(_RETURN, 0, 0, _ERRNO | number)]


_LET: _Code = [(_RETURN, 0, 0, _ALLOW)]


def _when(value: int, then: _Code) -> _Code:
    return [(_EQUAL, 0, len(then), value), *then]


# The lower half is enough: the kernel reads these arguments as 32 bits.
def _argument(index: int, mask: int = 0) -> _Code:
    load = [(_LOAD, 0, 0, _ARGUMENTS + 8 * index)]
    return [*load, (_AND, 0, 0, mask)] if mask else load


def _one_of(index: int, values: tuple[int, ...], otherwise: int) -> _Code:
    lets = [step for value in values for step in _when(value, _LET)]
    return [*_argument(index), *lets, *_refuse(otherwise)]


def _rules(own: int) -> dict[str, _Code]:
    no = _refuse(errno.EPERM)
    stream = [*_argument(1, _TYPE), *_when(_STREAM, _LET), *no]
    upper = [(_LOAD, 0, 0, _ARGUMENTS + 8 * 4 + 4)]
    return {
        "clone": [*_argument(0, _CLONE_THREAD), *_when(_CLONE_THREAD, _LET), *no],
        "kill": _one_of(0, (own,), errno.EPERM),
        "tgkill": _one_of(0, (own,), errno.EPERM),
        "prlimit64": _one_of(0, (0, own), errno.EPERM),
        "socketpair": [*_argument(0), *_when(_UNIX, stream), *no],
        # Data to the other end only, never to an address.
        "sendto": [*_argument(4), *_when(0, [*upper, *_when(0, _LET), *no]), *no],
        "ioctl": _one_of(1, _IOCTLS, errno.ENOTTY),
        "prctl": _one_of(0, _PRCTLS, errno.EPERM),
        "fcntl": _one_of(1, _FCNTLS, errno.EPERM),
    }


def program(machine: str, own: int) -> bytes:
    """The filter for a `machine` (`x86_64`, `aarch64`) and for the process whose id is `own`."""

    def each(table: str, then: _Code) -> _Code:
        found = syscalls.numbers(table, machine).values()
        return [step for number in found for step in _when(number, then)]

    checked = syscalls.numbers(syscalls.CHECKED, machine)
    code: _Code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, MACHINES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        *each(syscalls.ALLOWED, _LET),
        *(step for name, rule in _rules(own).items() for step in _when(checked[name], rule)),
        *each(syscalls.SILENT, _refuse(0)),
        *each(syscalls.UNSUPPORTED, _refuse(errno.ENOTSUP)),
        *each(syscalls.DENIED, _refuse(errno.EPERM)),
        *_refuse(errno.ENOSYS),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in code)


def restrict() -> None:
    """Puts the filter on this process for good; `no_new_privs` must be set."""
    machine = platform.machine()
    if machine not in MACHINES:
        raise Refused(f"the system calls of {machine!r} are not known")
    code = program(machine, os.getpid())
    held = ctypes.create_string_buffer(code, len(code))
    about = struct.pack("@HP", len(code) // 8, ctypes.addressof(held))
    fprog = ctypes.create_string_buffer(about, len(about))
    try:
        prctl(_SET_SECCOMP, _FILTER, ctypes.addressof(fprog))
    except OSError as error:
        raise Refused(f"the kernel takes no seccomp filter ({error.strerror})") from error
