"""What a user's code raised: its type and place, and not its text, which may hold anything.

The exception itself would be an error's cause, and whoever logs the error would log it: what it
says, and what it holds. So `hide_causes` puts a `HiddenCause` in its place, unless debugging is
asked for (`ORCHESTRATOR_DEBUG=1`, or `--debug`).
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from orchestrator.errors import OrchestratorError

_DEBUG = "ORCHESTRATOR_DEBUG"


class HiddenCause(Exception):
    """Stands for an exception of other code that may hold what nobody else may read."""


def hide_causes(error: BaseException) -> None:
    """Takes exceptions that are not of this program's tree out of an error's chain.

    A cause becomes a `HiddenCause` that names its type; what was merely being handled is left out.
    With `ORCHESTRATOR_DEBUG` in the environment, all stays.
    """
    if is_debugging():
        return
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        silent = one.__suppress_context__
        if not isinstance(one.__context__, OrchestratorError):
            one.__context__ = None
        if not isinstance(one.__cause__, OrchestratorError | HiddenCause | None):
            one.__cause__ = HiddenCause(f"{type(one.__cause__).__name__}; {_DEBUG}=1 shows it")
        one.__suppress_context__ = silent  # which setting a cause changes
        left += [one.__cause__, one.__context__]


def is_own_failure(error: BaseException) -> bool:
    """Whether the code that raised it failed, and nobody meant to stop whoever called that code.

    So it is of `sys.exit`, which is to end the call alone, unless a signal's handler calls it, and
    of a cancellation that nobody asked this task for: of work inside the code.
    """
    if isinstance(error, SystemExit):
        return not _comes_from_signal(error)
    if isinstance(error, Exception):
        return True
    asyncio = sys.modules.get("asyncio")  # there, if its exception is
    if asyncio is None or not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs here that could have stopped the call
        return True
    return task is None or not task.cancelling()


def _comes_from_signal(error: BaseException) -> bool:
    """Whether a handler of a signal raised it, which may come amid any code: the process ends."""
    import signal

    handlers = [signal.getsignal(one) for one in signal.valid_signals()]
    codes = {code for it in handlers if (code := getattr(it, "__code__", None)) is not None}
    return any(frame.f_code in codes for frame, _ in iter_frames(error))


def iter_frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """The frames that an exception came through, each with its line, the innermost last.

    The line is 0 where nobody knows it.
    """
    # `traceback` would be imported with every agent.
    at = error.__traceback__
    while at is not None:
        yield at.tb_frame, at.tb_lineno or 0
        at = at.tb_next


def find_innermost(error: BaseException, is_own: Callable[[str], bool]) -> tuple[str, int] | None:
    """File and line of the innermost frame that an exception passed in a file that `is_own`."""
    found = None
    for frame, line in iter_frames(error):
        file = frame.f_code.co_filename
        if line and is_own(file):
            found = file, line
    return found


def is_debugging() -> bool:
    """Whether errors keep the exceptions of other code as their causes."""
    return os.environ.get(_DEBUG, "0") not in ("", "0")


@contextmanager
def keep_causes() -> Iterator[None]:
    """Around what is debugged: errors keep their causes."""
    before = os.environ.get(_DEBUG)
    os.environ[_DEBUG] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_DEBUG]
        else:
            os.environ[_DEBUG] = before


def describe_exception(error: BaseException, place: str = "") -> str:
    """`raised KeyError at handler.py:3; ...`, the end of a message about the code."""
    return describe_type(type(error).__name__, place)


def describe_type(name: str, place: str) -> str:
    """The same of an exception of which only the type's name is known."""
    where = f" at {place}" if place else ""
    return (
        f"raised {name}{where}; its own message is kept out of this one, since it may hold what "
        "nobody else may read"
    )


def find_signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """What a function is called with; `None` where nobody can tell."""
    try:
        # A decorator's own parameters, not those of what it decorates, are what is called.
        return inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError, NameError):  # written in C, or annotated for type checkers
        return None


def find_code(function: Callable[..., Any]) -> CodeType | None:
    """The code that a call runs first: of a function, within a `partial`, or of an object's class.

    `None` where it is not written in Python.
    """
    while isinstance(function, partial):
        function = function.func
    code: CodeType | None = getattr(function, "__code__", None)
    return code or getattr(type(function).__call__, "__code__", None)


def describe_mismatch(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str:
    """Why a function does not take such arguments, without their values; empty where it does."""
    signature = find_signature(function)
    if signature is None:
        return ""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        counts = [f"{len(args)} by place"] if args or not kwargs else []
        counts += [f"{one!r} by name" for one in kwargs]
        return (
            f"takes ({', '.join(signature.parameters)}), and is given {', '.join(counts)}: {error}"
        )
    return ""


def place_in_function(
    error: BaseException, function: Callable[..., Any], folder: Path | None = None
) -> str:
    """`file:line` of the innermost frame in the function's own file, as seen from `folder`.

    A file outside the folder has its own name alone; without such a frame the text is empty.
    """
    code = find_code(inspect.unwrap(function))
    frame = find_innermost(error, code.co_filename.__eq__) if code is not None else None
    if frame is None:
        return ""
    file = Path(frame[0])
    inside = folder is not None and file.is_relative_to(folder)
    return f"{file.relative_to(folder) if folder and inside else file.name}:{frame[1]}"


def place_in_class(error: BaseException, kind: type, base: type) -> str:
    """`file:line` of the innermost frame in a class's files, those of `base` left out; or empty."""
    classes = takewhile(lambda one: one is not base, kind.__mro__)
    members = [member for one in classes for member in vars(one).values()]
    files = {one.__code__.co_filename for one in members if inspect.isfunction(one)}
    frame = find_innermost(error, files.__contains__)
    return f"{Path(frame[0]).name}:{frame[1]}" if frame else ""


def place_in_folder(error: BaseException, folder: Path, root: Path | None = None) -> str:
    """`file:line` of the innermost frame in a folder's files, as seen from `root`; may be empty."""
    frame = find_innermost(error, lambda file: Path(file).is_relative_to(folder))
    return f"{Path(frame[0]).relative_to(root or folder)}:{frame[1]}" if frame else ""
