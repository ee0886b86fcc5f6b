"""`orchestrator import`: agents in files of others, into folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.options import parse_pairs
from orchestrator.cli.terminal import Terminal
from orchestrator.cli.transfer import Force, Into, show_notes, write_agent
from orchestrator.cli.verb import option, verb
from orchestrator.errors import ValidationError

if TYPE_CHECKING:
    from orchestrator.transfer import Document
    from orchestrator.transfer.sources import ImportedAgents


@verb
def import_(
    terminal: Terminal,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="The file; after GetAgent's answer, also those of its action groups.",
        ),
    ],
    name: Annotated[
        str | None, option("--name", "RESOURCE", "The agent to take, of a file with several.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Take all agents, each into a folder of its own.")
    ] = False,
    into: Into = None,
    parameter: Annotated[
        list[str] | None,
        option(
            "--parameter",
            "NAME=VALUE",
            "A parameter of a CloudFormation template, such as AWS::Region. Repeatable.",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Carry agents of other tools' files into folders.

    Reads GetAgent's JSON, the AgentCore toolkit's bedrock_config.json, CloudFormation templates
    and Terraform plans (terraform show -json); which of these it is, the file tells.

    [bold]Examples[/bold]
      $ orchestrator import get-agent.json get-agent-action-group.json
      $ orchestrator import template.yaml --name ClaimsAgent --into agents/claims
      $ orchestrator import plan.json --all --into agents
    """
    from orchestrator.transfer import files_of, read_source

    found = read_source(files[0], files[1:], parse_pairs(parameter, "--parameter"))
    agents = _choose_agents(found, name, every)
    folders = _choose_folders(agents, into, every)
    written = {
        folder: write_agent(terminal, files_of(agents[key]), folder, force=force)
        for key, folder in folders.items()
    }
    notes = list(dict.fromkeys(it for agent in agents.values() for it in agent.all_notes()))
    if terminal.json:
        document: dict[str, Any] = {"format": found.format, "agents": [*written.values()]}
        terminal.document({**document, "notes": [it.as_dict() for it in notes]})
    show_notes(terminal, notes)


def _choose_agents(found: ImportedAgents, name: str | None, every: bool) -> dict[str, Document]:
    if name is not None:
        return {name: found.get_agent(name)}
    leading = found.find_top_level()
    if len(leading) > 1 and not every:
        listed = "\n".join(f"  {key}  ({agent.name})" for key, agent in leading.items())
        raise ValidationError(
            f"the file has {len(leading)} agents; take one with --name, or all with --all:\n"
            f"{listed}"
        )
    return leading


def _choose_folders(agents: dict[str, Document], into: Path | None, every: bool) -> dict[str, Path]:
    # Agents of one name go into folders with numbers.
    if not every:
        return {key: into or Path(agent.name) for key, agent in agents.items()}
    taken: set[str] = set()
    folders = {}
    for key, agent in agents.items():
        name, number = agent.name, 1
        while name.lower() in taken:
            number += 1
            name = f"{agent.name}-{number}"
        taken.add(name.lower())
        folders[key] = (into or Path()) / name
    return folders
