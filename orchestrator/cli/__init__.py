"""The command line: `orchestrator`, or `python -m orchestrator`."""

from orchestrator.cli.commands import app, main

__all__ = ["app", "main"]
