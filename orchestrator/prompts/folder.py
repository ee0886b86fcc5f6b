"""Finds the files of a dialect: the user's own first, then the shipped ones, and never outside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from orchestrator import content
from orchestrator.errors import TemplateError

__all__ = ["MAX_FILE_BYTES", "dialect_folders", "places", "read_file", "read_yaml"]

MAX_FILE_BYTES = 1_000_000
"""A larger file is not read; a template's own limit is counted in characters."""


def shipped() -> Path:
    """The folder of the shipped dialects."""
    return content.root() / "templates"


def places(dialect: str, overrides: Path | None) -> tuple[Path, ...]:
    """Where a dialect's files are looked for, best first."""
    own = (overrides / dialect, overrides) if overrides is not None else ()
    return (*own, shipped() / dialect)


def dialect_folders(overrides: Path | None) -> Iterable[Path]:
    """The folders that hold a `dialect.yaml`, the user's own first, by name."""
    for root in filter(None, (overrides, shipped())):
        if root.is_dir():
            yield from sorted(file.parent for file in root.glob("*/dialect.yaml"))


def read_file(name: str, folders: Sequence[Path]) -> tuple[str, Path]:
    """Reads the file `name` from the first folder that has it.

    Args:
        name: A relative path of plain names.
        folders: Where to look. A file that is a link to somewhere outside its folder is refused.

    Returns:
        The text and the file's path.

    Raises:
        TemplateError: There is none, or it may not or cannot be read; says where it was looked for.
    """
    path = PurePosixPath(name)
    if not name or "\\" in name or path.is_absolute() or ".." in path.parts or ":" in name:
        raise TemplateError(f"{name!r} is not the name of a file inside the templates folder")
    for folder in folders:
        file = folder / path
        if file.is_file():
            return _read(file, folder), file
    looked = ", ".join(str(folder) for folder in folders)
    raise TemplateError(f"there is no file {name!r}; looked in {looked}", file=name)


def _read(file: Path, folder: Path) -> str:
    if not file.resolve().is_relative_to(folder.resolve()):
        raise TemplateError(
            f"the file is a link to outside the folder {str(folder)!r}; copy it there", file=file
        )
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise TemplateError(f"the file is larger than {MAX_FILE_BYTES:,} bytes", file=file)
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TemplateError(f"the file cannot be read as UTF-8 text: {error}", file=file) from error


def read_yaml(text: str, file: Path) -> dict[str, Any]:
    """Parses a YAML file that is a mapping.

    Raises:
        TemplateError: It is not; with the line and column.
    """
    import yaml

    try:
        data = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        problem = getattr(error, "problem", None) or "not YAML"
        raise TemplateError(f"not YAML: {problem}", file=file, line=line, column=column) from error
    if not isinstance(data, dict):
        raise TemplateError("the file must be a mapping, such as 'protocol: xml'", file=file)
    return data
