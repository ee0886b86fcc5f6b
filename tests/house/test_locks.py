"""Locks that a whole process shares are free in its forked children."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import house

EXEMPT = {"orchestrator.support.forks"}  # it holds its own during a fork, on purpose


def plain_locks(tree: ast.Module) -> Iterator[str]:
    """The names of a module that are locks which a child may find held, for ever."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            made = ast.unparse(node.value.func).removeprefix("threading.")
            if made in ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"):
                yield f"line {node.lineno}: {ast.unparse(node)}"


def test_what_tells_them() -> None:
    tree = ast.parse("a = Lock()\nb: Lock = threading.RLock()\nc = ForkSafeLock()\nd = Lock")
    assert list(plain_locks(tree)) == ["line 1: a = Lock()", "line 2: b: Lock = threading.RLock()"]


def test_locks_of_modules_are_free_after_a_fork() -> None:
    found = {name: list(plain_locks(tree)) for name, tree in house.modules().items()}
    assert {name: locks for name, locks in found.items() if locks and name not in EXEMPT} == {}
