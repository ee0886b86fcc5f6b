"""Trying one mutant: a copy of the project is changed, and the tests of the changed lines run."""

from __future__ import annotations

import ast
import difflib
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.testing import run_tests
from cosmic_ray.work_item import TestOutcome

from .coverage_of_tests import PYTEST
from .sample import Mutant

SECONDS = 300
"""What the tests of one mutant may take; one that takes longer is noticed."""


class Trial(NamedTuple):
    """What became of a mutant.

    `definition` is the function or class that it is in, `before` and `after` its lines.
    """

    mutant: Mutant
    definition: str
    before: str
    after: str
    killed: bool
    said: str


def copy_project(root: Path, place: Path) -> None:
    """Copies what git knows, and what is new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, place / name)


def try_mutant(mutant: Mutant, tests: list[str], python: Path) -> Trial:
    """Changes the file below the working directory, runs tests, and changes it back."""
    file = Path(mutant.place.file)
    source = file.read_text(encoding="utf-8")
    changed = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
    assert changed is not None, mutant
    before, after = _difference(source, changed)
    arguments = Path("mutants-tests.txt")
    arguments.write_text("\n".join(tests))
    command = [str(python), "-m", "pytest", "-x", *PYTEST, "-n", "0", f"@{arguments}"]
    os.environ["PYTHONPATH"] = os.getcwd()
    try:
        file.write_text(changed, encoding="utf-8")
        outcome, said = run_tests(shlex.join(command), SECONDS)
    finally:
        file.write_text(source, encoding="utf-8")
    if outcome is TestOutcome.INCOMPETENT:
        raise RuntimeError(f"the tests of {mutant} could not be run: {said}")
    killed = outcome is TestOutcome.KILLED
    definition = _definition(source, mutant.place.start[0])
    return Trial(mutant, definition, before, after, killed, said[-600:])


def _difference(source: str, changed: str) -> tuple[str, str]:
    """The lines that are gone, and those that came, each joined without its indentation."""
    lines = list(difflib.ndiff(source.splitlines(), changed.splitlines()))
    gone = [line[2:].strip() for line in lines if line.startswith("- ")]
    came = [line[2:].strip() for line in lines if line.startswith("+ ")]
    return " ".join(gone), " ".join(came)


def _definition(source: str, line: int) -> str:
    """The dotted name of the innermost function or class at a line; empty for the module's own."""
    names: list[str] = []
    body: list[ast.stmt] = ast.parse(source).body
    while True:
        inner = [
            node
            for node in ast.walk(ast.Module(body, []))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and min([node.lineno, *(it.lineno for it in node.decorator_list)]) <= line
            and line <= (node.end_lineno or 0)
        ]
        if not inner:
            return ".".join(names)
        outermost = min(inner, key=lambda node: node.lineno)
        names.append(outermost.name)
        body = outermost.body
