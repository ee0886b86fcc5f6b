"""`orchestrator worker`: runs what was submitted, beside any number of other workers."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.agents import choose_sessions, load_agent, load_models
from orchestrator.cli.options import Database, Model, Tools
from orchestrator.cli.run import load_tools
from orchestrator.cli.terminal import Terminal, clean, format_count
from orchestrator.cli.verb import AGENT_FAILED, option, setting, verb
from orchestrator.errors import ValidationError

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.agent.durable import DurableFlow

_RATE = re.compile(r"([1-9][0-9]{0,8})/([0-9]{1,6}(?:\.[0-9]{1,3})?)")


@dataclass(frozen=True)
class WorkerOptions:
    """What a worker works for, and how much."""

    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER|SCRIPT", help="The folders of the agents, and scripts."),
    ]
    database: Database
    queue: Annotated[
        list[str] | None,
        option("--queue", "NAME", "A queue to take turns from. Repeatable. Default: turns."),
    ] = None
    concurrency: Annotated[
        int, setting("--concurrency", "N", "Turns of a queue that it runs at the same time.")
    ] = 8
    most: Annotated[
        int | None,
        option("--most", "N", "Turns of a queue that all workers together run.", min=1),
    ] = None
    rate: Annotated[
        str | None,
        option(
            "--rate",
            "N/SECONDS",
            "Turns of a queue that all workers together begin in this time, such as 600/60.",
        ),
    ] = None
    model: Model = None
    tool: Tools = None
    state: Annotated[
        str | None,
        option(
            "--state",
            "FILE|URL",
            "Where the sessions are, which all workers share. "
            "Default with SQLite: FOLDER/.orchestrator/sessions.sqlite. Scripts need it.",
        ),
    ] = None
    lease: Annotated[
        float,
        setting(
            "--lease",
            "SECONDS",
            "Seconds without a sign of life after which other workers take over.",
        ),
    ] = 30.0
    shutdown_seconds: Annotated[
        float, setting("--shutdown-seconds", "N", "How long running turns may go on at the end.")
    ] = 30.0


@verb
def worker(terminal: Terminal, asked: WorkerOptions) -> None:
    """Run turns and scripts that were submitted to a database.

    Any number of workers, on any number of machines, share the queues of a database. After
    SIGTERM or Ctrl-C a worker takes no more turns and waits for running ones. Other workers
    continue the turns that it, or a killed worker, has left.

    [bold]Examples[/bold]
      $ orchestrator worker my-agent --database sqlite:///runs.sqlite
      $ orchestrator worker a b --database $DATABASE --state $DATABASE
      $ orchestrator worker a --database $DATABASE --queue sonnet --rate 600/60
      $ orchestrator worker report.pl --database $DATABASE --state $DATABASE
    """
    from orchestrator.agent.durable import Worker
    from orchestrator.agent.durable.database import check_url
    from orchestrator.agent.durable.runs import QUEUE
    from orchestrator.agent.files import is_script

    check_url(asked.database)
    rate = _parse_rate(asked.rate)
    if asked.concurrency < 1 or asked.lease < 1:
        raise ValidationError("--concurrency and --lease are numbers from 1")
    check_state(asked.database, asked.state)
    scripts = [path for path in asked.folders if is_script(path)]
    flows = _load_flows(scripts, asked, terminal)
    agents = [_load(path, asked, terminal) for path in asked.folders if path not in scripts]
    queues = asked.queue or [QUEUE]
    with _wait_for_signal() as stopped:
        work = Worker(
            asked.database,
            agents,
            flows=flows,
            queues=queues,
            concurrency=asked.concurrency,
            most=asked.most,
            rate=rate,
            lease=asked.lease,
        )
        names = [*(agent.name for agent in agents), *(flow.name for flow in flows)]
        if terminal.json:
            terminal.line({"worker": work.id, "agents": names, "queues": queues})
        terminal.note(f"Worker {work.id} runs turns of {clean(', '.join(names))}; Ctrl-C ends it.")
        stopped.wait()
        terminal.note("Ending: turns that run may end; no more are taken.")
        ended = work.close(asked.shutdown_seconds)
    if not ended:
        _leave(terminal)


def check_state(database: str, state: str | None) -> None:
    """Refuses sessions that other machines do not see, unless it is said that there are none.

    Raises:
        ValidationError: The turns are in PostgreSQL, and nothing says where the sessions are.
    """
    if state is None and database.startswith("postgresql:"):
        raise ValidationError(
            "--database is PostgreSQL, for workers on several machines: give --state, the database "
            "of the sessions that all of them share"
        )


def _load(folder: Path, asked: WorkerOptions, terminal: Terminal) -> Agent:
    agent = load_agent(folder, asked.model, "kept", asked.state)
    load_models(agent, terminal)
    return agent


def _load_flows(
    scripts: Sequence[Path], asked: WorkerOptions, terminal: Terminal
) -> list[DurableFlow]:
    from orchestrator.agent.durable import DurableFlow
    from orchestrator.agent.flow import load_flow
    from orchestrator.sessions import Sessions

    if asked.tool and not scripts:
        raise ValidationError("--tool is for scripts, and there is none")
    if not scripts:
        return []
    if asked.state is None:
        raise ValidationError("scripts need --state, the database of their sessions")
    sessions = Sessions.of(choose_sessions(scripts[0], "kept", asked.state))
    tools = load_tools(asked.tool)
    model = asked.model or "local"
    flows = [
        DurableFlow(load_flow(path), model=model, tools=tools, sessions=sessions)
        for path in scripts
    ]
    for flow in flows:
        load_models(flow.agent, terminal)
    return flows


def _parse_rate(text: str | None) -> tuple[int, float] | None:
    if text is None:
        return None
    found = _RATE.fullmatch(text)
    if found is None or not float(found[2]):
        raise ValidationError(f"--rate {text!r} is not N/SECONDS, such as 600/60")
    return int(found[1]), float(found[2])


@contextmanager
def _wait_for_signal() -> Iterator[threading.Event]:
    stopped = threading.Event()

    def stop(*_: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    before = {it: signal.signal(it, stop) for it in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(terminal: Terminal) -> None:
    running = format_count(threading.active_count() - 1, "thread")
    terminal.note(f"Some turns have not ended ({running}); other workers go on with them.")
    sys.stdout.flush()
    sys.stderr.flush()
    # Nothing stops a thread that waits for a model, and the interpreter would wait for it.
    os._exit(AGENT_FAILED)
