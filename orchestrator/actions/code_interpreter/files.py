"""Files in and out of a scratch folder whose content nobody trusts.

Folders are opened one within the other, and links are never followed, so that nothing outside can
be read or removed through what the code has made.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from mimetypes import MimeTypes
from typing import Any

from orchestrator.actions.names import check_text
from orchestrator.errors import DefinitionError, ValidationError

# For each path in the scratch folder, what changes with the file; a folder's path ends in `/`.
Marks = dict[str, tuple[int, ...]]

_CHUNK = 1 << 20
_DEEPEST = 16  # folders in one another; each is one open descriptor
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\..*)?", re.I)
_types = MimeTypes()  # the library's own table, the same on every machine


def file_name(name: object) -> str:
    """The name that a user's file has in the scratch folder: the same one, in Unicode's NFC.

    Raises:
        ValidationError: It is no plain name, such as `../x`, or hides a character.
    """
    if not isinstance(name, str):
        raise ValidationError(f"the name of a file must be a text, not {type(name).__name__}")
    plain = unicodedata.normalize("NFC", name)
    if reason := _find_name_problem(plain):
        raise ValidationError(
            f"the file name {name!r} cannot be used: it {reason}; give a plain name such as "
            "'table.csv'"
        )
    return plain


def _find_name_problem(name: str) -> str:
    if not name or name != name.strip():
        return "is empty, or begins or ends with a space"
    if name.startswith("."):
        return "begins with a dot"
    if any(sign in name for sign in "/\\\t\n\r"):
        return "holds a path separator or a line break"
    try:
        check_text(name, "name")
        if len(name.encode()) > 255:
            return "has more than 255 bytes"
    except DefinitionError:
        return "holds an invisible character"
    return ""


@contextmanager
def open_folder(folder: str | os.PathLike[str], within: int | None = None) -> Iterator[int]:
    """A folder's descriptor; `OSError` if it is none, or a link."""
    descriptor = os.open(folder, _FOLDER, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def place(scratch: int, name: str, content: bytes) -> None:
    """Writes a user's file anew, as the scratch folder's owner; what had its name is removed."""
    if name in os.listdir(scratch):
        if _is_folder(name, scratch):
            with open_folder(name, scratch) as folder:
                empty(folder)
            os.rmdir(name, dir_fd=scratch)
        else:
            os.unlink(name, dir_fd=scratch)
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    descriptor = os.open(name, flags, 0o600, dir_fd=scratch)
    with open(descriptor, "wb") as file:
        _match_owner(descriptor, scratch)
        file.write(content)


def take(scratch: int, name: str, most_bytes: int) -> bytes | None:
    """Removes a file and gives its content; `None` if it is no plain file, or too large."""
    try:
        found = os.stat(name, dir_fd=scratch, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            return None
        plain = stat.S_ISREG(found.st_mode) and found.st_size <= most_bytes
        content = _read(scratch, name, most_bytes) if plain else None
        os.unlink(name, dir_fd=scratch)
    except OSError:
        return None
    return content


# Gives each path with its folder's descriptor and its name; a folder's path ends in `/`. One that
# cannot be opened, or is too deep, is not looked into.
def _walk(folder: int, path: str = "", depth: int = 0) -> Iterator[tuple[str, int, str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield path + entry.name, folder, entry.name
                continue
            inner = f"{path}{entry.name}/"
            yield inner, folder, entry.name
            if depth == _DEEPEST:
                continue
            # It may be gone meanwhile, replaced by a link, or closed to its owner.
            with ExitStack() as opened:
                try:
                    descriptor = opened.enter_context(open_folder(entry.name, folder))
                except OSError:
                    continue
                yield from _walk(descriptor, inner, depth + 1)


def check_size(scratch: int, most_bytes: int, most_files: int) -> str:
    """Why a scratch folder is too large; empty when it is not. The code may be running."""
    total = count = 0
    for path, folder, name in _walk(scratch):
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        count += 1
        total += max(found.st_size, found.st_blocks * 512)
        if path.endswith("/") and found.st_mode & 0o500 != 0o500:
            return "it made a folder that cannot be read"
        if count > most_files:
            return f"it made more than {most_files} files and folders"
        if path.count("/") > _DEEPEST:
            return f"it made more than {_DEEPEST} folders in one another"
    return f"its files have more than {most_bytes} bytes" if total > most_bytes else ""


def marks(scratch: int) -> Marks:
    """What is in a scratch folder now, for `collect_changes`; folders have no marks."""
    return {path: _mark(path, folder, name) for path, folder, name in _walk(scratch)}


def _mark(path: str, folder: int, name: str) -> tuple[int, ...]:
    if path.endswith("/"):
        return ()
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    # Programs cannot set the time of a change: the sandbox ignores that.
    return found.st_ino, found.st_size, found.st_mtime_ns


@dataclass(slots=True)
class Returned:
    """The files of an execution (`name`, `type`, `bytes`), and why others are not here."""

    files: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def collect_changes(scratch: int, before: Marks, most_files: int, most_bytes: int) -> Returned:
    """The files that are new or changed since `before`, the folder's `marks` at the beginning.

    Nothing may be running any more. Names and folders that begin with a dot are not looked at;
    links, special files and files with several names are left out.
    """
    returned = Returned()
    for path, folder, name in _walk(scratch):
        if path.endswith("/") or any(part.startswith(".") for part in path.split("/")):
            continue
        if before.get(path) == _mark(path, folder, name):
            continue
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        why = _explain_rejection(path, found, most_bytes)
        if not why and len(returned.files) >= most_files:
            why = f"only {most_files} files are returned"
        content = b"" if why else _read(folder, name, most_bytes)
        if why or content is None:
            reason = why or "it cannot be read"
            returned.left_out.append(f"{ascii(path)[1:-1][:100]}: {reason}")
            continue
        kind = _types.guess_type(path)[0] or "application/octet-stream"
        returned.files.append({"name": path, "type": kind, "bytes": content})
    returned.files.sort(key=lambda file: str(file["name"]))
    returned.left_out.sort()
    return returned


# Names that are an option to a program, or a device, a drive or a pattern to Windows.
def _risky(name: str) -> bool:
    signs = any(sign in name for sign in '<>:"|?*')
    return signs or name.startswith("-") or name.endswith(".") or bool(_DEVICE.fullmatch(name))


def _explain_rejection(path: str, found: os.stat_result, most_bytes: int) -> str:
    if any(map(_find_name_problem, path.split("/"))):
        return "its name has characters that are not possible"
    if any(map(_risky, path.split("/"))):
        return "its name means something else on other systems; give it a plain one"
    if not stat.S_ISREG(found.st_mode):
        return "it is a link, and no file" if stat.S_ISLNK(found.st_mode) else "it is no file"
    if found.st_nlink > 1:
        return "it has several names"
    return f"it has more than {most_bytes} bytes" if found.st_size > most_bytes else ""


def _read(folder: int, name: str, most_bytes: int) -> bytes | None:
    try:
        with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
            return file.read(most_bytes)
    except OSError:
        return None


def copy(source: int, target: int) -> None:
    """Copies all of one folder into an empty one, by descriptors; nothing may be using either.

    What cannot be read is left out, as are special files; links stay links, wherever they lead. All
    that is made belongs to the target's owner.
    """
    for name in os.listdir(source):
        found = os.stat(name, dir_fd=source, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            os.mkdir(name, 0o700, dir_fd=target)
            with open_folder(name, source) as inner, open_folder(name, target) as made:
                copy(inner, made)
                _match_owner(made, target)
        elif stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        elif stat.S_ISREG(found.st_mode):
            with suppress(PermissionError):
                _copy_file(name, source, target, found)


def _copy_file(name: str, source: int, target: int, found: os.stat_result) -> None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    with open(os.open(name, _FILE, dir_fd=source), "rb") as file:
        with open(os.open(name, flags, 0o600, dir_fd=target), "wb") as made:
            shutil.copyfileobj(file, made, _CHUNK)
            _match_owner(made.fileno(), target)
            made.flush()
            # As old as it was: a change must show, however soon it comes.
            os.utime(made.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))


def _match_owner(made: int, folder: int) -> None:
    owner = os.fstat(folder)
    if owner.st_uid != os.geteuid():
        os.fchown(made, owner.st_uid, owner.st_gid)


def empty(scratch: int) -> None:
    """Removes all that is in a folder, however deep it is; nothing may be using it.

    Folders in folders are moved up before they are emptied, so that neither the depth of paths
    nor the number of open files matters.
    """
    while names := os.listdir(scratch):
        for name in names:
            if not _is_folder(name, scratch):
                os.unlink(name, dir_fd=scratch)
                continue
            with open_folder(name, scratch) as folder:
                for inner in os.listdir(folder):
                    if _is_folder(inner, folder):
                        free = secrets.token_hex(16)
                        os.rename(inner, free, src_dir_fd=folder, dst_dir_fd=scratch)
                    else:
                        os.unlink(inner, dir_fd=folder)
            os.rmdir(name, dir_fd=scratch)


# A link to a folder is none: it may lead out. A folder is opened to its owner, who may have shut
# it.
def _is_folder(name: str, within: int) -> bool:
    mode = os.stat(name, dir_fd=within, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=within)
    return stat.S_ISDIR(mode)
