"""The verb `batch`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.agents import load_agent, note_templates
from orchestrator.cli.batch.progress import Progress, show_progress
from orchestrator.cli.options import Turn
from orchestrator.cli.recordings import choose_model, get_models_ready
from orchestrator.cli.return_control import read_given_results
from orchestrator.cli.terminal import Terminal, clean
from orchestrator.cli.verb import AGENT_FAILED, option, setting, verb
from orchestrator.cli.worker import check_state
from orchestrator.errors import ValidationError

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.cli.batch.ask import Order, Window
    from orchestrator.cli.batch.folder import BatchFolder
    from orchestrator.cli.batch.questions import Question
    from orchestrator.cli.batch.results import Results
    from orchestrator.cli.batch.submissions import SubmittedWindow
    from orchestrator.engine.run.options import Options

_MOST = 200  # questions at the same time; a process has 256 threads for this and for actions


@dataclass(frozen=True)
class BatchOptions:
    """Which questions are asked, how many at the same time, and where their results go."""

    questions: Annotated[
        Path,
        typer.Argument(
            metavar="QUESTIONS",
            help="A JSONL file: each line a text, or an object with question and, if need be, id, "
            "session_id, session_attributes and prompt_session_attributes.",
        ),
    ]
    out: Annotated[
        Path | None,
        option(
            "--out",
            "FILE",
            "Where the results go, one a line; what is there already is not asked again. "
            "Default: QUESTIONS with .results.jsonl for its ending.",
        ),
    ] = None
    concurrency: Annotated[
        int,
        typer.Option(
            "--concurrency",
            metavar="NUMBER",
            min=1,
            help=f"How many questions are asked at the same time, at most {_MOST}.",
        ),
    ] = 4
    retry: Annotated[
        bool, typer.Option("--retry", help="Ask again what has an error for its result.")
    ] = False
    database: Annotated[
        str | None,
        option(
            "--database",
            "URL",
            "Submit the questions to the workers of this database, instead of asking them here.",
        ),
    ] = None
    queue: Annotated[
        str, setting("--queue", "NAME", "With --database: the queue that workers take them from.")
    ] = "turns"
    retries: Annotated[
        int,
        setting("--retries", "N", "With --database: how often a question is asked again."),
    ] = 0


@verb
def batch(terminal: Terminal, turn: Turn, asked: BatchOptions) -> None:
    """Ask an agent many questions.

    Each question gets one line in the file of results. After Ctrl-C or a kill, the same
    command continues with the questions that have no result, and repeats no action: a hidden folder
    beside the results has the journal of their turns. Questions of one session are asked in their
    order, others at the same time.

    [bold]Examples[/bold]
      $ orchestrator batch my-agent questions.jsonl
      $ orchestrator batch my-agent questions.jsonl --concurrency 16
      $ orchestrator batch my-agent questions.jsonl --out answers.jsonl
      $ orchestrator batch my-agent questions.jsonl --retry
      $ orchestrator batch my-agent questions.jsonl --model local --json
      $ orchestrator batch my-agent questions.jsonl --database $DATABASE
    """
    from orchestrator.cli.batch.ask import Order, Window
    from orchestrator.cli.batch.questions import check_questions, read_questions
    from orchestrator.cli.batch.results import Results
    from orchestrator.cli.batch.turn import Asker
    from orchestrator.sessions import Sessions

    _check_options(turn, asked)
    total = check_questions(asked.questions)
    agent = _load_agent(terminal, turn, asked)
    given = read_given_results(turn.yes, turn.result, agent.plan)
    options = turn.options()
    if turn.file:
        options["files"] = turn.input_files()
    out = asked.out or asked.questions.with_suffix(".results.jsonl")
    with Results(out, again=asked.retry) as results:
        known = sum(map(results.has, read_questions(asked.questions)))
        order = Order(_list_unknown(read_questions(asked.questions), results, turn.session))
        if asked.database is None:
            if turn.state is None and not agent.sessions.durable:
                agent.sessions = Sessions.of(results.folder.sessions_file)
            asker = Asker(get_models_ready(agent, turn, terminal), given, options, results.folder)
            window = Window(order, asker.ask, asked.concurrency)
            run_batch(terminal, window, results, total, known)
        else:
            with _submit(asked.database, asked, agent, options, order, results.folder) as submitted:
                run_batch(terminal, submitted, results, total, known)


def _check_options(turn: Turn, asked: BatchOptions) -> None:
    if asked.concurrency > _MOST:
        raise ValidationError(f"--concurrency {asked.concurrency} is more than {_MOST}")
    if asked.database is not None:
        _check_submittable(turn, asked.database)


def _check_submittable(turn: Turn, database: str) -> None:
    refused = {
        "--model": turn.model,
        "--file": turn.file,
        "--record": turn.record,
        "--replay": turn.replay,
        "--yes": turn.yes,
        "--result": turn.result,
    }
    for name, given in refused.items():
        if given:
            raise ValidationError(f"{name} is not for --database: the workers ask the models")
    check_state(database, turn.state)


def _load_agent(terminal: Terminal, turn: Turn, asked: BatchOptions) -> Agent:
    # Turns that workers run are in sessions that are kept.
    session = turn.session or ("kept" if asked.database is not None else None)
    agent = load_agent(turn.folder, choose_model(turn), session, turn.state)
    note_templates(agent, turn.folder, terminal)
    return agent


@contextmanager
def _submit(
    database: str,
    asked: BatchOptions,
    agent: Agent,
    options: Options,
    order: Order,
    folder: BatchFolder,
) -> Iterator[SubmittedWindow]:
    from orchestrator.agent.durable import DurableRuns
    from orchestrator.cli.batch.submissions import SubmittedWindow, Submitter

    with DurableRuns(database) as runs:
        submitter = Submitter(
            agent, runs, options, queue=asked.queue, folder=folder, retries=asked.retries
        )
        yield SubmittedWindow(order, submitter.submit, runs)


def run_batch(
    terminal: Terminal,
    window: Window | SubmittedWindow,
    results: Results,
    total: int,
    known: int,
) -> None:
    """Asks the questions, writes and counts their results, and reports the counts.

    Raises:
        KeyboardInterrupt: The user stopped it. What was begun has its result then, unless he
            stopped it twice.
        typer.Exit: Some questions failed.
    """
    progress = Progress(total, known)
    try:
        with show_progress(terminal, progress) as show, _stop_on_interrupt(window, progress):
            for result in window:
                results.add(result)
                progress.running = window.running
                progress.add(result)
                show()
    finally:
        terminal.report({**progress.as_dict(), "out": str(results.file)}, progress.describe())
        terminal.note(f"The results are in {clean(str(results.file))!r}.")
    if progress.stopping:
        raise KeyboardInterrupt
    if progress.failed:
        raise typer.Exit(AGENT_FAILED)


@contextmanager
def _stop_on_interrupt(window: Window | SubmittedWindow, progress: Progress) -> Iterator[None]:
    # A `KeyboardInterrupt` could come between a result and its line. So the first Ctrl-C only says
    # that no more is begun; what was begun has been paid for.
    def stop(*_: object) -> None:
        if progress.stopping:
            raise KeyboardInterrupt
        progress.stopping = True
        window.stop()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _list_unknown(
    questions: Iterator[Question], results: Results, session: str | None
) -> Iterator[Question]:
    for question in questions:
        if not results.has(question):
            in_session = question.session is not None or session is None
            yield question if in_session else replace(question, session=session)
