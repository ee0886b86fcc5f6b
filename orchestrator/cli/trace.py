"""`orchestrator trace`: a recorded trace, told step by step."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from orchestrator.cli.options import read_input
from orchestrator.cli.terminal import Terminal
from orchestrator.cli.verb import verb
from orchestrator.errors import ValidationError


@verb
def trace(
    terminal: Terminal,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="JSON or JSON lines: what `invoke --json` printed, a list of trace parts, or the "
            "events of Bedrock's InvokeAgent. '-' is stdin.",
        ),
    ] = "-",
) -> None:
    """Tell a recorded trace step by step, one of Amazon Bedrock too.

    [bold]Examples[/bold]
      $ orchestrator trace reply.json
      $ orchestrator invoke my-agent "Hi" --json | orchestrator trace
    """
    from orchestrator.cli.steps import list_steps
    from orchestrator.cli.trace_view import show_trace

    parts = list(_find_parts(_read(read_input(file), file)))
    if not parts:
        raise ValidationError(f"there are no trace parts in {file!r}")
    if terminal.json:
        terminal.document([step.as_dict() for step in list_steps(parts)])
    else:
        show_trace(terminal, parts)


def _read(text: str, file: str) -> Any:
    try:
        return json_module.loads(text)
    except ValueError as error:
        try:
            return [json_module.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            raise ValidationError(f"{file!r} is neither JSON nor JSON lines: {error}") from error


def _find_parts(value: Any) -> list[Mapping[str, Any]]:
    """The trace parts in a value, wherever they are; a part is an object with a `trace` object."""
    if isinstance(value, list):
        return [part for item in value for part in _find_parts(item)]
    if not isinstance(value, dict):
        return []
    inner = value.get("trace")
    if isinstance(inner, dict) and "trace" not in inner:
        return [value]
    return [part for item in value.values() for part in _find_parts(item)]
