"""Text files that a script reads: below folders that were granted to it, and none else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_MOST_BYTES = 1_000_000
_LONGEST_PATH = 500


class UnreadableFile(Exception):
    """A file cannot be read; `args` are the reason, and the reason in Chinese."""


def read_below(path: str, folders: Sequence[Path]) -> str:
    """The text of a file below one of the folders, the first that has it.

    Args:
        path: Relative to a folder, or absolute.
        folders: Where files may be read; hidden files and folders below them may not.

    Raises:
        UnreadableFile: There is no such file, or it is no text of at most a megabyte.
    """
    if not folders:
        raise UnreadableFile("no folder is granted to the script", "脚本未被授予任何文件夹")
    if not path or len(path) > _LONGEST_PATH or "\0" in path:
        raise UnreadableFile("it is no path of a file", "不是有效的文件路径")
    for folder in folders:
        if file := _find_below(path, folder):
            return _read_text(file)
    raise UnreadableFile(
        "there is no such file, hidden ones left out, in the folders that the script may read",
        "脚本可读的文件夹中没有该文件（不含隐藏文件）",
    )


def _find_below(path: str, folder: Path) -> Path | None:
    try:
        root = folder.resolve()
        file = (root / path).resolve()
        below = file.is_relative_to(root) and file.is_file()
    except (OSError, ValueError, RuntimeError):  # a path too long, or links in a circle
        return None
    hidden = below and any(part.startswith(".") for part in file.relative_to(root).parts)
    return file if below and not hidden else None


def _read_text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise UnreadableFile(f"it has more than {_MOST_BYTES} bytes", "文件过大")
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise UnreadableFile(f"{error.strerror}", f"{error.strerror}") from None
    except UnicodeDecodeError:
        raise UnreadableFile("it is no text in UTF-8", "不是 UTF-8 文本") from None
