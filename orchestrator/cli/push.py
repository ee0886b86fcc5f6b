"""`orchestrator push`: an agent's folder into AWS, or any endpoint."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.cli.findings import error_document, show_error
from orchestrator.cli.options import Folder, parse_pairs
from orchestrator.cli.terminal import Terminal
from orchestrator.cli.transfer import Endpoint, Profile, Region, show_notes
from orchestrator.cli.verb import AGENT_FAILED, verb
from orchestrator.errors import OrchestratorError, ValidationError

_Alias = Annotated[
    str | None,
    typer.Option(
        "--alias",
        metavar="NAME",
        help="Have this alias lead to a version with what is pushed.",
        show_default=False,
    ),
]
_AgentId = Annotated[
    str | None,
    typer.Option("--agent-id", metavar="ID", help="Change this agent.", show_default=False),
]
_Create = Annotated[bool, typer.Option("--create", help="Make a new agent.")]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Tell what would be done, and do nothing.")
]
_Lambdas = Annotated[
    list[str] | None,
    typer.Option(
        "--lambda",
        metavar="GROUP=ARN",
        help="The Lambda function that an action group calls there. Also AGENT/GROUP, "
        "overrideLambda and customOrchestration. Repeatable.",
        show_default=False,
    ),
]
_Model = Annotated[
    str | None,
    typer.Option("--model", metavar="ID", help="The foundation model there.", show_default=False),
]
_Skip = Annotated[
    bool, typer.Option("--skip-unsupported", help="Leave out what Bedrock does not have.")
]


@verb
def push(
    terminal: Terminal,
    folder: Folder,
    alias: _Alias = None,
    agent_id: _AgentId = None,
    create: _Create = False,
    dry_run: _DryRun = False,
    lambdas: _Lambdas = None,
    model: _Model = None,
    skip: _Skip = False,
    endpoint_url: Endpoint = None,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Carry an agent's folder into AWS, or to any endpoint.

    The agent there is the one with the folder's agentId, or else with its name; without one it is
    made. Agents that it leads come first. All is checked before anything is sent.

    [bold]Examples[/bold]
      $ orchestrator push my-agent --dry-run
      $ orchestrator push my-agent --alias live --lambda orders=arn:aws:lambda:...
      $ orchestrator push my-agent --endpoint-url http://127.0.0.1:8080
    """
    from orchestrator.transfer import Options, Step, connect, read_folder
    from orchestrator.transfer import push as carry_push

    if create and agent_id is not None:
        raise ValidationError("give --create or --agent-id, not both")
    options = Options(
        alias=alias,
        agent_id=agent_id,
        create=create,
        dry_run=dry_run,
        skip=skip,
        lambdas=parse_pairs(lambdas, "--lambda"),
        model=model,
    )
    told: list[dict[str, str]] = []

    def report_step(step: Step) -> None:
        text = step.dry_run_text if dry_run else step.text_when_done
        told.append({"agent": step.agent, "step": text})
        if not terminal.json:
            terminal.block(f"{step.agent}: {text}")

    document = read_folder(folder)
    remote = connect(endpoint_url, region, profile)
    try:
        pushed = carry_push(document, remote, options, tell=report_step)
    except OrchestratorError as error:
        if not told:
            raise
        _report_failure(terminal, error, told)
        raise typer.Exit(AGENT_FAILED) from error
    if terminal.json:
        ids = {"agentId": pushed.agent_id or None, "agentAliasId": pushed.alias_id or None}
        notes = [it.as_dict() for it in pushed.notes]
        terminal.document({**ids, "dry_run": dry_run, "steps": told, "notes": notes})
    else:
        _report_end(terminal, pushed.agent_id, pushed.alias_id, anything=bool(told))
    show_notes(terminal, pushed.notes)


def _report_end(terminal: Terminal, agent_id: str, alias_id: str, *, anything: bool) -> None:
    if not anything:
        terminal.print("there is nothing to do")
    if agent_id:
        alias = f", alias {alias_id}" if alias_id else ""
        terminal.print(f"agent {agent_id}{alias}")


def _report_failure(terminal: Terminal, error: Exception, told: list[dict[str, str]]) -> None:
    if terminal.json:
        terminal.document({**error_document(error), "steps": told})
    show_error(terminal, error)
    if told:
        terminal.note("what is told above is done; run the same command again to go on")
