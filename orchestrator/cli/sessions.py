"""`orchestrator sessions`: the stored sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.agents import get_sessions_file
from orchestrator.cli.options import Model
from orchestrator.cli.session_state import (
    agent_name,
    find_session,
    iso_time,
    local_time,
    open_sessions,
    read_turns,
    session_state,
    show_turn,
)
from orchestrator.cli.terminal import Terminal, format_line
from orchestrator.cli.verb import option, verb

if TYPE_CHECKING:
    from orchestrator.sessions import Sessions

Id = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The agent's folder.")]
State = Annotated[
    Path | None,
    option("--state", "FILE", "The SQLite file. Default: FOLDER/.orchestrator/sessions.sqlite."),
]
HERE = Path(".")


@verb
def list_(terminal: Terminal, folder: Folder = HERE, state: State = None) -> None:
    """List the kept sessions, the last used first.

    [bold]Examples[/bold]
      $ orchestrator sessions list my-agent
      $ orchestrator sessions list --state sessions.sqlite --json
    """
    sessions = _open(folder, state)
    listed: list[dict[str, Any]] = [
        {
            "id": info.label.rsplit("/", 1)[-1],
            "agent": agent_name(folder, info),
            "state": session_state(sessions, info),
            "label": info.label,
            "records": info.records,
            "updated": info.updated,
            "updated_time": iso_time(info.updated),
        }
        for info in sessions.store.list()
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
    model: Model = None,
) -> None:
    """Show a session's conversation, and with --trace how each answer came about.

    [bold]Examples[/bold]
      $ orchestrator sessions show s-1 my-agent
      $ orchestrator sessions show s-1 my-agent --trace
    """
    from orchestrator.agent.agent import Agent

    sessions = _open(folder, state)
    info = find_session(sessions, session)
    agent = Agent.load(folder, model=model) if trace else None
    turns = list(read_turns(sessions, info, agent))
    if terminal.json:
        documents = [turn.as_dict(trace=trace) for turn in turns]
        terminal.document({"label": info.label, "turns": documents})
        return
    for shown in turns:
        show_turn(terminal, shown, session, str(folder))


@verb
def end(terminal: Terminal, session: Id, folder: Folder = HERE, state: State = None) -> None:
    """End a session: its next turn begins with no attributes and no conversation.

    [bold]Examples[/bold]
      $ orchestrator sessions end s-1 my-agent
    """
    sessions = _open(folder, state)
    info = find_session(sessions, session)
    sessions.end(info.label)
    terminal.report({"ended": info.label}, f"ended {info.label.rsplit('/', 1)[-1]}")


@verb
def delete(terminal: Terminal, session: Id, folder: Folder = HERE, state: State = None) -> None:
    """Delete a session and its journal.

    [bold]Examples[/bold]
      $ orchestrator sessions delete s-1 my-agent
    """
    sessions = _open(folder, state)
    info = find_session(sessions, session)
    sessions.store.delete(info.key)
    terminal.report({"deleted": info.label}, f"deleted {info.label.rsplit('/', 1)[-1]}")


def _open(folder: Path, state: Path | None) -> Sessions:
    return open_sessions(state or get_sessions_file(folder))
