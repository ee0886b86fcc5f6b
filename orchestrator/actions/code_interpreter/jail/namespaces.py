"""Namespaces: a network without interfaces, and a root folder with nothing else in it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Mapping

from .kernel import check_result, libc

_NEW_MOUNTS, _NEW_NAME, _NEW_IPC = 0x00020000, 0x04000000, 0x08000000
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000

_READ_ONLY, _NO_SUID, _NO_DEVICES, _REMOUNT = 1, 2, 4, 32
_BIND, _RECURSIVE, _PRIVATE, _RELATIVE_TIME = 4096, 16384, 1 << 18, 1 << 21
_PRESERVED = 1 | 2 | 4 | 8 | 1024 | 2048  # flags with the same value in `statvfs` and `mount`
_ST_RELATIVE_TIME = 4096
_DETACH = 2


def enter(
    readable: Iterable[str],
    devices: Iterable[str],
    scratch: str,
    root: str,
    bounds: Mapping[str, int],
) -> None:
    """Gives this process namespaces of its own, where only some files exist, and devices.

    `scratch` becomes a file system of its own, empty, of `bounds` (`bytes` and `inodes`); `root` is
    an empty folder to build the new root in. Where this is not permitted, or not possible, some of
    it may have happened: the process's own view of the files is as it was, or with fewer rights.
    """
    _unshare()
    _mount("none", "/", "", _RECURSIVE | _PRIVATE)
    _mount("tmpfs", root, "tmpfs", _NO_SUID | _NO_DEVICES, "size=1m,mode=755")
    for path in sorted(set(readable)):  # a folder comes before what is in it
        _show(root, path, _READ_ONLY | _NO_SUID | _NO_DEVICES)
    for path in devices:
        _show(root, path, _NO_SUID)
    os.makedirs(root + scratch, exist_ok=True)
    holds = f"size={bounds['bytes']},nr_inodes={bounds['inodes']},mode=700"
    _mount("tmpfs", root + scratch, "tmpfs", _NO_SUID | _NO_DEVICES, holds)
    os.chdir(root)
    check_result(libc.pivot_root(b".", b"."), "pivot_root")
    check_result(libc.umount2(b".", _DETACH), "umount")
    os.chdir("/")
    _mount("", "/", "", _REMOUNT | _BIND | _READ_ONLY | _NO_SUID | _NO_DEVICES)


# Without the right to make namespaces, as the owner of a new user namespace. There is none for
# processes: the code cannot make any, and sees and signals no other.
def _unshare() -> None:
    flags = _NEW_MOUNTS | _NEW_NAME | _NEW_IPC | _NEW_NETWORK
    if os.geteuid() == 0 and libc.unshare(flags) == 0:
        return
    user, group = os.geteuid(), os.getegid()
    check_result(libc.unshare(flags | _NEW_USER), "unshare")
    for file, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{file}", "w") as map_:
            map_.write(text)


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    names = (os.fsencode(source), os.fsencode(target), kind.encode() or None)
    text = data.encode() or None
    check_result(libc.mount(*names, ctypes.c_ulong(flags), text), f"mount {target!r}")


def _show(root: str, path: str, flags: int) -> None:
    target = root + path
    if os.path.lexists(target) or not os.path.exists(path):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    if os.path.isdir(path):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
    _bind(path, target, flags)


def _bind(path: str, target: str, flags: int) -> None:
    _mount(path, target, "", _BIND)
    # A mount's flags may be locked; the new ones must include them.
    old = os.statvfs(path).f_flag
    preserved = old & _PRESERVED | (_RELATIVE_TIME if old & _ST_RELATIVE_TIME else 0)
    _mount("", target, "", _REMOUNT | _BIND | preserved | flags)
