"""`orchestrator pull`, `push` and `diff`: agents between folders and AWS, or any endpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.compare import compare_prompts, looks_like_id
from orchestrator.cli.findings import format_path, report_error, show_finding
from orchestrator.cli.options import Folder, Model, parse_pairs
from orchestrator.cli.terminal import Terminal, clean, style_text
from orchestrator.cli.verb import AGENT_FAILED, USAGE, option, verb
from orchestrator.errors import OrchestratorError, ValidationError

if TYPE_CHECKING:
    from orchestrator.diagnostics import Diagnostic
    from orchestrator.transfer import Change, Document, Remote


@dataclass(frozen=True)
class Endpoint:
    """Where an agent is that is not in a folder."""

    endpoint_url: Annotated[
        str | None,
        option(
            "--endpoint-url",
            "URL",
            "Another address than AWS's, such as that of `orchestrator serve`.",
        ),
    ] = None
    region: Annotated[str | None, option("--region", "NAME", "The AWS region.")] = None
    profile: Annotated[
        str | None, option("--profile", "NAME", "A profile of AWS's configuration.")
    ] = None

    def connect(self) -> Remote:
        """The client of its API."""
        from orchestrator.transfer import connect

        return connect(self.endpoint_url, self.region, self.profile)


Alias = Annotated[
    str | None,
    option("--alias", "ALIAS", "The version of this alias, given by its id or name."),
]
Version = Annotated[str | None, option("--version", "N", "This version.")]
Into = Annotated[
    Path | None, option("--into", "FOLDER", "The folder to write. Default: the agent's name.")
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Overwrite changed files, and remove templates and schemas of an earlier run that the "
        "agent no longer has.",
    ),
]


def _show_notes(terminal: Terminal, notes: Iterable[Diagnostic]) -> None:
    for it in notes:
        show_finding(terminal, it, stderr=True)


def _show_changes(terminal: Terminal, changes: Sequence[Change]) -> None:
    for line in (line for it in changes for line in _render_diff(it)):
        style = next((name for mark, name in _STYLES if line.startswith(mark)), "")
        terminal.path(style_text(clean(line), style))


_STYLES = (
    ("---", "name"),
    ("+++", "name"),
    ("@@", "heading"),
    ("-", "error"),
    ("+", "good"),
)


def _render_diff(change: Change) -> Iterable[str]:
    before, after = (change.before or "").splitlines(), (change.after or "").splitlines()
    names = (
        "/dev/null" if change.before is None else f"a/{change.path}",
        "/dev/null" if change.after is None else f"b/{change.path}",
    )
    return unified_diff(before, after, *names, lineterm="")


def write_agent(
    terminal: Terminal, document: Document, folder: Path, *, force: bool, quiet: bool = False
) -> dict[str, Any]:
    """Writes an agent's folder, and tells the files unless `quiet`; gives members for `--json`.

    Raises:
        ValidationError: Files would be changed or removed, which are shown, without `force`.
    """
    from orchestrator.transfer import files_of, write_files

    files = files_of(document)
    check_unchanged(terminal, files, folder, force=force)
    written = write_files(files, folder, force=force)
    if not terminal.json and not quiet:
        for it in written:
            did = "removed" if it.after is None else "wrote"
            terminal.path(f"{did} {format_path(folder / it.path)}")
        if not written:
            terminal.path(f"{format_path(folder)} is as it was: there is nothing to do")
    removed = [it.path for it in written if it.after is None]
    return {
        "folder": str(folder),
        "written": [it.path for it in written if it.after is not None],
        **({"removed": removed} if removed else {}),
        "files": [*files],
    }


def check_unchanged(
    terminal: Terminal, files: Mapping[str, str], folder: Path, *, force: bool
) -> None:
    """Shows what writing would change or remove, when that is not allowed.

    Raises:
        ValidationError: There is such a file.
    """
    from orchestrator.transfer import changes, write_files

    changed = [it for it in changes(files, folder) if it.before is not None]
    if changed and not force:
        if not terminal.json:
            _show_changes(terminal, changed)
        write_files(files, folder)


def _check_one_version(alias: str | None, version: str | None) -> None:
    # AWS: an alias routes to a version itself, so a second one would contradict it.
    if alias is not None and version is not None:
        raise ValidationError("give --alias or --version, not both")


@verb
def pull(
    terminal: Terminal,
    agent_id: Annotated[str, typer.Argument(metavar="AGENT_ID", help="The agent's id.")],
    alias: Alias = None,
    version: Version = None,
    into: Into = None,
    force: Force = False,
    *,
    endpoint: Endpoint,
) -> None:
    """Copy an agent from AWS, or any endpoint, into a folder.

    Copies its templates, schemas and collaborators, too. Without --force no existing file is
    overwritten.

    [bold]Examples[/bold]
      $ orchestrator pull ABCDEFGHIJ
      $ orchestrator pull ABCDEFGHIJ --alias KLMNOPQRST --into agents/claims
      $ orchestrator pull ABCDEFGHIJ --endpoint-url http://127.0.0.1:8080
    """
    from orchestrator.transfer import read_agent

    _check_one_version(alias, version)
    remote = endpoint.connect()
    document = read_agent(remote, agent_id, alias=alias, version=version)
    written = write_agent(terminal, document, into or Path(document.name), force=force)
    notes = document.all_notes()
    if terminal.json:
        terminal.document({**written, "notes": [it.as_dict() for it in notes]})
    _show_notes(terminal, notes)


@dataclass(frozen=True)
class PushOptions:
    """The options of `push`, under the names of `orchestrator.transfer.Options`."""

    alias: Annotated[
        str | None,
        option("--alias", "NAME", "Point this alias to a new version with the pushed agent."),
    ] = None
    agent_id: Annotated[str | None, option("--agent-id", "ID", "Change this agent.")] = None
    create: Annotated[bool, typer.Option("--create", help="Make a new agent.")] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")
    ] = False
    lambdas: Annotated[
        list[str] | None,
        option(
            "--lambda",
            "GROUP=ARN",
            "The Lambda function that an action group calls there. Also AGENT/GROUP, "
            "overrideLambda and customOrchestration. Repeatable.",
        ),
    ] = None
    model: Annotated[str | None, option("--model", "ID", "The foundation model there.")] = None
    skip: Annotated[
        bool, typer.Option("--skip-unsupported", help="Leave out what Bedrock does not have.")
    ] = False


@verb
def push(terminal: Terminal, folder: Folder, what: PushOptions, endpoint: Endpoint) -> None:
    """Copy an agent's folder into AWS, or to any endpoint.

    Changes the agent with the folder's agentId, or else with its name; if there is none, makes one.
    Its collaborators are copied first. Everything is checked before anything is sent.

    [bold]Examples[/bold]
      $ orchestrator push my-agent --dry-run
      $ orchestrator push my-agent --alias live --lambda orders=arn:aws:lambda:...
      $ orchestrator push my-agent --endpoint-url http://127.0.0.1:8080
    """
    from orchestrator.transfer import Options, Step, read_folder
    from orchestrator.transfer import push as push_agent

    if what.create and what.agent_id is not None:
        raise ValidationError("give --create or --agent-id, not both")
    options = Options(**{**vars(what), "lambdas": parse_pairs(what.lambdas, "--lambda")})
    done: list[dict[str, str]] = []

    def report_step(step: Step) -> None:
        text = step.dry_run_text if options.dry_run else step.text_when_done
        done.append({"agent": step.agent, "step": text})
        if not terminal.json:
            terminal.block(f"{step.agent}: {text}")

    document = read_folder(folder)
    remote = endpoint.connect()
    try:
        pushed = push_agent(document, remote, options, report=report_step)
    except OrchestratorError as error:
        if not done:
            raise
        report_error(terminal, error, steps=done)
        terminal.note("what is listed above is done; run the same command again to go on")
        raise typer.Exit(AGENT_FAILED) from error
    if terminal.json:
        ids = {"agentId": pushed.agent_id or None, "agentAliasId": pushed.alias_id or None}
        notes = [it.as_dict() for it in pushed.notes]
        terminal.document({**ids, "dry_run": options.dry_run, "steps": done, "notes": notes})
    elif not done:
        terminal.print("there is nothing to do")
    if pushed.agent_id and not terminal.json:
        alias = f", alias {pushed.alias_id}" if pushed.alias_id else ""
        terminal.print(f"agent {pushed.agent_id}{alias}")
    _show_notes(terminal, pushed.notes)


@verb
def diff(
    terminal: Terminal,
    folder: Folder,
    other: Annotated[
        str | None,
        typer.Argument(
            metavar="FOLDER|AGENT_ID",
            help="Another folder, or an agent's id. Default: the agent with the folder's agentId "
            "or name.",
            show_default=False,
        ),
    ] = None,
    alias: Alias = None,
    version: Version = None,
    model: Model = None,
    question: Annotated[
        str | None,
        option(
            "--question", "TEXT", "The user's input in the prompts of two folders. Default: Hello."
        ),
    ] = None,
    *,
    endpoint: Endpoint,
) -> None:
    """Show how a folder differs from another one, or from an agent elsewhere.

    With two folders it compares the definitions, and the prompts of all stages as render shows
    them; lines with + are those of the second folder. With an agent elsewhere it shows what push
    would change: lines with - are there now, lines with + are in the folder. The exit code is 0 if
    there is no difference, and 1 if there is one.

    [bold]Examples[/bold]
      $ orchestrator diff my-agent my-other-agent
      $ orchestrator diff my-agent
      $ orchestrator diff my-agent ABCDEFGHIJ --version 3
      $ orchestrator diff my-agent --endpoint-url http://127.0.0.1:8080 --json
    """
    from orchestrator.transfer import difference, read_folder

    _check_one_version(alias, version)
    remote = any((alias, version, *vars(endpoint).values()))
    if other is not None and not (looks_like_id(other) and (remote or not Path(other).exists())):
        if remote:
            raise ValidationError(f"{other!r} is a folder, which has no version and no address")
        _diff_folders(terminal, folder, Path(other), model, question or "Hello")
        return
    if model is not None or question is not None:
        raise ValidationError("--model and --question are for two folders; leave them out")
    document = read_folder(folder)
    found = difference(document, endpoint.connect(), other, alias=alias, version=version)
    if terminal.json:
        changes = [{"path": it.path, "there": it.before, "here": it.after} for it in found.changes]
        notes = [it.as_dict() for it in found.notes]
        same = {"agentId": found.agent_id, "same": not changes}
        terminal.document({**same, "changes": changes, "notes": notes})
    else:
        _show_changes(terminal, found.changes)
        if not found.changes:
            terminal.print(f"no difference from the agent {found.agent_id}")
    _show_notes(terminal, found.notes)
    if found.changes:
        raise typer.Exit(AGENT_FAILED)


def _diff_folders(
    terminal: Terminal, before: Path, after: Path, model: str | None, question: str
) -> None:
    from orchestrator.transfer import compare_folders, read_folder

    try:
        one, other = read_folder(before), read_folder(after)
        changes = compare_folders(one, other) + compare_prompts(one, other, model, question)
    except OrchestratorError as error:
        # 1 says that there is a difference, as diff(1) does.
        report_error(terminal, error)
        raise typer.Exit(USAGE) from error
    if terminal.json:
        listed = [{"path": it.path, "before": it.before, "after": it.after} for it in changes]
        terminal.document({"same": not changes, "changes": listed})
    else:
        _show_changes(terminal, changes)
        if not changes:
            terminal.path(f"no difference between {format_path(before)} and {format_path(after)}")
    if changes:
        raise typer.Exit(AGENT_FAILED)
