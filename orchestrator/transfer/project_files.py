"""The files of somebody's project, of which only those in its folder are read, and not too many."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from orchestrator.errors import DefinitionError
from orchestrator.support.documents import decode

SKIPPED_FOLDERS = frozenset(
    (
        *(".git", ".hg", ".svn", ".terraform", ".aws-sam", ".serverless", ".orchestrator"),
        *("node_modules", ".venv", "venv", "site-packages", "__pycache__", ".tox", ".nox"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".idea", ".vscode", ".hypothesis"),
    )
)
"""Folders of tools, and of what tools have fetched."""

MOST_FILES = 20_000  # files and folders of a project that are looked at
MOST_CODE_FILES = 500  # files of one Lambda function
MOST_CODE_BYTES = 10_000_000
_MOST_LEVELS = 30
_MOST_TEXT_BYTES = 2_000_000


class ProjectFiles:
    """The files under one folder; a name that leads out of it is refused, also through a link."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def show(self, path: Path) -> str:
        """A path for messages, relative to the project's folder."""
        try:
            return path.resolve().relative_to(self.root).as_posix()
        except ValueError:
            return str(path)

    def resolve(self, name: str, base: Path | None = None) -> Path:
        """The path that `name` means in the folder `base`, by default the project's.

        Raises:
            DefinitionError: It is outside of the project's folder, or no path.
        """
        try:
            path = ((base or self.root) / name).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise DefinitionError(f"the path {name[:200]!r} is not possible: {error}") from None
        if not path.is_relative_to(self.root):
            raise DefinitionError(
                f"{name[:200]!r} leads out of {self.root.name!r}; import a folder that holds both"
            )
        return path

    def read_text(self, name: str, base: Path | None = None) -> str:
        """The text of a file.

        Raises:
            DefinitionError: There is none, it is outside of the project, too large or not UTF-8.
        """
        path = self.resolve(name, base)
        if not path.is_file():
            raise DefinitionError(f"there is no file {self.show(path)!r}")
        with path.open("rb") as stream:
            content = stream.read(_MOST_TEXT_BYTES + 1)
        return decode(content, str(path), limit=_MOST_TEXT_BYTES)

    def iter_files(self, folder: Path | None = None) -> Iterator[Path]:
        """The files in a folder and below, without links and the folders of tools, in order.

        Raises:
            DefinitionError: There are too many.
        """
        count = 0
        waiting = [(folder or self.root, 0)]
        while waiting:
            here, level = waiting.pop()
            folders = []
            for entry in _list_entries(here):
                count += 1
                if count > MOST_FILES:
                    raise DefinitionError(
                        f"{self.show(here)!r} has more than {MOST_FILES:,} files; import a folder "
                        "inside of it"
                    )
                if entry.is_dir(follow_symlinks=False):
                    if level < _MOST_LEVELS and not _is_skipped(entry):
                        folders.append((Path(entry.path), level + 1))
                elif entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)
            waiting += reversed(folders)

    def read_code(self, folder: Path) -> tuple[dict[str, str], list[str]]:
        """The texts of a folder by their paths in it, and the paths of files that are no texts.

        Raises:
            DefinitionError: There are too many, or they are too large.
        """
        texts: dict[str, str] = {}
        others: list[str] = []
        size = 0
        for number, file in enumerate(self.iter_files(folder), 1):
            name = file.relative_to(folder).as_posix()
            size += file.stat().st_size
            if number > MOST_CODE_FILES or size > MOST_CODE_BYTES:
                raise DefinitionError(
                    f"{self.show(folder)!r} has more than {MOST_CODE_FILES} files or "
                    f"{MOST_CODE_BYTES:,} bytes, which is no Lambda function's own code"
                )
            if is_safe_name(name) and (text := _read_if_text(file)) is not None:
                texts[name] = text
            else:
                others.append(name)
        return texts, others


def _is_skipped(folder: os.DirEntry[str]) -> bool:
    # A virtual environment may have any name; `env` is also where Terraform's projects keep theirs.
    return folder.name in SKIPPED_FOLDERS or os.path.exists(os.path.join(folder.path, "pyvenv.cfg"))


def _list_entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda it: it.name)
    except OSError:  # a folder that may not be read has nothing for us
        return []


def _read_if_text(file: Path) -> str | None:
    if file.suffix in (".pyc", ".pyo", ".so", ".zip"):
        return None
    try:
        return decode(file.read_bytes(), str(file))
    except (DefinitionError, OSError):
        return None


def is_safe_name(name: str) -> bool:
    """Whether a relative path can be written on any system, and shown in any terminal."""
    parts = PurePosixPath(name).parts
    return name.isprintable() and "\\" not in name and ":" not in name and ".." not in parts
