"""`orchestrator sessions`: the stored sessions, listed, shown, ended and deleted."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.agents import get_sessions_file
from orchestrator.cli.options import Model, parse_duration
from orchestrator.cli.session_state import (
    NextCommands,
    agent_name,
    find_session,
    iso_time,
    list_sessions,
    local_time,
    open_sessions,
    read_turns,
    session_state,
    show_turn,
)
from orchestrator.cli.terminal import Terminal, clean, format_count, format_line
from orchestrator.cli.verb import option, verb
from orchestrator.errors import DependencyFailed, SessionConflict, ValidationError

if TYPE_CHECKING:
    from orchestrator.sessions import SessionInfo, Sessions, SessionStore

Id = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The agent's folder.")]
State = Annotated[
    str | None,
    option(
        "--state",
        "FILE|URL",
        "The SQLite file, or the URL of the store. Default: FOLDER/.orchestrator/sessions.sqlite.",
    ),
]
Tenant = Annotated[
    str | None, option("--tenant", "NAME", "The tenant whose session it is, of those of a server.")
]
HERE = Path(".")


@verb
def list_(
    terminal: Terminal,
    folder: Folder = HERE,
    state: State = None,
    tenant: Annotated[
        str | None, option("--tenant", "NAME", "Only those of this tenant, of those of a server.")
    ] = None,
) -> None:
    """List the kept sessions, the last used first.

    [bold]Examples[/bold]
      $ orchestrator sessions list my-agent
      $ orchestrator sessions list --state sessions.sqlite --json
    """
    sessions = open_chosen_sessions(folder, state)
    listed: list[dict[str, Any]] = [
        {
            "id": info.session_id,
            "agent": agent_name(folder, info),
            "state": session_state(sessions, info),
            "label": info.label,
            "records": info.records,
            "updated": info.updated,
            "updated_time": iso_time(info.updated),
        }
        for info in list_sessions(sessions, tenant)
    ]
    if terminal.json:
        terminal.document(listed)
        return
    if not listed:
        terminal.print("no sessions")
    width = max((len(item["id"]) for item in listed), default=0)
    for item in listed:
        facts = item["state"], local_time(item["updated"]), f"{item['records']} records"
        name, agent = item["id"].ljust(width), item["agent"] or item["label"]
        terminal.block(format_line(name, [*facts, agent]))


@verb
def show(
    terminal: Terminal,
    session: Id,
    folder: Folder = HERE,
    state: State = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show every step of each turn.")] = False,
    tenant: Tenant = None,
    model: Model = None,
) -> None:
    """Show a session's conversation, and with --trace how each answer came about.

    [bold]Examples[/bold]
      $ orchestrator sessions show s-1 my-agent
      $ orchestrator sessions show s-1 my-agent --trace
      $ orchestrator sessions show s-1 my-agent --tenant acme --state $DATABASE
    """
    from orchestrator.agent.agent import Agent

    sessions = open_chosen_sessions(folder, state, session)
    info = find_session(sessions, session, tenant)
    agent = Agent.load(folder, model=model) if trace else None
    turns = list(read_turns(sessions, info, agent))
    if terminal.json:
        documents = [turn.as_dict(trace=trace) for turn in turns]
        terminal.document({"label": info.label, "turns": documents})
        return
    for shown in turns:
        show_turn(terminal, shown, NextCommands.of(info, folder, state))


@verb
def end(
    terminal: Terminal,
    session: Id,
    folder: Folder = HERE,
    state: State = None,
    tenant: Tenant = None,
) -> None:
    """End a session: its next turn begins with no attributes and no conversation.

    [bold]Examples[/bold]
      $ orchestrator sessions end s-1 my-agent
    """
    from orchestrator.sessions.between_turns import end_session

    sessions = open_chosen_sessions(folder, state, session)
    info = find_session(sessions, session, tenant)
    end_session(sessions, info.label)
    terminal.report({"ended": info.label}, f"ended {info.label.rsplit('/', 1)[-1]}")


@verb
def delete(
    terminal: Terminal,
    session: Id,
    folder: Folder = HERE,
    state: State = None,
    tenant: Tenant = None,
) -> None:
    """Delete a session and its journal.

    [bold]Examples[/bold]
      $ orchestrator sessions delete s-1 my-agent
    """
    sessions = open_chosen_sessions(folder, state, session)
    info = find_session(sessions, session, tenant)
    sessions.store.delete(info.key)
    terminal.report({"deleted": info.label}, f"deleted {info.label.rsplit('/', 1)[-1]}")


@verb
def prune(
    terminal: Terminal,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="DURATION", help="How long unused: 90m, 12h, 30d or 8w."
        ),
    ],
    folder: Folder = HERE,
    state: State = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete them, instead of a list.")] = False,
) -> None:
    """Delete the sessions that nobody used for some time; without --yes, only list them.

    A session whose turn runs stays, and so does one that is used meanwhile. What past prompts were
    made of goes with the last session that had it; all journals are read for that.

    [bold]Examples[/bold]
      $ orchestrator sessions prune --older-than 30d my-agent
      $ orchestrator sessions prune --older-than 30d --state sessions.sqlite --yes
    """
    age = parse_duration(older_than, "--older-than")
    sessions = open_chosen_sessions(folder, state)
    before = sessions.clock() - age
    # A list: SQLite's cursor, or another store's pages, would see what is deleted meanwhile.
    old = [info for info in sessions.store.list() if info.updated < before]
    pruned = [info for info in old if _is_free(sessions, info)]
    for info in pruned if yes else ():
        sessions.store.delete(info.key)
    plans = _delete_unused_plans(terminal, sessions.store) if yes else 0
    if terminal.json:
        labels = [info.label for info in pruned]
        terminal.document({"deleted": labels, "plans": plans} if yes else {"would_delete": labels})
        return
    for info in pruned:
        terminal.block(format_line(info.session_id, [local_time(info.updated), info.label]))
    found = format_count(len(pruned), "session")
    if plans:
        found += f", and what prompts of {format_count(plans, 'version')} of agents were made of"
    terminal.print(f"deleted {found}" if yes else f"{found} to delete; --yes deletes")


def _delete_unused_plans(terminal: Terminal, store: SessionStore) -> int:
    from orchestrator.sessions.unused_plans import delete_unused_plans

    try:
        return delete_unused_plans(store)
    except DependencyFailed as error:
        terminal.note(clean(f"what past prompts were made of stays: {error.message}"))
        return 0


def _is_free(sessions: Sessions, info: SessionInfo) -> bool:
    # What was written since the list was made is in use, whatever the turn's state.
    try:
        session = sessions.peek(info.label)
        sessions.refuse_running(session)
    except SessionConflict:
        return False
    except DependencyFailed:  # a journal that cannot be read can only be deleted
        return True
    if session.open is not None and session.open.decision_request is not None:
        return False  # its keys are all that is known of an action that may have taken effect
    return session.count == info.records


def open_chosen_sessions(folder: Path, state: str | None, session: str | None = None) -> Sessions:
    """The sessions that --state names, or those in an agent's folder; `session` is one's name.

    Raises:
        ResourceNotFound: There are none.
        ValidationError: What was given for a session's name is a folder.
    """
    file = get_sessions_file(folder)
    if state is None and session is not None and not file.is_file() and Path(session).is_dir():
        raise ValidationError(
            f"{session!r} is a folder, and no session: give the session before the folder; "
            f"`orchestrator sessions list {shlex.quote(session)}` lists them"
        )
    return open_sessions(state or file)
