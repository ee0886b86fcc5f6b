"""`orchestrator import`: agents of other tools' files, and of whole projects, into folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.import_view import show_import
from orchestrator.cli.options import parse_pairs
from orchestrator.cli.terminal import Terminal
from orchestrator.cli.transfer import Force, check_unchanged, write_agent
from orchestrator.cli.verb import option, verb
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import OrchestratorError, ValidationError

if TYPE_CHECKING:
    from orchestrator.transfer import Document
    from orchestrator.transfer.sources import ImportedAgents


@verb
def import_(
    terminal: Terminal,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH",
            help="A project's folder, or a file; after GetAgent's answer, also those of its "
            "action groups.",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            "--agent",
            "--name",
            metavar="NAME",
            help="The agent to take, by its name or its resource's.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Take all agents of a file, as of a folder.")
    ] = False,
    into: Annotated[
        Path | None,
        option(
            "--into",
            "FOLDER",
            "The folder to write; of several agents, the folder of their folders. Default: the "
            "agents' names.",
        ),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        option(
            "--parameter",
            "NAME=VALUE",
            "A parameter of a template, such as AWS::Region, or a variable of Terraform. "
            "Repeatable.",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Import agents from Terraform, CloudFormation, SAM or CDK into folders.

    Reads a project's folder, or a file, and imports all agents that it finds: in templates of
    CloudFormation and SAM, in cdk.out, in Terraform's sources, plans and states, in answers of
    GetAgent and in the AgentCore toolkit's bedrock_config.json. The Python code of Lambda functions
    is copied as handlers. Nothing is run or deployed.

    [bold]Examples[/bold]
      $ orchestrator import . --into agents
      $ orchestrator import infra --agent claims --parameter stage=live
      $ orchestrator import template.yaml --agent ClaimsAgent --into agents/claims
      $ orchestrator import get-agent.json get-agent-action-group.json
    """
    from orchestrator.transfer import files_of, read_source

    found = read_source(files[0], files[1:], parse_pairs(parameter, "--parameter"))
    every = every or files[0].is_dir()
    agents = _choose_agents(found, name, every)
    folders = _choose_folders(agents, into)
    # All or nothing: no folder is written when another would be changed.
    for key, folder in folders.items():
        check_unchanged(terminal, files_of(agents[key]), folder, force=force)
    written = {
        key: write_agent(terminal, agents[key], folder, force=force, quiet=True)
        for key, folder in folders.items()
    }
    checked = {key: _lint(folder, agents[key]) for key, folder in folders.items()}
    if terminal.json:
        terminal.document(_make_document(found, agents, written, checked))
    else:
        show_import(terminal, found, agents, folders, written, checked)


def _choose_agents(found: ImportedAgents, name: str | None, every: bool) -> dict[str, Document]:
    if name is not None:
        return {name: found.get_agent(name)}
    leading = found.find_top_level()
    if len(leading) > 1 and not every:
        listed = "\n".join(f"  {key}  ({agent.name})" for key, agent in leading.items())
        raise ValidationError(
            f"the file has {len(leading)} agents; take one with --agent, or all with --all:\n"
            f"{listed}"
        )
    return leading


def _choose_folders(agents: dict[str, Document], into: Path | None) -> dict[str, Path]:
    from orchestrator.transfer.import_summary import name_folders

    if len(agents) == 1:
        return {key: into or Path(agent.name) for key, agent in agents.items()}
    return {key: (into or Path()) / name for key, name in name_folders(agents).items()}


def _lint(folder: Path, agent: Document) -> list[Diagnostic]:
    # What `orchestrator lint` would say of the folder belongs to what is told here.
    from orchestrator.agent.lint import lint_agent
    from orchestrator.transfer.import_summary import leave_out_known

    try:
        return leave_out_known(lint_agent(folder), agent)
    except OrchestratorError as error:
        return [Diagnostic(severity="error", code="lint", message=error.message, file=str(folder))]


def _make_document(
    found: ImportedAgents,
    agents: dict[str, Document],
    written: dict[str, dict[str, Any]],
    checked: dict[str, list[Diagnostic]],
) -> dict[str, Any]:
    notes = [*found.notes, *(it for agent in agents.values() for it in agent.all_notes())]
    return {
        "format": found.format,
        "agents": [
            {
                "name": agents[key].name,
                "source": agents[key].source.file or None,
                "line": agents[key].line,
                **written[key],
                "diagnostics": [it.as_dict() for it in checked[key]],
            }
            for key in agents
        ],
        "unused": dict(sorted(found.unused.items())),
        "notes": [it.as_dict() for it in dict.fromkeys(notes)],
    }
