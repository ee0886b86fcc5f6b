"""The structure of `orchestrator/`, read from its files: rooms, the import contract, functions."""

from __future__ import annotations

import ast
import gc
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "orchestrator"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def rows() -> tuple[tuple[str, ...], ...]:
    """The rows of the import contract, highest first."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (contract,) = contracts
    return tuple(tuple(re.split(r"\s*[|:]\s*", row)) for row in contract["layers"])


def rooms() -> list[str]:
    """The packages of `orchestrator/`."""
    return sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def loose_files() -> list[str]:
    """The modules that lie in no room."""
    return sorted(path.name for path in PACKAGE.glob("*.py"))


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package, parsed, by its dotted name."""
    # All of it is kept: looking for garbage in it takes longer than parsing.
    gc.disable()
    try:
        return {
            _module_name(path): ast.parse(path.read_text(encoding="utf-8"))
            for path in sorted(PACKAGE.rglob("*.py"))
        }
    finally:
        gc.freeze()
        gc.enable()


@cache
def walk(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a tree, found once: several tests go through those of all modules."""
    return tuple(ast.walk(tree))


def _module_name(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return name.removesuffix(".__init__")


def sentence(part: str) -> str:
    """The first sentence of a room's or a module's docstring."""
    docstring = ast.get_docstring(modules()[f"orchestrator.{part}"]) or ""
    first = docstring.split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=\.)\s", first)[0]


@cache
def imports() -> frozenset[tuple[str, str]]:
    """Pairs of rooms, importer and imported: at the top, in functions and for type checkers."""
    pairs = set()
    for name, tree in modules().items():
        for target in _imported(tree):
            pair = _room(name), _room(target)
            if "" not in pair and pair[0] != pair[1]:
                pairs.add(pair)
    return frozenset(pairs)


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _room(module: str) -> str:
    parts = module.split(".")
    if parts[0] != "orchestrator" or len(parts) < 2:
        return ""
    return parts[1] if parts[1] in {part for row in rows() for part in row} else ""


def functions() -> Iterator[tuple[str, Function]]:
    """Every function and method, with `module:Class.name`."""
    for module, tree in modules().items():
        yield from _functions_in(tree, f"{module}:")


def _functions_in(node: Any, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, child
            yield from _functions_in(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions_in(child, f"{prefix}{child.name}.")
        else:
            yield from _functions_in(child, prefix)
