"""Landlock: the kernel's own confinement of a process to some files."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from .kernel import Refused, syscall

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on every architecture
_VERSION_FLAG, _PATH_BENEATH = 1, 1

_WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 14
_REMOVE = 1 << 4 | 1 << 5
_MAKE = 1 << 7 | 1 << 8 | 1 << 12  # folders, files, symbolic links
_REFER = 1 << 13
_READ = _READ_FILE | _READ_DIR
_CHANGE = _READ | _WRITE_FILE | _TRUNCATE | _REMOVE | _MAKE | _REFER
_ON_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE

_OLDEST = 3  # before it, truncating a file cannot be forbidden (Linux 6.2)
_HANDLED = {3: (1 << 15) - 1, 5: (1 << 16) - 1}  # all rights on files, by version
_NETWORK = 1 << 0 | 1 << 1  # TCP: bind, connect
_SCOPED = 1 << 0 | 1 << 1  # abstract sockets, signals


def _version() -> int:
    try:
        return syscall(_CREATE, "landlock", 0, 0, _VERSION_FLAG)
    except OSError:
        return 0


# `struct landlock_ruleset_attr`: everything that this version of Landlock can forbid.
def _rules(version: int) -> bytes:
    handled = _HANDLED[5 if version >= 5 else 3]
    if version < 4:
        return struct.pack("=Q", handled)
    if version < 6:
        return struct.pack("=QQ", handled, _NETWORK)
    return struct.pack("=QQQ", handled, _NETWORK, _SCOPED)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # what is not there, or cannot be reached, needs no permission
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _ON_FILES
        rule = struct.pack("=Qi", rights, descriptor)
        held = ctypes.create_string_buffer(rule, len(rule))
        where = ctypes.addressof(held)
        syscall(_ADD, f"landlock {path!r}", ruleset, _PATH_BENEATH, where, 0)
    finally:
        os.close(descriptor)


def restrict(readable: Iterable[str], devices: Iterable[str], scratch: str) -> None:
    """Confines this process for good to files that may be read, devices, and the scratch folder.

    `no_new_privs` must be set. Devices may be read and written, but not changed otherwise. Raises
    `Refused` when the kernel has no Landlock that can forbid all of this.
    """
    version = _version()
    if version < _OLDEST:
        raise Refused(f"Landlock is needed in version {_OLDEST} or newer; it is {version or 'off'}")
    rules = _rules(version)
    held = ctypes.create_string_buffer(rules, len(rules))
    ruleset = syscall(_CREATE, "landlock", ctypes.addressof(held), len(rules), 0)
    try:
        for path in readable:
            _allow(ruleset, path, _READ)
        for path in devices:
            _allow(ruleset, path, _READ_FILE | _WRITE_FILE)
        _allow(ruleset, scratch, _CHANGE)
        syscall(_RESTRICT, "landlock", ruleset, 0)
    finally:
        os.close(ruleset)
