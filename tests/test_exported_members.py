"""What `orchestrator` exports is importable and documented, and importing it stays light."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import orchestrator

MODULES = [
    "orchestrator",
    "orchestrator.actions",
    "orchestrator.models.embeddings",
    "orchestrator.guardrails",
    "orchestrator.knowledge",
    "orchestrator.memory",
    "orchestrator.models",
    "orchestrator.parsers",
    "orchestrator.prompts",
    "orchestrator.sessions",
    "orchestrator.testing",
]
HEAVY = {"boto3", "botocore", "httpx2", "xllamacpp", "numpy", "onnxruntime", "jinja2", "yaml"}
HEAVY |= {"typer", "rich", "pydantic"}


@pytest.mark.parametrize("name", MODULES)
def test_every_exported_name_is_there_and_documented(name: str) -> None:
    module = importlib.import_module(name)
    assert list(module.__all__) == sorted(set(module.__all__), key=_order)
    for member in module.__all__:
        value = getattr(module, member)
        if inspect.isclass(value) or inspect.isroutine(value):
            assert inspect.getdoc(value), f"{name}.{member} has no docstring"


def _order(name: str) -> tuple[int, str]:
    # Constants, then classes, then functions, as ruff sorts them.
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_dir_and_star_give_all_exported_names() -> None:
    assert set(orchestrator.__all__) <= set(dir(orchestrator))
    taken: dict[str, object] = {}
    exec("from orchestrator import *", taken)
    assert set(orchestrator.__all__) <= set(taken)


def test_type_checkers_see_the_names_that_are_imported_lazily() -> None:
    tree = ast.parse(Path(orchestrator.__file__).read_text())
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(orchestrator.__all__) <= imported
    assert set(orchestrator._LAZY) <= set(orchestrator.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'Agnet'"):
        orchestrator.Agnet  # noqa: B018


def test_the_public_names_are_these() -> None:
    wanted = {"Agent", "Reply", "ActionGroup", "action", "ReturnControl", "KnowledgeBase", "Limits"}
    assert wanted | {"OrchestratorError"} <= set(orchestrator.__all__)
    from orchestrator import models

    names = {"BedrockModel", "OpenAIModel", "LocalModel", "RecordingModel", "ReplayModel"}
    assert names <= set(models.__all__)


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import orchestrator", set()),
        ("from orchestrator import Agent", {"jinja2", "yaml", "pydantic"}),
        ("from orchestrator import Agent, Limits, action, ReturnControl", {"jinja2", "yaml"}),
        ("from orchestrator.testing import ScriptedModel", set()),
        ("from orchestrator.models import BedrockModel, OpenAIModel, LocalModel", set()),
    ],
)
def test_imports_stay_light(statement: str, allowed: set[str]) -> None:
    code = f"import sys\n{statement}\nprint(*sorted({{m.partition('.')[0] for m in sys.modules}}))"
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(ran.stdout.split()) & HEAVY
    assert loaded <= allowed, f"{statement} imports {sorted(loaded - allowed)}"


# Of the standard library and of this package, what costs and what a plain turn does without. Times
# are no test; names are.
COSTLY = {"asyncio", "logging", "concurrent.futures", "difflib", "html.entities", "mimetypes"}
COSTLY |= {"platform", "secrets", "socket", "ssl", "decimal", "datetime"}
COSTLY |= {
    f"orchestrator.{name}"
    for name in (
        "actions.handlers",
        "actions.parser_lambda",
        "definition",
        "engine.consent",
        "engine.questions",
        "engine.quotations",
        "flows",
        "guardrails.local",
        "knowledge.local",
        "memory.summaries",
        "models.bedrock",
        "models.grounds",
        "models.local",
        "models.tool_calls",
        "server",
        "support.aws",
        "support.documents",
        "support.redaction",
    )
}


def _list_loaded(program: str) -> set[str]:
    """The modules that a fresh process has loaded after `program`."""
    code = f"import sys\n{program}\nprint(*sorted(sys.modules), file=sys.stderr)"
    command = [sys.executable, "-W", "error", "-c", code]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stderr.split())


def test_importing_the_agent_loads_nothing_that_a_plain_turn_does_without() -> None:
    loaded = _list_loaded("from orchestrator import Agent") - _list_loaded("")
    assert not loaded & COSTLY


def test_dataclasses_that_importing_the_agent_makes_are_structs() -> None:
    program = """
import dataclasses
made = []
process = dataclasses._process_class
def count(cls, init, repr, *more):
    if init or repr:
        made.append(cls.__qualname__)
    return process(cls, init, repr, *more)
dataclasses._process_class = count
from orchestrator import Agent
assert not made, made
"""
    assert "orchestrator.agent.agent" in _list_loaded(program)
