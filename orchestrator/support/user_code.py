"""What a user's code raised: its type and place, and not its text, which may hold anything."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.errors import innermost


def describe_exception(error: BaseException, place: str = "") -> str:
    """`raised KeyError at handler.py:3; ...`, the end of a message about the code."""
    where = f" at {place}" if place else ""
    return (
        f"raised {type(error).__name__}{where}; its own message is kept out of this one, since it "
        "may hold what nobody else may read"
    )


def place_in_function(
    error: BaseException, function: Callable[..., Any], folder: Path | None = None
) -> str:
    """`file:line` of the innermost frame in the function's own file, as seen from `folder`.

    A file outside the folder has its own name alone; without such a frame the text is empty.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    frame = innermost(error, code.co_filename.__eq__) if code is not None else None
    if frame is None:
        return ""
    file = Path(frame[0])
    inside = folder is not None and file.is_relative_to(folder)
    return f"{file.relative_to(folder) if folder and inside else file.name}:{frame[1]}"


def place_in_folder(error: BaseException, folder: Path, root: Path | None = None) -> str:
    """`file:line` of the innermost frame in a folder's files, as seen from `root`; may be empty."""
    frame = innermost(error, lambda file: Path(file).is_relative_to(folder))
    return f"{Path(frame[0]).relative_to(root or folder)}:{frame[1]}" if frame else ""
