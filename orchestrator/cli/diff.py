"""`orchestrator diff`: how an agent's folder differs from an agent elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.cli.options import Folder
from orchestrator.cli.terminal import Terminal
from orchestrator.cli.transfer import (
    Alias,
    Endpoint,
    Profile,
    Region,
    Version,
    show_changes,
    show_notes,
)
from orchestrator.cli.verb import AGENT_FAILED, verb
from orchestrator.errors import ValidationError


@verb
def diff(
    terminal: Terminal,
    folder: Folder,
    agent_id: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT_ID",
            help="The agent's id. Default: the agent with the folder's agentId or name.",
            show_default=False,
        ),
    ] = None,
    alias: Alias = None,
    version: Version = None,
    endpoint_url: Endpoint = None,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Show how a folder differs from an agent elsewhere.

    Lines with - are as it is there, those with + as in the folder, and as push would make it.
    The exit code is 0 when there is no difference, 1 when there is one.

    [bold]Examples[/bold]
      $ orchestrator diff my-agent
      $ orchestrator diff my-agent ABCDEFGHIJ --version 3
      $ orchestrator diff my-agent --endpoint-url http://127.0.0.1:8080 --json
    """
    from orchestrator.transfer import connect, difference, read_folder

    if alias is not None and version is not None:
        raise ValidationError("give --alias or --version, not both")
    document = read_folder(folder)
    remote = connect(endpoint_url, region, profile)
    found = difference(document, remote, agent_id, alias=alias, version=version)
    if terminal.json:
        terminal.document(
            {
                "agentId": found.agent_id,
                "same": not found.changes,
                "changes": [
                    {"path": it.path, "there": it.before, "here": it.after} for it in found.changes
                ],
                "notes": [it.as_dict() for it in found.notes],
            }
        )
    else:
        show_changes(terminal, found.changes)
        if not found.changes:
            terminal.print(f"no difference from the agent {found.agent_id}")
    show_notes(terminal, found.notes)
    if found.changes:
        raise typer.Exit(AGENT_FAILED)
