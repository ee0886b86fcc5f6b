"""What is private is written through `support/private_files.py`, and nothing past it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import house

# What these write holds nothing of anybody: definitions and schemas for a repository, weights that
# anybody may download, and the jail's own files, whose modes the jail sets.
PUBLIC = {
    "orchestrator.actions._mcp_link": "a pipe",
    "orchestrator.actions.code_interpreter.files": "0600 below a folder's descriptor",
    "orchestrator.actions.code_interpreter.jail.landlock": "opens what is there",
    "orchestrator.actions.code_interpreter.jail.main": "inside of the jail",
    "orchestrator.actions.code_interpreter.jail.namespaces": "inside of the jail",
    "orchestrator.actions.code_interpreter.jail.variables": "inside of the jail",
    "orchestrator.actions.code_interpreter.scratch": "below mkdtemp, 0700",
    "orchestrator.actions.mcp_server": "tools' definitions, to be reviewed and committed",
    "orchestrator.cli.examples": "a new agent's files, to be committed",
    "orchestrator.cli.init": "the schema of definitions, to be committed",
    "orchestrator.cli.verb": "the null device",
    "orchestrator.models.fetch": "weights",
    "orchestrator.models.weights": "weights",
    "orchestrator.support.atomic_files": "agents' definitions and templates, to be committed",
    "orchestrator.support.private_files": "the one place",
    "orchestrator.support.process_locks": "makes its files there first",
    "orchestrator.support.sqlite": "makes its files there first",
}
WRITERS = {"write_text", "write_bytes", "mkdir", "makedirs", "mkstemp", "mkdtemp"}


def writes(tree: ast.Module) -> Iterator[str]:
    """The calls of a module that may make a file or a folder."""
    for node in house.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        modes = [it for it in (*node.args, *(k.value for k in node.keywords))]
        mode = any(
            isinstance(it, ast.Constant)
            and isinstance(it.value, str)
            # A mode such as "w" or "a+b", and no text such as "a".
            and set(it.value) <= set("rwxabt+")
            and set(it.value) & set("wxa+")
            for it in modes
        )
        opens = name in ("open", "fdopen", "NamedTemporaryFile") and mode
        # To write an expression out takes long, and of most calls the name says enough.
        called = ast.unparse(node.func) if name in ("connect", "open") else ""
        if name in WRITERS or opens or called in ("sqlite3.connect", "os.open"):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def test_files_are_made_by_the_one_module_that_keeps_them_private() -> None:
    found = {name: list(writes(tree)) for name, tree in house.modules().items()}
    assert {name: calls for name, calls in found.items() if calls and name not in PUBLIC} == {}


def test_the_exceptions_are_those_that_are_needed() -> None:
    assert [name for name in PUBLIC if not list(writes(house.modules()[name]))] == []
