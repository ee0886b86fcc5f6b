"""The command line: its verbs, in the order in which a newcomer meets them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from orchestrator.cli import knowledge, memory, models, session_exports, session_tables, sessions
from orchestrator.cli.batch.command import batch
from orchestrator.cli.chat import chat
from orchestrator.cli.eject import eject
from orchestrator.cli.evaluate import eval_
from orchestrator.cli.import_agents import import_
from orchestrator.cli.init import init, schema
from orchestrator.cli.invoke import invoke
from orchestrator.cli.lint import lint
from orchestrator.cli.parse import parse
from orchestrator.cli.render import render
from orchestrator.cli.run import run
from orchestrator.cli.serve import serve
from orchestrator.cli.session_decisions import decide
from orchestrator.cli.trace import trace
from orchestrator.cli.transfer import diff, pull, push
from orchestrator.cli.verb import Verb, Verbs
from orchestrator.cli.web import web
from orchestrator.cli.worker import worker

app = typer.Typer(
    name="orchestrator",
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Run Amazon-Bedrock-style agents anywhere, with any model.",
    epilog="Exit codes: 0 done, 1 the agent failed, 2 wrong usage or definition.",
)

_PANELS = {
    "Run an agent": (init, chat, web, invoke, batch, run, serve, worker),
    "Evaluate an agent": (eval_,),
    "Inspect and check": (render, trace, parse, lint, schema),
    "Move agents in and out of AWS": (pull, push, diff, import_),
}
_GROUPS = {
    "sessions": (
        "List, show, decide, end, delete, export and import kept sessions.",
        (
            *(sessions.list_, sessions.show, decide, sessions.end, sessions.delete),
            sessions.prune,
            *(session_exports.export, session_exports.import_, session_exports.rotate_key),
            session_tables.create_table,
        ),
    ),
    "memory": (
        "List, show and delete what is remembered of earlier sessions.",
        (memory.list_, memory.show, memory.delete),
    ),
    "knowledge": (
        "Index and search the documents of local knowledge bases.",
        (knowledge.index, knowledge.search, knowledge.list_),
    ),
    "templates": ("Write the shipped prompts into an agent's folder, to change them.", (eject,)),
    "models": (
        "List, download and remove the embedded models.",
        (models.list_, models.pull, models.path, models.remove, models.cache),
    ),
}


def _add_verbs(group: typer.Typer, verbs: Iterable[Callable[..., None]], panel: str = "") -> None:
    for verb in verbs:
        name = verb.__name__.rstrip("_").replace("_", "-")
        group.command(name, cls=Verb, rich_help_panel=panel or None)(verb)


for _panel, _verbs in _PANELS.items():
    _add_verbs(app, _verbs, _panel)
for _name, (_help, _verbs) in _GROUPS.items():
    _panel = "Inspect and check" if _name == "templates" else "Stored data"
    _group = typer.Typer(cls=Verbs, no_args_is_help=True, rich_markup_mode="rich", help=_help)
    _add_verbs(_group, _verbs)
    app.add_typer(_group, name=_name, rich_help_panel=_panel)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("bedrock-orchestrator"))
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


class _Notes(logging.Handler):
    """Warnings of the engine, as notes on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"note: {record.getMessage()}", file=sys.stderr)


def main() -> None:
    """Runs the command line."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # A terminal that lacks a letter is no failure.
            reconfigure(errors="backslashreplace")
    log = logging.getLogger("orchestrator")
    log.addHandler(_Notes(logging.WARNING))
    log.propagate = False
    app(prog_name="orchestrator")
