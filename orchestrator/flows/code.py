"""Python of scripts, as programs for the code interpreter: values in, one value out."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import replace

from orchestrator.flows.steps import Code, Place
from orchestrator.support.safe_json import json_or, read_json

_FAILED_LINE = re.compile(r'^  File "code", line (\d{1,6})', re.MULTILINE)

_OPEN = """
import io as _io
_files = {files}
def open(path, mode="r", *more, **options):
    if set(mode) - set("rtb"):
        raise PermissionError("files can only be read here")
    if str(path) not in _files:
        raise FileNotFoundError(
            f"there is no file {{str(path)!r}} in the program's folder, or its path stands nowhere "
            "in the code as one text"
        )
    text = _files[str(path)]
    return _io.BytesIO(text.encode()) if "b" in mode else _io.StringIO(text)
"""
"""What `open` is where files are granted: it reads what was read for the code."""

_MARK = "\x1evalue:"
"""What the line with the value begins with, behind all that the program printed."""


def wrap_code(step: Code) -> str:
    """The program that runs the code with its variables, and prints its value at last.

    Raises:
        FlowError: The code is not Python.
    """
    try:
        names = _find_assigned_names(ast.parse(step.text))
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        where = f" in its line {line}" if line else ""
        mistake = getattr(error, "msg", error)
        raise step.place.error(
            f"the code is not Python{where}: {mistake}", f"Python 代码有误: {mistake}"
        ) from None
    variables = json.dumps(dict(step.variables))
    wanted = [*step.names, *names]
    opening = "" if step.files is None else _OPEN.format(files=json.dumps(dict(step.files)))
    return (
        # What earlier programs of the session left is no variable of the script.
        "for _name in [_it for _it in globals() if not _it.startswith('__')]:\n"
        "    del globals()[_name]\n"
        f"import json as _json\nglobals().update(_json.loads({variables!r}))\n"
        f"{opening}"
        f"exec(compile({step.text!r}, 'code', 'exec'))\n"
        f"for _name in {wanted!r}:\n"
        "    if _name in globals() and not callable(globals()[_name]):\n"
        f"        print('\\n' + {_MARK!r} + _json.dumps(globals()[_name], default=str))\n"
        "        break\n"
        f"else:\n    print('\\n' + {_MARK!r} + 'null')\n"
    )


def find_failed_place(step: Code, text: str) -> Place:
    """The line of the script in which code has failed, by its traceback; else the statement."""
    output, error = _read_shown(text)
    lines = _FAILED_LINE.findall(error or output)
    if not step.line or not lines:
        return step.place
    return replace(step.place, line=step.line + int(lines[-1]) - 1, column=1)


def _find_assigned_names(tree: ast.Module) -> list[str]:
    """The names that the program's own statements bind, the last first."""
    found: dict[str, None] = {}
    for statement in tree.body:
        for name in _find_bound_names(statement):
            found.pop(name, None)
            found[name] = None
    return [*reversed(found)]


def _find_bound_names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def parse_code_result(text: str) -> tuple[bool, object]:
    """Whether a program came to its end, and its value.

    Args:
        text: What the code interpreter shows a model.
    """
    output, _ = _read_shown(text)
    for line in reversed(output.split("\n")):  # the mark would end a line of `splitlines`
        if line.startswith(_MARK):
            try:
                return True, read_json(line.removeprefix(_MARK), parse_constant=str)
            except (ValueError, RecursionError):  # the program wrote the mark itself
                break
    return False, None


def find_last_line(text: str) -> str:
    """What a program that failed has left last: of its error, else of what it printed."""
    output, error = _read_shown(text)
    lines = [line for line in (error or output).splitlines() if line.strip()]
    return "".join(lines[-1:])


def _read_shown(text: str) -> tuple[str, str]:
    """What a program printed, and its error; other executors may tell both as they are."""
    shown = json_or(text, None)
    if not isinstance(shown, dict) or "code_execution_output" not in shown:
        return text, ""
    return str(shown["code_execution_output"]), str(shown.get("code_execution_error", ""))
