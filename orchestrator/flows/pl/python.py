"""Python of programs: variables put in as values, and what reaches out of it refused.

One rule holds for all of `@code`: in a text, `$name` is the variable's text, as in a text for the
model; elsewhere in Python it is the variable's value. No value is ever read as code.
"""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
import tokenize
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from orchestrator.flows.evaluation import UNDEFINED
from orchestrator.flows.pl.values import USE, as_text, value_of
from orchestrator.flows.tree import ScriptError

_STRING = re.compile(
    r"(\"\"\"|''')(?:[^\\]|\\.)*?\1|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|#[^\n]*", re.DOTALL
)
_FORMATTED = re.compile(r"(?<!\w)(?:[fF][rR]?|[rR][fF])$")
_FIELD = re.compile(r"\{\{|\{[^{}]*\}")
_MODULES = frozenset(
    "bisect calendar collections copy csv datetime decimal difflib fractions functools heapq "
    "itertools json math operator random re statistics string textwrap unicodedata".split()
)
_NAMES = frozenset(
    "open eval exec compile input breakpoint globals locals vars getattr setattr delattr help "
    "memoryview".split()
)
_TAKEN = frozenset((*dir(builtins), *keyword.kwlist, *_NAMES))
_PATH = re.compile(r"(?=.*[./])[^\0\r\n]{1,200}")
_MOST_PATHS = 20


class PythonMistake(ScriptError):
    """Python is wrong, in a line of it, from 1."""

    def __init__(self, message: str, message_zh: str, line: int = 1) -> None:
        super().__init__(message, message_zh)
        self.line = line


def bind_variables(code: str, pool: Mapping[str, Any]) -> tuple[str, dict[str, Any], list[str]]:
    """Code with names in place of its variables, those names' values, and what was not filled.

    Raises:
        PythonMistake: It is no Python, or a variable outside of texts is not defined.
    """
    binding = _Binding(code, pool)
    text = _replace_names(code, binding.name_value)
    if "$" not in text:
        return text, binding.values, []
    return _fill_texts(text, binding), binding.values, binding.unknown


def check_python(code: str) -> None:
    """Checks that code with variables is Python, before it runs.

    Raises:
        PythonMistake: It is none.
    """
    parse_python(_replace_names(code, lambda found: f"v{'_' * (len(found[0]) - 1)}"))


class _Binding:
    """The names that stand for a program's variables in one piece of code."""

    def __init__(self, code: str, pool: Mapping[str, Any]) -> None:
        self._code = code
        self._pool = pool
        self._names: dict[str, str] = {}
        self.values: dict[str, Any] = {}
        self.unknown: list[str] = []  # variables in texts that are not defined

    def name_value(self, found: re.Match[str]) -> str:
        """The name of a variable's value."""
        value = value_of(found, self._pool)
        if value is UNDEFINED:
            line = found.string.count("\n", 0, found.start()) + 1
            raise PythonMistake(f"{found[0]!r} is not defined", f"变量 {found[0]} 未定义", line)
        name = self._names.setdefault(found[0], self._choose(found["name"]))
        self.values[name] = value
        return name

    def name_text(self, found: re.Match[str]) -> str:
        """The name of a variable's text; empty where it is not defined."""
        value = value_of(found, self._pool)
        if value is UNDEFINED:
            self.unknown.append(found[0])
            return ""
        name = self._names.setdefault(f"{found[0]} in a text", self._choose(None))
        self.values[name] = as_text(value)
        return name

    def _choose(self, name: str | None) -> str:
        """The name in Python of a variable: its own, unless Python or the code has it already."""
        if name and not (name in _TAKEN or name.startswith("__")):
            return name
        count = len(self._names)
        while (made := f"value_{count}") in self._code:
            count += 1
        return made


def _replace_names(code: str, name_of: Callable[[re.Match[str]], str]) -> str:
    """Code with names for the variables that stand outside of texts and comments.

    The fields of an f-string are outside.
    """
    pieces, at = [], 0
    for quoted in _STRING.finditer(code):
        pieces += [_sub(code, at, quoted.start(), name_of)]
        if _FORMATTED.search(code, max(0, quoted.start() - 3), quoted.start()):
            pieces.append(_FIELD.sub(lambda field: USE.sub(name_of, field[0]), quoted[0]))
        else:
            pieces.append(quoted[0])
        at = quoted.end()
    return "".join((*pieces, _sub(code, at, len(code), name_of)))


def _sub(code: str, start: int, end: int, name_of: Callable[[re.Match[str]], str]) -> str:
    pieces, at = [], start
    for found in USE.finditer(code, start, end):
        pieces += [code[at : found.start()], name_of(found)]
        at = found.end()
    return "".join((*pieces, code[at:end]))


# Texts


def _fill_texts(code: str, binding: _Binding) -> str:
    """Code whose texts have the variables' texts in them: each is joined of names and constants."""
    lines = code.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    edits = []
    for node in _find_texts(parse_python(code)):
        made = _join(node, binding)
        if made:
            begins = offset(node.lineno, node.col_offset)
            ends = offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
            # What follows stays in its line.
            edits.append((begins, ends, f"({made}{code[begins:ends].count(chr(10)) * chr(10)})"))
    for begins, ends, made in sorted(edits, reverse=True):
        code = code[:begins] + made + code[ends:]
    return code


def _find_texts(node: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    """The texts of a program, f-strings whole; those of `case` are patterns, and left out."""
    if isinstance(node, ast.JoinedStr):
        yield node
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node
    elif not isinstance(node, ast.pattern):
        for inner in ast.iter_child_nodes(node):
            yield from _find_texts(inner)


def _join(node: ast.Constant | ast.JoinedStr, binding: _Binding) -> str:
    """The expression for a text with variables; empty for one that stays."""
    if isinstance(node, ast.Constant):
        parts = list(_split(str(node.value), binding))
        named = any(is_name for is_name, _ in parts)
        return " + ".join(it if is_name else repr(it) for is_name, it in parts) if named else ""
    values: list[ast.expr] = []
    changed = False
    for part in node.values:
        if not isinstance(part, ast.Constant):
            values.append(part)
            continue
        for is_name, text in _split(str(part.value), binding):
            changed = changed or is_name
            values.append(
                ast.FormattedValue(ast.Name(text, ast.Load()), -1)
                if is_name
                else ast.Constant(text)
            )
    try:
        return ast.unparse(ast.JoinedStr(values)) if changed else ""
    except ValueError:  # this version of Python cannot write it
        return ""


def _split(text: str, binding: _Binding) -> Iterator[tuple[bool, str]]:
    """A text in parts: whether each is a name, and the name or the letters."""
    at = 0
    for found in USE.finditer(text):
        name = binding.name_text(found)
        if name:
            if found.start() > at:
                yield False, text[at : found.start()]
            yield True, name
            at = found.end()
    if at < len(text):
        yield False, text[at:]


# Safety


def parse_python(code: str) -> ast.Module:
    """The tree of code.

    Raises:
        PythonMistake: It is no Python.
    """
    try:
        tree = ast.parse(code)
        list(tokenize.generate_tokens(io.StringIO(code).readline))
    except MemoryError:  # (CPython: so its parser says that its stack is full)
        raise PythonMistake("no Python: nested too deeply", "Python 代码有误: 嵌套过深") from None
    except (SyntaxError, ValueError, RecursionError, tokenize.TokenError) as error:
        raise PythonMistake(
            f"no Python: {getattr(error, 'msg', error)}",
            f"Python 代码有误: {getattr(error, 'msg', error)}",
            getattr(error, "lineno", None) or 1,
        ) from None
    return tree


def check_safe(code: str, *, files: bool = False) -> ast.Module:
    """The tree of code; what reaches out of it is refused before the sandbox would.

    Args:
        code: The code.
        files: Whether it may open files.

    Raises:
        PythonMistake: It is no Python, or uses what it may not.
    """
    tree = parse_python(code)
    for node in ast.walk(tree):
        found = _find_unsafe(node)
        if found and not (files and found == _OPEN):
            way = "" if found != _OPEN else _WAY
            zh = f"代码中不允许使用 {found}"
            line = getattr(node, "lineno", 1)
            raise PythonMistake(f"the code may not use {found}{way}", zh, line)
    return tree


_OPEN = repr("open")
_WAY = (
    "; a program may read the files of its folder with load_flow(..., files=True), or run --files"
)


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


# Files


def opens_files(tree: ast.Module) -> bool:
    """Whether code uses `open`."""
    return any(isinstance(one, ast.Name) and one.id == "open" for one in ast.walk(tree))


def find_paths(tree: ast.Module, values: Mapping[str, Any]) -> list[str]:
    """The texts of code, and of its variables, that may be paths of files."""
    texts = [one.value for one in ast.walk(tree) if isinstance(one, ast.Constant)]
    found = {
        text: None
        for text in (*texts, *values.values())
        if isinstance(text, str) and _PATH.fullmatch(text)
    }
    return list(found)[:_MOST_PATHS]
