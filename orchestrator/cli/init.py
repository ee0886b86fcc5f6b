"""`orchestrator init`: a new agent that runs at once; `orchestrator schema`: its JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.examples import (
    SCHEMA_FILE,
    STARTER,
    check_example,
    copy_example,
    list_next_steps,
)
from orchestrator.cli.terminal import Terminal, show_commands
from orchestrator.cli.verb import option, setting, verb
from orchestrator.cli.warm_up import Warm, warm_up
from orchestrator.errors import ValidationError


@verb
def init(
    terminal: Terminal,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder to make; its name names the agent.")
    ],
    model: Annotated[str, setting("--model", "SPEC", "The agent's foundationModel.")] = "local",
    example: Annotated[
        str,
        setting(
            "--example",
            "NAME",
            "What to copy: insurance, hr, handbook, team, flows, minimal or starter.",
        ),
    ] = STARTER,
    warm: Warm = None,
) -> None:
    """Make a new agent that runs at once.

    The new folder has the agent of a small shop, for you to change: a definition, an action group
    with its schema and handler, folders for your own templates, and a test. --example copies one of
    the larger examples instead.

    [bold]Examples[/bold]
      $ orchestrator init my-agent
      $ orchestrator init claims --example insurance
      $ orchestrator init my-agent --model amazon.nova-pro-v1:0
    """
    from orchestrator.models import resolve_model

    chosen = resolve_model(model)
    check_example(example, model)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValidationError(f"{str(folder)!r} exists already; name a new folder")
    copy_example(example, folder, model)
    if (folder / "agent.yaml").is_file():
        write_schema(folder / SCHEMA_FILE)
    files = sorted(str(it.relative_to(folder)) for it in folder.rglob("*") if it.is_file())
    if terminal.json:
        terminal.document({"folder": str(folder), "files": files})
    else:
        _show_next_steps(terminal, example, folder, files)
    if chosen.model_id.startswith("local:"):
        warm_up(terminal, folder, warm)


def _show_next_steps(terminal: Terminal, example: str, folder: Path, files: list[str]) -> None:
    terminal.path(f"made {str(folder)!r} with {len(files)} files")
    terminal.print()
    show_commands(terminal, list_next_steps(example, folder))


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
