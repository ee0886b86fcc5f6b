"""`orchestrator init`: a new agent that runs at once; `orchestrator schema`: its JSON Schema."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.terminal import Terminal
from orchestrator.cli.verb import option, setting, verb
from orchestrator.cli.warm_up import Warm, warm_up
from orchestrator.errors import ValidationError
from orchestrator.support.content_root import content_root

_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".pytest_cache", ".orchestrator")


@verb
def init(
    terminal: Terminal,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder to make; its name names the agent.")
    ],
    model: Annotated[str, setting("--model", "SPEC", "The agent's foundationModel.")] = "local",
    warm: Warm = None,
) -> None:
    """Make a new agent that runs at once.

    It is a small shop's agent to change into your own: a definition, an action group with its
    schema and handler, folders for your own templates, and a test.

    [bold]Examples[/bold]
      $ orchestrator init my-agent
      $ orchestrator init my-agent --model amazon.nova-pro-v1:0
    """
    from orchestrator.models import resolve_model

    chosen = resolve_model(model)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValidationError(f"{str(folder)!r} exists already; name a new folder")
    files = _copy_starter(folder, model)
    if terminal.json:
        terminal.document({"folder": str(folder), "files": files})
    else:
        _show_next_steps(terminal, folder, files)
    if chosen.model_id.startswith("local:"):
        warm_up(terminal, folder, warm)


def _show_next_steps(terminal: Terminal, folder: Path, files: list[str]) -> None:
    terminal.path(f"made {str(folder)!r} with {len(files)} files")
    terminal.print()
    for command, what in _list_next_steps(shlex.quote(str(folder))):
        terminal.path(f"  {command:<38}  {what}")


def _list_next_steps(folder: str) -> Iterator[tuple[str, str]]:
    yield f"orchestrator chat {folder}", "talk to it"
    yield f"orchestrator lint {folder}", "check it"
    if find_spec("pytest") is None:
        yield "pip install pytest", "to run its test"
    yield f"python -m pytest {folder}", "run its test, without a model"


def _copy_starter(folder: Path, model: str) -> list[str]:
    shutil.copytree(
        content_root() / "examples" / "starter", folder, ignore=_LEFT_OUT, dirs_exist_ok=True
    )
    write_schema(folder / SCHEMA_FILE)
    file = folder / "agent.yaml"
    text = file.read_text(encoding="utf-8")
    text = _set_member(text, "agentName", _agent_name(folder.resolve().name))
    text = _set_member(text, "foundationModel", model)
    file.write_text(f"# yaml-language-server: $schema={SCHEMA_FILE}\n{text}", encoding="utf-8")
    return sorted(str(it.relative_to(folder)) for it in folder.rglob("*") if it.is_file())


def _set_member(text: str, member: str, value: str) -> str:
    plain = re.fullmatch(r"[A-Za-z][\w.:/@-]*", value)
    line = f"{member}: {value if plain else json.dumps(value, ensure_ascii=False)}"
    changed, count = re.subn(rf"(?m)^{member}: .*$", lambda _: line, text)
    if count != 1:
        raise AssertionError(f"the starter's agent.yaml has {count} lines with {member}")
    return changed


def _agent_name(folder: str) -> str:
    # Bedrock's names are letters and digits, with single `_` or `-` between.
    return re.sub(r"[^0-9A-Za-z]+", "-", folder).strip("-")[:100].strip("-") or "agent"


# Stands beside an `agent.yaml`, whose first line names it for editors.
SCHEMA_FILE = "agent.schema.json"


@verb
def schema(
    terminal: Terminal,
    output: Annotated[
        Path | None, option("--output", "FILE", "Write it to this file.", "-o")
    ] = None,
) -> None:
    """Print the JSON Schema of agent.yaml, for editors.

    Editors with a YAML language server complete and check an agent.yaml whose first line names the
    schema: # yaml-language-server: $schema=agent.schema.json

    [bold]Examples[/bold]
      $ orchestrator schema --output my-agent/agent.schema.json
    """
    from orchestrator.definition import definition_schema

    if output is None:
        terminal.document(definition_schema())
        return
    write_schema(output)
    terminal.report({"file": str(output)}, f"wrote {output}")


def write_schema(file: Path) -> None:
    """Writes the schema into a file."""
    from orchestrator.definition import definition_schema

    text = json.dumps(definition_schema(), ensure_ascii=False, indent=2)
    file.write_text(text + "\n", encoding="utf-8")
