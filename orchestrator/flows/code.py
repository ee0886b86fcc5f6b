"""Python of scripts, as programs for the code interpreter: values in, one value out."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence

from orchestrator.flows.steps import Code
from orchestrator.support.safe_json import json_or

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
    return (
        # What earlier programs of the session left is no variable of the script.
        "for _name in [_it for _it in globals() if not _it.startswith('__')]:\n"
        "    del globals()[_name]\n"
        f"import json as _json\nglobals().update(_json.loads({variables!r}))\n"
        f"exec(compile({step.text!r}, 'code', 'exec'))\n"
        f"for _name in {wanted!r}:\n"
        "    if _name in globals() and not callable(globals()[_name]):\n"
        f"        print('\\n' + {_MARK!r} + _json.dumps(globals()[_name], default=str))\n"
        "        break\n"
        f"else:\n    print('\\n' + {_MARK!r} + 'null')\n"
    )


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


def read_printed_text(result: str) -> str:
    """What a program printed, and its error, from what a model would read of them."""
    shown = json_or(result, None)
    if not isinstance(shown, dict) or "code_execution_output" not in shown:
        return result  # of another executor
    texts = (shown.get("code_execution_output"), shown.get("code_execution_error"))
    return "\n".join(str(one) for one in texts if one)


def parse_code_result(text: str) -> tuple[bool, object]:
    """Whether a program came to its end, and its value."""
    lines: Sequence[str] = text.split("\n")  # the mark would end a line of `splitlines`
    for line in reversed(lines):
        if line.startswith(_MARK):
            try:
                return True, json.loads(line.removeprefix(_MARK))
            except (ValueError, RecursionError):  # the program wrote the mark itself
                break
    return False, None
