"""`orchestrator pull`: an agent out of AWS, or any endpoint, into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.terminal import Terminal
from orchestrator.cli.transfer import (
    Alias,
    Endpoint,
    Force,
    Into,
    Profile,
    Region,
    Version,
    show_notes,
    write_agent,
)
from orchestrator.cli.verb import verb
from orchestrator.errors import ValidationError


@verb
def pull(
    terminal: Terminal,
    agent_id: Annotated[str, typer.Argument(metavar="AGENT_ID", help="The agent's id.")],
    alias: Alias = None,
    version: Version = None,
    into: Into = None,
    force: Force = False,
    endpoint_url: Endpoint = None,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Carry an agent from AWS, or any endpoint, into a folder.

    Comes with its templates, schemas and collaborators. Files that are there are not overwritten.

    [bold]Examples[/bold]
      $ orchestrator pull ABCDEFGHIJ
      $ orchestrator pull ABCDEFGHIJ --alias KLMNOPQRST --into agents/claims
      $ orchestrator pull ABCDEFGHIJ --endpoint-url http://127.0.0.1:8080
    """
    from orchestrator.transfer import connect, files_of, read_agent

    if alias is not None and version is not None:
        raise ValidationError("give --alias or --version, not both")
    remote = connect(endpoint_url, region, profile)
    document = read_agent(remote, agent_id, alias=alias, version=version)
    files = files_of(document)
    told = write_agent(terminal, files, into or Path(document.name), force=force)
    notes = document.all_notes()
    if terminal.json:
        terminal.document({**told, "notes": [it.as_dict() for it in notes]})
    show_notes(terminal, notes)
