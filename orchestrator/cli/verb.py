"""What all verbs share: `--json`, `--debug`, and errors that become messages and exit codes."""

from __future__ import annotations

import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import is_dataclass
from functools import partial, wraps
from typing import Annotated, Any, Concatenate, ParamSpec, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from orchestrator.cli.findings import report_error, show_load_error
from orchestrator.cli.terminal import Terminal, hide_prints, refuses_colours, show_prints
from orchestrator.errors import DefinitionError, ValidationError
from orchestrator.support.load_errors import report_load_errors
from orchestrator.support.user_code import keep_causes

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


def setting(flag: str, metavar: str, help: str, *short: str) -> Any:
    """An option with a default that its help shows."""
    return typer.Option(flag, *short, metavar=metavar, help=help)


def verb(function: Callable[Concatenate[Terminal, P], None]) -> Callable[..., None]:
    """Makes a function a command: its parameters but the first become arguments and options.

    A parameter that is a dataclass stands for its fields, which several verbs share.
    """
    own = _list_parameters(function)[1:]
    groups: dict[str, Any] = {it.name: it.annotation for it in own if is_dataclass(it.annotation)}
    members = {name: _list_parameters(kind) for name, kind in groups.items()}
    shown = [one for it in own for one in members.get(it.name, [it])]
    shown += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in (("json", Json), ("debug", Debug))
    ]

    @wraps(function)
    def run(*, json: bool, debug: bool, **options: Any) -> None:
        terminal = Terminal(json=json, debug=debug)
        if debug or options.get("trace"):
            show_prints(terminal)
        for name, kind in groups.items():
            options[name] = kind(**{it.name: options.pop(it.name) for it in members[name]})
        with (
            keep_causes() if debug else nullcontext(),
            report_load_errors(partial(show_load_error, terminal)),
            _exit_on_error(terminal),
        ):
            function(terminal, **options)  # type: ignore[call-arg]

    for one in shown:
        _name_wrong_numbers(one.annotation)
    run.__doc__ = help_text(function.__doc__ or "")
    # Typer reads the signature, not the parameters of the wrapper.
    run.__dict__["__signature__"] = inspect.Signature(shown)
    del run.__dict__["__wrapped__"]
    run.__annotations__ = {it.name: it.annotation for it in shown}
    return run


def _list_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return [it.replace(kind=inspect.Parameter.KEYWORD_ONLY) for it in parameters]


def _name_wrong_numbers(annotation: Any) -> None:
    # Typer's own message about what is no number does not say what was given.
    kind, info = get_args(annotation)[:2]
    number = next((it for it in (int, float) if it in (kind, *get_args(kind))), None)
    if number is not None:
        info.parser = partial(_parse_number, number, info.min)


def _parse_number(kind: type[int | float], least: float | None, text: str) -> int | float:
    try:
        number = kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise typer.BadParameter(f"{text!r} is not {what}") from None
    if isinstance(number, float) and not math.isfinite(number):
        raise typer.BadParameter(f"{text!r} is not a finite number")
    if least is not None and number < least:
        raise typer.BadParameter(f"{text} is less than {least}")
    return number


@contextmanager
def _exit_on_error(terminal: Terminal) -> Iterator[None]:
    try:
        try:
            yield
        finally:  # a pipe that is closed is seen here, and not by Python at its end
            sys.stdout.flush()
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        raise typer.Exit(_STOPPED) from None
    except BrokenPipeError:
        # Whoever read has seen enough; Python must not complain about it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except Exception as error:
        report_error(terminal, error)
        wrong_input = isinstance(error, (DefinitionError, ValidationError, OSError))
        raise typer.Exit(USAGE if wrong_input else AGENT_FAILED) from error
    finally:
        hide_prints()


def help_text(docstring: str) -> str:
    """A docstring as a help text: paragraphs wrap to the reader's terminal, examples do not."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(
        inspect.cleandoc(it) if it.startswith("[bold]Examples") else " ".join(it.splitlines())
        for it in paragraphs
    )


@contextmanager
def _plain_help() -> Iterator[None]:
    """Around what may end in a wrong usage, which Typer shows with its own console."""
    try:
        yield
    except typer.Exit:
        raise
    except Exception:
        _set_help_colours()
        raise


def _set_help_colours() -> None:
    # Imported here: it takes long, and only help and wrong usage need it.
    from typer import rich_utils

    rich_utils.COLOR_SYSTEM = None if refuses_colours() else "auto"
    # Typer has colours in the pipes of some build services; everything else here has not.
    rich_utils.FORCE_TERMINAL = None


class Verb(TyperCommand):
    """A command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads its options and arguments; what has an empty value is a wrong usage.

        A variable that is not set makes such values, in scripts. An empty path would be the working
        directory, and an empty name often the same as none.
        """
        if ctx.resilient_parsing:  # a shell asks what may follow
            parsed: list[str] = super().parse_args(ctx, args)
            return parsed
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in self.get_params(ctx):
            value = given.get(parameter.name)
            empty = "" in value if isinstance(value, list | tuple) else value == ""
            # Where the default is the empty text, it means the same.
            if empty and parameter.default != "":
                name = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.metavar
                otherwise = "" if parameter.required else ", or leave it out"
                ctx.fail(f"{name} has an empty value: give one{otherwise}.")
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes its help."""
        _set_help_colours()
        super().format_help(ctx, formatter)

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters; those that speak for themselves show no type."""
        return _hide_types(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The pieces of its usage line."""
        return [re.sub(r"[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]


class Verbs(TyperGroup):
    """A group of commands."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes its help."""
        _set_help_colours()
        super().format_help(ctx, formatter)

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Reads its own options."""
        with _plain_help():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Reads the options of one of its commands, and runs it."""
        with _plain_help():
            return super().invoke(ctx)

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
