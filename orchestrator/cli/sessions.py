"""`orchestrator sessions`: the kept sessions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.help import Verb, Verbs
from orchestrator.cli.options import Model
from orchestrator.cli.terminal import Terminal, clean
from orchestrator.cli.verb import verb

if TYPE_CHECKING:
    from orchestrator.cli.journal import KeptTurn
    from orchestrator.sessions import Sessions

__all__ = ["app"]

app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="List, show, end and delete kept sessions.",
)

Id = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The agent's folder.")]
State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="FILE",
        help="The SQLite file. Default: FOLDER/.orchestrator/sessions.sqlite.",
        show_default=False,
    ),
]
HERE = Path(".")


@app.command("list", cls=Verb)
@verb
def list_sessions(terminal: Terminal, folder: Folder = HERE, state: State = None) -> None:
    """List the kept sessions, the last used first.

    [bold]Examples[/bold]
      $ orchestrator sessions list my-agent
      $ orchestrator sessions list --state sessions.sqlite --json
    """
    listed = list(_open(folder, state).store.list())
    if terminal.json:
        terminal.document(
            [
                {
                    "id": info.label.rsplit("/", 1)[-1],
                    "label": info.label,
                    "records": info.records,
                    "updated": info.updated,
                }
                for info in listed
            ]
        )
        return
    if not listed:
        terminal.print("no sessions")
    width = max((len(info.label.rsplit("/", 1)[-1]) for info in listed), default=0)
    for info in listed:
        agent, _, name = info.label.rpartition("/")
        _line(
            terminal, name.ljust(width), f"{_when(info.updated)} · {info.records} records · {agent}"
        )


@app.command(cls=Verb)
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
    from orchestrator import Agent
    from orchestrator.cli.journal import find_session, kept_turns

    sessions = _open(folder, state)
    info = find_session(sessions, session)
    agent = Agent.load(folder, model=model) if trace else None
    turns = list(kept_turns(sessions, info, agent))
    if terminal.json:
        terminal.document(
            {"label": info.label, "turns": [turn.as_dict(trace=trace) for turn in turns]}
        )
        return
    for turn in turns:
        _show_turn(terminal, turn)


@app.command(cls=Verb)
@verb
def end(terminal: Terminal, session: Id, folder: Folder = HERE, state: State = None) -> None:
    """End a session: its next turn begins with no attributes and no conversation.

    [bold]Examples[/bold]
      $ orchestrator sessions end s-1 my-agent
    """
    from orchestrator.cli.journal import find_session

    sessions = _open(folder, state)
    info = find_session(sessions, session)
    sessions.end(info.label)
    _done(terminal, "ended", info.label)


@app.command(cls=Verb)
@verb
def delete(terminal: Terminal, session: Id, folder: Folder = HERE, state: State = None) -> None:
    """Delete a session and all that is known of it.

    [bold]Examples[/bold]
      $ orchestrator sessions delete s-1 my-agent
    """
    from orchestrator.cli.journal import find_session

    sessions = _open(folder, state)
    info = find_session(sessions, session)
    sessions.store.delete(info.key)
    _done(terminal, "deleted", info.label)


def _open(folder: Path, state: Path | None) -> Sessions:
    from orchestrator.cli.agents import kept_file
    from orchestrator.cli.journal import open_sessions

    return open_sessions(state or kept_file(folder))


def _done(terminal: Terminal, what: str, label: str) -> None:
    if terminal.json:
        terminal.document({what: label})
    else:
        terminal.print(f"{what} {label.rsplit('/', 1)[-1]}")


def _line(terminal: Terminal, name: str, facts: str) -> None:
    from rich.text import Text

    terminal.block(Text.assemble((clean(name), "name"), (f"  {facts}", "quiet")))


def _when(at: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at / 1e9))


_ENDINGS: dict[str, str] = {
    "return_control": "waits for a result",
    "cancelled": "stopped by the user",
    "interrupted": "its process stopped",
}


def _show_turn(terminal: Terminal, turn: KeptTurn) -> None:
    from rich.text import Text

    from orchestrator.cli.trace_view import show_trace

    if turn.new:
        terminal.print(Text("the session began anew", "quiet"))
    head: list[Any] = [("you ", "you"), (_when(turn.at), "quiet")]
    terminal.print(Text.assemble(*head))
    terminal.block(clean(turn.question), 2)
    if turn.note:
        terminal.block(Text(turn.note, "warning"), 2)
    if turn.trace:
        show_trace(terminal, turn.trace)
    if turn.stop_reason != "end_turn":
        reason = _ENDINGS.get(turn.stop_reason, turn.stop_reason)
        terminal.print(Text.assemble(("agent ", "agent"), (reason, "quiet")))
    else:
        terminal.print(Text("agent", "agent"))
    terminal.block(clean(turn.text), 2)
    terminal.print()
