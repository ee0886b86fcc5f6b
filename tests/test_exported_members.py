"""What `orchestrator` exports is importable and documented, and importing it stays light."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import subprocess
import sys
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

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
    return set(_run_program(f"{program}\nprint(*sys.modules, sep='\\n')"))


def _run_program(program: str) -> list[str]:
    command = [sys.executable, "-W", "error", "-c", f"import sys\n{program}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


def test_importing_the_agent_loads_nothing_that_a_plain_turn_does_without() -> None:
    loaded = _list_loaded("from orchestrator import Agent") - _list_loaded("")
    assert not loaded & COSTLY


def test_what_runs_turns_is_imported_with_the_first_turn() -> None:
    loaded = _list_loaded("from orchestrator import Agent")
    assert not loaded & {"orchestrator.agent.invoke", "orchestrator.engine.run.driver"}


def test_help_loads_neither_agents_nor_what_they_need() -> None:
    program = """
from contextlib import redirect_stdout, suppress
from io import StringIO
from orchestrator.cli import main
sys.argv = ["orchestrator", "--help"]
with redirect_stdout(StringIO()) as shown, suppress(SystemExit):
    main()
assert "invoke" in shown.getvalue()
"""
    rooms = {"actions", "agent", "definition", "engine", "flows", "guardrails", "knowledge"}
    rooms |= {"memory", "prompts", "server", "testing", "transfer"}
    unwanted = {f"orchestrator.{it}" for it in rooms}
    unwanted |= {"asyncio", "boto3", "httpx2", "jinja2", "pydantic", "socket", "ssl", "yaml"}
    assert not _list_loaded(program) & unwanted


# What is handed out though no room exports it: people show it and compare it.
SHOWN = {"orchestrator.engine.rendered_prompt.Prompt", "orchestrator.diagnostics.Diagnostic"}


def _list_exported_dataclasses() -> list[Any]:
    faces = [importlib.import_module(name) for name in [*MODULES, "orchestrator.agent"]]
    exported = {getattr(face, name) for face in faces for name in face.__all__ if name[0].isupper()}
    return sorted(filter(is_dataclass, exported), key=lambda it: it.__qualname__)


def test_importing_the_agent_compiles_comparisons_of_exported_dataclasses_only() -> None:
    program = """
from dataclasses import is_dataclass
from orchestrator import Agent
for name, module in list(sys.modules.items()):
    for it in list(vars(module).values()) if name.startswith("orchestrator") else ():
        if isinstance(it, type) and is_dataclass(it) and it.__module__ == name:
            made = it.__dataclass_params__
            if made.eq or made.repr:
                print(f"{name}.{it.__qualname__}")
"""
    compiled = set(_run_program(program))
    assert "orchestrator.actions.base.Operation" in compiled
    exported = {f"{it.__module__}.{it.__qualname__}" for it in _list_exported_dataclasses()}
    assert compiled <= exported | SHOWN


@pytest.mark.parametrize("kind", _list_exported_dataclasses(), ids=lambda it: it.__name__)
def test_exported_dataclasses_can_be_extended_and_looked_into(kind: Any) -> None:
    frozen = kind.__dataclass_params__.frozen
    assert fields(dataclass(frozen=frozen)(type("Mine", (kind,), {}))) == fields(kind)
    with pytest.raises(TypeError, match="cannot inherit"):
        dataclass(frozen=not frozen)(type("Mine", (kind,), {}))
    imported_late = {"Agent": object, "Partial": object}
    hints = get_type_hints(kind.__init__, localns=imported_late)
    assert hints.keys() == inspect.signature(kind).parameters.keys() | {"return"}


def test_no_name_that_is_imported_late_is_that_of_a_module() -> None:
    # Whoever imports the module first would find it in place of what it exports.
    for name in MODULES:
        face = importlib.import_module(name)
        homes = getattr(face, "_HOMES", {})
        assert not [it for it in homes if importlib.util.find_spec(f"{name}.{it}")], name
