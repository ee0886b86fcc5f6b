"""Python in programs: variables bound as values, and what no code of a program may do refused."""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
import tokenize
from collections.abc import Mapping
from typing import Any

from orchestrator.flows.evaluation import UNDEFINED
from orchestrator.flows.pl.values import USE, value_of
from orchestrator.flows.tree import ScriptError

_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)
_STRING = re.compile(
    r"(\"\"\"|''')(?:[^\\]|\\.)*?\1|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|#[^\n]*", re.DOTALL
)
_MODULES = frozenset(
    (
        *("bisect", "calendar", "collections", "copy", "csv", "datetime", "decimal", "difflib"),
        *("fractions", "functools", "heapq", "itertools", "json", "math", "operator", "random"),
        *("re", "statistics", "string", "textwrap", "unicodedata"),
    )
)
_NAMES = frozenset(
    (
        *("open", "eval", "exec", "compile", "input", "breakpoint", "globals", "locals", "vars"),
        *("getattr", "setattr", "delattr", "help", "memoryview"),
    )
)


_TAKEN = frozenset((*dir(builtins), *keyword.kwlist, *_NAMES))


def bind_variables(code: str, pool: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Code with names in place of its variables, and those names' values.

    A `$name` in a string or a comment of the code is left as it is: pasting a value there could end
    the string.

    Raises:
        Wrong: A variable is undefined.
    """
    names: dict[str, str] = {}
    values: dict[str, Any] = {}

    def replace_variable(found: re.Match[str]) -> str:
        value = value_of(found, pool)
        if value is UNDEFINED:
            raise ScriptError(
                f"{found[0]!r} is not defined", f"变量 {found[0]} 未定义", found.start()
            )
        name = names.setdefault(found[0], _name(found["name"], len(names), code))
        values[name] = value
        return name

    made, at = [], 0
    for quoted in _STRING.finditer(code):
        made += [USE.sub(replace_variable, code[at : quoted.start()]), quoted[0]]
        at = quoted.end()
    made.append(USE.sub(replace_variable, code[at:]))
    return "".join(made), values


def _name(name: str | None, count: int, code: str) -> str:
    """The name in Python of a variable: its own, unless Python or the code has it already."""
    if name and not (name in _TAKEN or name.startswith("__")):
        return name
    while (made := f"value_{count}") in code:
        count += 1
    return made


def refuse_unsafe(code: str) -> None:
    """Refuses what reaches out of the program, before the sandbox would.

    Raises:
        Wrong: It does, or it is no Python.
    """
    try:
        tree = ast.parse(code)
        list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (SyntaxError, ValueError, RecursionError, tokenize.TokenError) as error:
        line = getattr(error, "lineno", None)
        where = f" (its line {line})" if line else ""
        raise ScriptError(
            f"no Python{where}: {getattr(error, 'msg', error)}", f"Python 代码有误: {error}"
        ) from None
    for node in ast.walk(tree):
        if found := _find_unsafe(node):
            raise ScriptError(f"the code may not use {found}", f"代码中不允许使用 {found}")


def _find_unsafe(node: ast.AST) -> str:
    if isinstance(node, ast.Import):
        wrong = [one.name for one in node.names if one.name.split(".")[0] not in _MODULES]
        return f"the module {wrong[0]!r}" if wrong else ""
    if isinstance(node, ast.ImportFrom):
        module = (node.module or "").split(".")[0]
        return "" if module in _MODULES and not node.level else f"the module {node.module!r}"
    if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
        return f"the attribute {node.attr!r}"
    if isinstance(node, ast.Name) and (node.id in _NAMES or node.id.startswith("__")):
        return repr(node.id)
    return ""


def extract_code(reply: str) -> str:
    """The code in a model's reply: what is in its first fence, or all of it."""
    found = _FENCED.search(reply)
    return (found[1] if found else reply).strip()
