"""What a program leaves for the next one of its session, as at a prompt.

Functions and classes are kept as their source, which is run again; what was imported is kept by
its name; all other values are pickled, in one piece, so that what they share stays shared. What
cannot be pickled (generators, open files,
threads, closures) does not last.

Everything here runs in a sandbox that is locked up already: what an earlier program wrote is read
only where a program may do the same itself.
"""

from __future__ import annotations

import ast
import importlib
import io
import linecache
import os
import pickle
import sys
import types
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import Any

# In the working folder, before a program's first line and after its last one.
FILE = ".variables"
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Variables:
    """The variables of one program's module."""

    def __init__(self, module: types.ModuleType, most_bytes: int, most_files: int) -> None:
        """Begins; `most_bytes` and `most_files` are what the working folder may hold."""
        self._module = module
        self._most = (most_bytes, most_files)
        self._sources: dict[str, str] = {}  # of functions and classes, in the order of their making

    def load(self) -> None:
        """Puts what earlier programs left into the module; nothing, where that is not possible."""
        try:
            with open(FILE, "rb") as file:
                content = file.read()
            os.unlink(FILE)
            stored = pickle.loads(content)  # in the sandbox: see the text of the module
            sources, imported, values = stored["sources"], stored["imported"], stored["values"]
        except Exception:
            return
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            with suppress(Exception):
                vars(self._module).update(pickle.loads(imported))
            failed = [name for name, source in sources.items() if not self._define(name, source)]
            with suppress(Exception):
                vars(self._module).update(pickle.loads(values))
            for name in failed:  # what it is made with may be a variable
                self._define(name, sources[name])

    def _define(self, name: str, source: str) -> bool:
        file = f"<earlier code: {name}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        self._sources[name] = source
        try:
            exec(compile(source, file, "exec"), vars(self._module))
        except Exception:
            return False
        return True

    def note(self, code: str, tree: ast.Module) -> None:
        """Notes the functions and classes that a program is about to make."""
        for name, node in _find_definitions(tree):
            if source := _get_source(code, node):
                self._sources.pop(name, None)
                self._sources[name] = source

    def save(self) -> None:
        """Keeps what the program leaves, as far as there is room for it."""
        values, imported, sources = {}, {}, {}
        for name, value in list(vars(self._module).items()):
            if name.startswith("__"):
                continue
            if name in self._sources and getattr(value, "__module__", None) == "__main__":
                sources[name] = self._sources[name]
            elif _is_imported(value):
                imported[name] = value
            else:
                values[name] = value
        ordered = {name: sources[name] for name in self._sources if name in sources}
        stored: dict[str, Any] = {"sources": ordered}
        room = self._measure_room() - len(pickle.dumps(ordered)) - 1000
        for member, some in (("imported", imported), ("values", values)):
            stored[member] = _pickle_within(some, max(room, 0))
            room -= len(stored[member])
        if room > 0:
            _write(pickle.dumps(stored))

    def _measure_room(self) -> int:
        most_bytes, most_files = self._most
        used = count = 0
        for folder, inner, names in os.walk("."):
            count += len(inner) + len(names)
            used += sum(os.lstat(os.path.join(folder, name)).st_blocks * 512 for name in names)
        return min(most_bytes // 4, most_bytes - used) if count < most_files else 0


def _is_imported(value: Any) -> bool:
    kinds = (type, types.FunctionType, types.BuiltinFunctionType)
    outside = isinstance(value, kinds) and value.__module__ != "__main__"
    return outside or isinstance(value, types.ModuleType)


def _find_definitions(tree: ast.AST) -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _Definition):
            yield node.name, node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _find_definitions(node)


def _get_source(code: str, node: ast.stmt) -> str:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(one.lineno for one in decorators)])
    lines = code.splitlines()[first - 1 : node.end_lineno]
    source = "\n".join(line[node.col_offset :] for line in lines) + "\n"
    try:
        ast.parse(source)
    except SyntaxError:  # several statements on a line, or a text whose lines begin further left
        return (ast.get_source_segment(code, node) or "") + "\n"
    return source


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
            return importlib.import_module, (value.__name__,)
        return NotImplemented


class _Bounded(io.BytesIO):
    def __init__(self, most: int) -> None:
        super().__init__()
        self._left = most

    def write(self, data: Any) -> int:
        self._left -= len(data)
        if self._left < 0:
            raise ValueError("too large")
        return super().write(data)


def _pickle_within(values: dict[str, Any], room: int) -> bytes:
    """The values together; without those that cannot be pickled, or take more than the room."""
    if (whole := _pickle(values, room)) is not None:
        return whole
    kept, used = {}, 0
    for name, value in values.items():
        alone = _pickle(value, room - used)
        if alone is not None:
            kept[name] = value
            used += len(alone) + len(name) + 100
    return _pickle(kept, room) or pickle.dumps({})


def _pickle(value: Any, room: int) -> bytes | None:
    file = _Bounded(room)
    try:
        _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(value)
        return file.getvalue()
    except BaseException:  # whatever the value's own code raises; `RecursionError`, `MemoryError`
        return None


def _write(content: bytes) -> None:
    try:
        with open(FILE, "xb") as file:
            file.write(content)
    except OSError:
        with suppress(OSError):
            os.unlink(FILE)
