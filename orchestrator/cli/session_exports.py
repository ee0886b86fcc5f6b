"""`orchestrator sessions export`, `import` and `rotate-key`: all of a store's sessions at once."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.agents import ensure_data_folder, get_sessions_file
from orchestrator.cli.options import OptionalDatabase
from orchestrator.cli.session_state import find_session, list_sessions
from orchestrator.cli.sessions import HERE, Folder, State, open_chosen_sessions
from orchestrator.cli.terminal import Terminal, clean, format_count
from orchestrator.cli.verb import AGENT_FAILED, option, verb
from orchestrator.errors import OrchestratorError, ResourceNotFound, ValidationError
from orchestrator.support.content_root import get_agent_root
from orchestrator.support.private_files import open_private

if TYPE_CHECKING:
    from orchestrator.sessions import EncryptedStore, SessionInfo, Sessions
    from orchestrator.support.store_urls import StoreUrl

    ListLines = Callable[[SessionInfo], list[str]]

Id = Annotated[
    str | None, typer.Argument(metavar="SESSION", help="The session's id; none with --all.")
]


@verb
def export(
    terminal: Terminal,
    session: Id = None,
    folder: Folder = HERE,
    state: State = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every session; then FOLDER is the only argument.")
    ] = False,
    output: Annotated[
        Path | None, option("--output", "FILE", "Write this file. Default: stdout.")
    ] = None,
    tenant: Annotated[
        str | None, option("--tenant", "NAME", "The tenant whose sessions they are, of a server's.")
    ] = None,
    as_cases: Annotated[
        bool, typer.Option("--as-cases", help="Write cases for `orchestrator eval` instead.")
    ] = False,
) -> None:
    """Write a session, or all of them, as JSON lines that `import` reads.

    [bold]Examples[/bold]
      $ orchestrator sessions export s-1 my-agent > s-1.jsonl
      $ orchestrator sessions export --all my-agent --output sessions.jsonl
      $ orchestrator sessions export s-1 my-agent --as-cases > cases.jsonl
    """
    if every and folder == HERE and session is not None:
        folder, session = Path(session), None
    if every is (session is not None):
        raise ValidationError("give the id of one session, or --all for every one")
    sessions = open_chosen_sessions(folder, state, session)
    infos: Iterable[SessionInfo] = list_sessions(sessions, tenant)
    if session is not None:
        infos = [find_session(sessions, session, tenant)]
    list_lines = _list_cases(folder, sessions, tenant) if as_cases else _list_records(sessions)
    with _open_output(output) as file:
        labels, failures = _export(terminal, list_lines, infos, file, goes_on=every)
    if output is not None:
        found = format_count(len(labels), "session")
        terminal.report({"exported": labels}, f"exported {found} to {output}")
    if failures:
        raise typer.Exit(AGENT_FAILED)


def _list_records(sessions: Sessions) -> ListLines:
    from orchestrator.sessions.exports import export_session

    return lambda info: list(export_session(sessions.store, info))


def _list_cases(folder: Path, sessions: Sessions, tenant: str | None) -> ListLines:
    from orchestrator.agent.agent import Agent
    from orchestrator.agent.evaluation.session_cases import build_session_cases

    agent = Agent.load(folder, sessions=sessions).for_tenant(tenant or "")

    def list_lines(info: SessionInfo) -> list[str]:
        owner, _, session_id = info.label.rpartition("/")
        if owner != agent.plan.owner:
            raise ValidationError(f"session {info.label!r} is another agent's than {agent.name!r}")
        cases = build_session_cases(agent, session_id)
        return [json.dumps(case) + "\n" for case in cases]

    return list_lines


def _export(
    terminal: Terminal, list_lines: ListLines, infos: Any, file: Any, *, goes_on: bool
) -> tuple[list[str], int]:
    labels, failures = [], 0
    for info in infos:
        try:
            # All lines before the first is written: half a session is no session.
            lines = list_lines(info)
        except OrchestratorError as error:
            if not goes_on:
                raise
            failures += 1
            terminal.note(clean(f"left out: {error}"))
            continue
        file.writelines(lines)
        labels.append(info.label)
    return labels, failures


@contextmanager
def _open_output(output: Path | None) -> Iterator[Any]:
    if output is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    with open_private(output, "w", encoding="ascii") as file:
        yield file


@verb
def import_(
    terminal: Terminal,
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `export` wrote; - is stdin.")],
    folder: Folder = HERE,
    state: State = None,
) -> None:
    """Add the sessions of an export to a store, each under its own name.

    A session that is there already, or a line that is no record of a session, is refused; sessions
    before it were added. Whoever wrote the file chooses whose sessions they are, and what was said
    in them: import what you trust.

    [bold]Examples[/bold]
      $ orchestrator sessions import sessions.jsonl my-agent
      $ gunzip -c s.jsonl.gz | orchestrator sessions import - --state s.sqlite
    """
    from orchestrator.sessions.exports import import_sessions

    with _open_input(file) as lines:
        sessions = _open_target(folder, state)
        labels = [one.label for one in import_sessions(sessions, lines, file)]
    terminal.report({"imported": labels}, f"imported {format_count(len(labels), 'session')}")


@contextmanager
def _open_input(file: str) -> Iterator[Any]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        lines = open(file, "rb")
    except FileNotFoundError:
        raise ResourceNotFound(f"there is no file {file!r}; '-' reads stdin") from None
    except OSError as error:
        raise ValidationError(f"{file!r} cannot be read: {error.strerror}") from None
    with lines:
        yield lines


def _open_target(folder: Path, state: str | None) -> Sessions:
    from orchestrator.sessions import Sessions

    if state is None:
        if not get_agent_root(folder).is_dir():
            raise ResourceNotFound(f"there is no folder {str(folder)!r}")
        ensure_data_folder(folder)
    return Sessions.of(state or get_sessions_file(folder))


@verb
def rotate_key(
    terminal: Terminal,
    folder: Folder = HERE,
    state: State = None,
    database: OptionalDatabase = None,
) -> None:
    """Encrypt what is kept with the first key of ORCHESTRATOR_ENCRYPTION_KEYS.

    Sessions, memories and a server's documents beside them, and submitted turns of --database, that
    an older key or none has written are written again. When it is done, the other keys can be taken
    out a day later.

    [bold]Examples[/bold]
      $ orchestrator sessions rotate-key my-agent
      $ orchestrator sessions rotate-key --state sessions.sqlite
      $ orchestrator sessions rotate-key --state $DATABASE --database $DATABASE
    """
    from orchestrator.sessions import EncryptedStore
    from orchestrator.support.encryption import KEYS

    store = open_chosen_sessions(folder, state).store
    if not isinstance(store, EncryptedStore):
        raise ValidationError(f"there is no key to encrypt with: set {KEYS}")
    counts, failures = {"records": 0, "plans": 0, "summaries": 0, "documents": 0}, []
    if database is not None:
        counts["turns"] = 0
    rotations = chain(
        _list_rotations(store, state or get_sessions_file(folder)), _list_submitted(database)
    )
    for what, count, rotate in rotations:
        try:
            counts[count] += rotate()
        except OrchestratorError as error:
            failures.append(f"{what}: {error}")
    found = ", ".join(f"{number:,} {name}" for name, number in counts.items())
    terminal.report({**counts, "failed": failures}, f"encrypted {found}")
    for text in failures:
        terminal.note(clean(f"left as it is: {text}"))
    if failures:
        raise typer.Exit(AGENT_FAILED)


def _list_rotations(
    store: EncryptedStore, state: str | Path
) -> Iterator[tuple[str, str, Callable[[], int]]]:
    from orchestrator.memory import open_memory

    for info in list(store.list()):
        yield f"session {info.label!r}", "records", partial(store.rotate, info.key)
    for digest in store.list_plans():
        yield (
            f"what past prompts were made of ({digest[:12]})",
            "plans",
            partial(store.rotate_plan, digest),
        )
    now = time.time_ns()
    with _open_beside(state, "memory.sqlite", open_memory) as memory:
        for owner, memory_id, _, _ in memory.memories(now) if memory is not None else ():
            rotate = partial(memory.rotate, owner, memory_id, now)
            yield f"memory {memory_id!r}", "summaries", rotate
    with _open_beside(state, "documents.sqlite", _open_documents) as documents:
        if documents is not None:
            yield "documents", "documents", documents.rotate


def _list_submitted(database: str | None) -> Iterator[tuple[str, str, Callable[[], int]]]:
    if database is None:
        return
    from orchestrator.agent.durable.rotation import open_rotations

    with open_rotations(database) as rotations:
        for what, rotate in rotations:
            yield what, "turns", rotate


@contextmanager
def _open_beside(state: str | Path, name: str, open_it: Callable[[StoreUrl], Any]) -> Iterator[Any]:
    from orchestrator.support.store_urls import SqliteUrl, parse_store

    # What lies beside the file of sessions, if it is there, or in their database.
    url = parse_store(state)
    if isinstance(url, SqliteUrl):
        url = SqliteUrl(url.path.with_name(name))
        if not url.path.is_file():
            yield None
            return
    with closing(open_it(url)) as it:
        yield it


def _open_documents(url: StoreUrl) -> Any:
    from orchestrator.server.document_store import DocumentStore
    from orchestrator.support.encryption import get_cipher

    return DocumentStore(url, cipher=get_cipher())
