"""`orchestrator parse`: what a model's reply is understood as."""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.options import read_input
from orchestrator.cli.render import stage_name
from orchestrator.cli.terminal import Terminal, clean
from orchestrator.cli.verb import AGENT_FAILED, verb

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["parse"]

_LOOK = {"thinking": "thinking", "answer": "answer", "call": "call", "toolUse": "call"}


@verb
def parse(
    terminal: Terminal,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="The reply: a text, or JSON with Converse content blocks. '-' is stdin.",
        ),
    ] = "-",
    stage: Annotated[
        str, typer.Option("--stage", metavar="STAGE", help="The prompt type that it answers.")
    ] = "ORCHESTRATION",
    parser: Annotated[
        str, typer.Option("--parser", metavar="NAME", help="xml, tool_use or auto.")
    ] = "auto",
) -> None:
    """Explain what a parser makes of a model's reply.

    The exit code is 1 when the reply cannot be understood; then the text is shown that the model
    would be told.

    [bold]Examples[/bold]
      $ orchestrator parse reply.txt
      $ echo '<thinking>Easy.</thinking><answer>42' | orchestrator parse
      $ orchestrator parse reply.txt --stage PRE_PROCESSING --json
    """
    from orchestrator.parsers import explain

    told = explain(_reply(read_input(file)), stage_name(stage), parser)
    if terminal.json:
        terminal.document(told)
    else:
        _show(terminal, told)
    if told["code"]:
        raise typer.Exit(AGENT_FAILED)


def _reply(text: str) -> str | list[dict[str, Any]]:
    """The content blocks when the text is JSON that holds some, else the text."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        found = json_module.loads(text)
    except ValueError:
        return text
    content = found.get("content") if isinstance(found, dict) else found
    if isinstance(content, list) and content and all(isinstance(it, dict) for it in content):
        return content
    return text


def _show(terminal: Terminal, told: dict[str, Any]) -> None:
    from rich.text import Text

    for piece in told["pieces"]:
        if piece["text"].strip():
            _show_piece(terminal, piece)
    terminal.print(_verdict(told))
    shown = json_module.dumps(told["response"], ensure_ascii=False, indent=2)
    terminal.block(clean(shown), 2)
    if told["raw"]:
        terminal.print(Text("what could not be understood", "heading"))
        terminal.block(clean(told["raw"]), 2)
    if told["reprompt"]:
        terminal.print(Text("what the model is told", "heading"))
        terminal.block(clean(told["reprompt"]), 2)
    for note in told["notes"]:
        terminal.block(Text.assemble(("note ", "info"), clean(note)))


def _show_piece(terminal: Terminal, piece: dict[str, Any]) -> None:
    """One piece: where it is, what it was taken for, and its text."""
    from rich.text import Text

    kind, text = piece["kind"], clean(piece["text"]).strip()
    place = f"{piece['start']}–{piece['end']}" if "start" in piece else ""
    look = _LOOK.get(kind, "quiet")
    head = Text.assemble((f"{place:>11}  ", "quiet"), (f"{kind:<9}", look))
    if "\n" in text:
        terminal.print(head)
        terminal.block(Text(text, look), 13)
    else:
        terminal.block(head.append(text, look))


def _verdict(told: dict[str, Any]) -> Text:
    from rich.text import Text

    if told["code"]:
        return Text.assemble(("not understood ", "error"), told["code"])
    return Text("understood as", "heading")
