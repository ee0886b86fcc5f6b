"""Runs the code the way a prompt does: what the last expression gives is shown."""

from __future__ import annotations

import ast
import io
import linecache
import os
import sys
import traceback
import types

_NAME = "<code>"


def run(code: str, packages: list[str], scratch: str) -> int:
    """Runs a program as the module `__main__`.

    `packages` are folders of installed packages; modules of the scratch folder can be imported,
    too, after all others.

    Returns:
        0 when it ran to its end, 1 when it raised; what it raised is then on the standard error.
    """
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv[:] = [_NAME]
    sys.path.extend([*packages, scratch])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Line by line, so that a program that is stopped has shown what it did.
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
    linecache.cache[_NAME] = (len(code), None, code.splitlines(keepends=True), _NAME)
    try:
        _execute(code, module)
    except SystemExit as stop:
        return _report_exit(stop)
    except BaseException as error:  # whatever the code raises is its outcome
        _show(error)
        return 1
    return 0


def _execute(code: str, module: types.ModuleType) -> None:
    tree = ast.parse(code, _NAME)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, _NAME, "exec"), module.__dict__)
    if last is not None:
        exec(compile(ast.Interactive([last]), _NAME, "single"), module.__dict__)


def _report_exit(stop: SystemExit) -> int:
    if stop.code is None or stop.code == 0:
        return 0
    print(f"SystemExit: {stop.code}", file=sys.stderr)
    return 1


# The traceback begins with the code's own first line: the lines above are this package's.
def _show(error: BaseException) -> None:
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != _NAME:
        frame = frame.tb_next
    try:
        traceback.print_exception(type(error), error, frame)
    except BaseException:  # no memory is left, or the exception's own text raises
        os.write(2, f"{type(error).__name__}\n".encode())
