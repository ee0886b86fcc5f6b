"""The command line: its verbs, in the order in which a newcomer meets them."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from orchestrator.cli import knowledge, memory, models, sessions
from orchestrator.cli.chat import chat
from orchestrator.cli.import_ import import_
from orchestrator.cli.init import init, schema
from orchestrator.cli.invoke import invoke
from orchestrator.cli.lint import lint
from orchestrator.cli.parse import parse
from orchestrator.cli.render import render
from orchestrator.cli.run import run
from orchestrator.cli.serve import serve
from orchestrator.cli.trace import trace
from orchestrator.cli.transfer import diff, pull, push
from orchestrator.cli.verb import Verb, Verbs

app = typer.Typer(
    name="orchestrator",
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Run Amazon-Bedrock-style agents anywhere, with any model.",
    epilog="Exit codes: 0 done, 1 the agent failed, 2 wrong usage or definition.",
)

for _panel, _verbs in {
    "Run an agent": (init, chat, invoke, run, serve),
    "Look inside": (render, trace, parse, lint, schema),
    "Carry agents": (pull, push, diff, import_),
}.items():
    for _verb in _verbs:
        app.command(_verb.__name__.rstrip("_"), cls=Verb, rich_help_panel=_panel)(_verb)
app.add_typer(sessions.app, name="sessions", rich_help_panel="What is kept")
app.add_typer(memory.app, name="memory", rich_help_panel="What is kept")
app.add_typer(knowledge.app, name="knowledge", rich_help_panel="What is kept")
app.add_typer(models.app, name="models", rich_help_panel="What is kept")


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
