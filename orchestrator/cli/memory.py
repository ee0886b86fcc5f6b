"""`orchestrator memory`: what is remembered of earlier sessions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.agents import get_sessions_file
from orchestrator.cli.session_state import iso_time, local_time, pick_one
from orchestrator.cli.sessions import HERE, Folder
from orchestrator.cli.terminal import Terminal, clean, format_line
from orchestrator.cli.verb import option, verb
from orchestrator.errors import ResourceNotFound

if TYPE_CHECKING:
    from orchestrator.memory import MemoryInfo

Id = Annotated[str, typer.Argument(metavar="MEMORY", help="The memory's id.")]
State = Annotated[
    str | None,
    option(
        "--state",
        "FILE|URL",
        "The SQLite file, or the URL of the store. Default: FOLDER/.orchestrator/memory.sqlite.",
    ),
]
_ALL = 1_000_000


def get_memory_file(folder: Path) -> Path:
    """The file of an agent's memory; it need not exist."""
    return get_sessions_file(folder).with_name("memory.sqlite")


@verb
def list_(terminal: Terminal, folder: Folder = HERE, state: State = None) -> None:
    """List the memories, the latest first.

    [bold]Examples[/bold]
      $ orchestrator memory list my-agent
      $ orchestrator memory list --state memory.sqlite --json
    """
    found = _open(folder, state).memories(time.time_ns())
    if terminal.json:
        terminal.document(
            [
                {
                    "memory": info.memory_id,
                    "owner": info.owner,
                    "sessions": info.sessions,
                    "latest": iso_time(info.latest),
                }
                for info in found
            ]
        )
        return
    if not found:
        terminal.print("nothing is remembered")
    for info in found:
        facts = [local_time(info.latest), f"{info.sessions} sessions", info.owner]
        terminal.block(format_line(info.memory_id, facts))


@verb
def show(terminal: Terminal, memory: Id, folder: Folder = HERE, state: State = None) -> None:
    """Show what is remembered, session by session, the newest first.

    With --json, as GetAgentMemory of Bedrock answers.

    [bold]Examples[/bold]
      $ orchestrator memory show ana my-agent
    """
    from orchestrator.memory import memory_contents

    store = _open(folder, state)
    info = _find(store, memory)
    summaries = store.recent(info.owner, info.memory_id, time.time_ns(), _ALL)
    if terminal.json:
        terminal.document({"memoryContents": memory_contents(summaries)})
        return
    for summary in summaries:
        facts = [local_time(summary.started)]
        if summary.expires is not None:
            facts.append(f"until {local_time(summary.expires)}")
        terminal.block(format_line(summary.session_id, facts))
        terminal.block(clean(summary.text), 2)


@verb
def delete(
    terminal: Terminal,
    memory: Id,
    folder: Folder = HERE,
    state: State = None,
    session: Annotated[str | None, option("--session", "ID", "Forget only this session.")] = None,
) -> None:
    """Forget a memory, or one session of it.

    [bold]Examples[/bold]
      $ orchestrator memory delete ana my-agent
      $ orchestrator memory delete ana my-agent --session s-1
    """
    store = _open(folder, state)
    info = _find(store, memory)
    store.delete(info.owner, info.memory_id, session)
    what = f"session {session} of {info.memory_id}" if session else info.memory_id
    terminal.report({"deleted": info.memory_id, "session": session}, f"forgot {clean(what)}")


def _open(folder: Path, state: str | None) -> Any:
    from orchestrator.memory import open_memory
    from orchestrator.support.store_urls import SqliteUrl, parse_store

    url = parse_store(state or get_memory_file(folder))
    if isinstance(url, SqliteUrl) and not url.path.is_file():
        raise ResourceNotFound(
            f"nothing is remembered in {str(url.path)!r}; an agent with memoryConfiguration "
            "remembers sessions that are invoked with a memory id"
        )
    return open_memory(url)


def _find(store: Any, name: str) -> MemoryInfo:
    known: dict[str, MemoryInfo] = {
        f"{it.owner}/{it.memory_id}": it for it in store.memories(time.time_ns())
    }
    found = {full: it for full, it in known.items() if name in (full, it.memory_id)}
    return pick_one(found, f"memory {name!r}", [it.memory_id for it in known.values()])
