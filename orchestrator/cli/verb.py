"""What all verbs share: `--json`, `--debug`, and errors that become messages and exit codes."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Annotated, Any, Concatenate, ParamSpec

import typer
from typer.core import TyperCommand, TyperGroup

from orchestrator.cli.findings import error_document, show_error
from orchestrator.cli.terminal import Terminal, hide_prints, show_prints
from orchestrator.errors import DefinitionError, ValidationError

# Exit codes. The agent, or what it depends on, failed:
AGENT_FAILED = 1
# An option, a definition or another input of the user is wrong:
USAGE = 2
# 128 and the number of SIGINT, as shells report it:
_STOPPED = 130

Json = Annotated[bool, typer.Option("--json", help="Write JSON to stdout, and nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

P = ParamSpec("P")


def option(flag: str, metavar: str, help: str, *short: str, **settings: Any) -> Any:
    """An optional option; its help says what happens without it."""
    return typer.Option(flag, *short, metavar=metavar, help=help, show_default=False, **settings)


def verb(function: Callable[Concatenate[Terminal, P], None]) -> Callable[..., None]:
    """Makes a function a command: its parameters but the first become arguments and options."""
    signature = inspect.signature(function, eval_str=True)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in (("json", Json), ("debug", Debug))
    ]
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in list(signature.parameters.values())[1:]
    ]

    @wraps(function)
    def run(*, json: bool, debug: bool, **options: Any) -> None:
        terminal = Terminal(json=json, debug=debug)
        if debug or options.get("trace"):
            show_prints(terminal)
        try:
            function(terminal, **options)  # type: ignore[call-arg]
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            raise typer.Exit(_STOPPED) from None
        except BrokenPipeError:
            # Whoever read has seen enough; Python must not complain about it at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except Exception as error:
            raise typer.Exit(_report_error(terminal, error)) from error
        finally:
            hide_prints()

    run.__doc__ = help_text(function.__doc__ or "")
    # Typer reads the signature, not the parameters of the wrapper.
    run.__dict__["__signature__"] = signature.replace(parameters=[*own, *added])
    del run.__dict__["__wrapped__"]
    run.__annotations__ = {it.name: it.annotation for it in (*own, *added)}
    return run


def _report_error(terminal: Terminal, error: Exception) -> int:
    if terminal.json:
        terminal.document(error_document(error))
    show_error(terminal, error)
    wrong_input = isinstance(error, (DefinitionError, ValidationError, OSError))
    return USAGE if wrong_input else AGENT_FAILED


def help_text(docstring: str) -> str:
    """A docstring as a help text: paragraphs wrap to the reader's terminal, examples do not."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(
        inspect.cleandoc(it) if it.startswith("[bold]Examples") else " ".join(it.splitlines())
        for it in paragraphs
    )


class Verb(TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters; those that speak for themselves show no type."""
        return _hide_types(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The pieces of its usage line."""
        return _strip_braces(super().collect_usage_pieces(ctx))


def group(help: str) -> typer.Typer:
    """A group of commands, such as `orchestrator sessions`."""
    return typer.Typer(cls=Verbs, no_args_is_help=True, rich_markup_mode="rich", help=help)


class Verbs(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters; those that speak for themselves show no type."""
        return _hide_types(super().get_params(ctx))


def _hide_types(parameters: Iterable[Any]) -> list[Any]:
    shown = list(parameters)
    for parameter in shown:
        if parameter.param_type_name == "argument":
            vars(parameter)["display_type_rich"] = lambda ctx: ""
        elif parameter.is_flag:
            parameter.metavar = ""
    return shown


def _strip_braces(pieces: Iterable[str]) -> list[str]:
    return [re.sub(r"[{}]", "", piece) for piece in pieces]
