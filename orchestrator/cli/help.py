"""Help texts without noise: no types of flags and arguments, no braces, nothing broken in two."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup

__all__ = ["Verb", "Verbs", "help_text"]


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


class Verbs(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters; those that speak for themselves show no type."""
        return _hide_types(super().get_params(ctx))


def _hide_types(parameters: Iterable[Any]) -> list[Any]:
    made = list(parameters)
    for parameter in made:
        if parameter.param_type_name == "argument":
            vars(parameter)["display_type_rich"] = lambda ctx: ""
        elif parameter.is_flag:
            parameter.metavar = ""
    return made


def _strip_braces(pieces: Iterable[str]) -> list[str]:
    return [re.sub(r"[{}]", "", piece) for piece in pieces]
