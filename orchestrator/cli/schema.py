"""`orchestrator schema`: the JSON Schema of an agent's definition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.terminal import Terminal
from orchestrator.cli.verb import verb

SCHEMA_FILE = "agent.schema.json"
"""The name under which `init` puts the schema beside an `agent.yaml`."""


@verb
def schema(
    terminal: Terminal,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write it to this file.", show_default=False
        ),
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
    if terminal.json:
        terminal.document({"file": str(output)})
    else:
        terminal.print(f"wrote {output}")


def write_schema(file: Path) -> None:
    """Writes the schema into a file."""
    from orchestrator.definition import definition_schema

    text = json.dumps(definition_schema(), ensure_ascii=False, indent=2)
    file.write_text(text + "\n", encoding="utf-8")
