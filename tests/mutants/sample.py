"""Which mutants there are, and a sample of them that follows from a seed.

cosmic-ray says where its operators apply. Of a place that several of them change (a `+` becomes
each other operator) one mutant is taken, so that arithmetic does not outweigh everything else.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.plugins import get_operator, operator_names

FILES = (
    "orchestrator/parsers/**/*.py",
    "orchestrator/prompts/**/*.py",
    "orchestrator/sessions/**/*.py",
    "orchestrator/definition/**/*.py",
    "orchestrator/actions/arguments.py",
    "orchestrator/actions/coercion.py",
    "orchestrator/actions/schemas.py",
)
"""Replies to decisions, templates to prompts, journals, and the checks of schemas."""


class Place(NamedTuple):
    """A piece of code; lines from 1 and columns from 0."""

    file: str
    start: tuple[int, int]
    end: tuple[int, int]


class Mutant(NamedTuple):
    """The `occurrence`-th change that an operator makes in the file of a place."""

    place: Place
    operator: str
    occurrence: int


def sample(root: Path, count: int, seed: int) -> list[Mutant]:
    """`count` mutants, each of another place; changes elsewhere in the code leave the others be."""
    found: dict[Place, list[Mutant]] = {}
    for mutant in _mutants(root):
        found.setdefault(mutant.place, []).append(mutant)
    by_code: dict[str, Place] = {}
    for place in sorted(found):
        code = f"{seed} {place.file} {_code(root, place)}"
        while code in by_code:  # the same line again
            code += " again"
        by_code[code] = place
    ranked = sorted(by_code, key=lambda code: sha256(code.encode()).digest())
    return [random.Random(code).choice(found[by_code[code]]) for code in ranked[:count]]


def _code(root: Path, place: Place) -> str:
    """What stands at a place: its first line, and where in that it is."""
    line = _lines(root / place.file)[place.start[0] - 1]
    return f"{line.strip()} {place.start[1]} {place.end[0] - place.start[0]} {place.end[1]}"


@cache
def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split("\n")


def _mutants(root: Path) -> Iterator[Mutant]:
    operators = [(name, get_operator(name)) for name in operator_names()]
    for file in sorted({it for pattern in FILES for it in root.glob(pattern)}):
        tree, hints = get_ast_from_path(file), _hints(file)
        nodes, name = list(ast_nodes(tree)), file.relative_to(root).as_posix()
        for operator, made in operators:
            if made.arguments():  # what it would change has to be said
                continue
            one = made()
            spans = (span for node in nodes for span in one.mutation_positions(node))
            for occurrence, (start, end) in enumerate(spans):
                if not any(first <= start and end <= last for first, last in hints):
                    yield Mutant(Place(name, start, end), operator, occurrence)


def _hints(file: Path) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where no test could notice a change: type hints, imports for them, and mere guards.

    `slots=` of a dataclass saves memory, and `strict=` of `zip` is for whoever changes the code.
    """
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        hints: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            hints = [node.returns]
        elif isinstance(node, ast.arg | ast.AnnAssign):
            hints = [node.annotation]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("dataclass", "zip"):
            hints = [it.value for it in node.keywords if it.arg in ("slots", "strict")]
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            hints = [node]
        found += [
            ((hint.lineno, hint.col_offset), (hint.end_lineno, hint.end_col_offset))
            for hint in hints
            if hint is not None
        ]
    return found
