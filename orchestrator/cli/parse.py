"""`orchestrator parse`: what a model's reply is understood as."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.options import read_input
from orchestrator.cli.render import to_stage_name
from orchestrator.cli.terminal import Terminal, assemble, clean, style_text
from orchestrator.cli.verb import AGENT_FAILED, option, setting, verb
from orchestrator.support.safe_json import json_or

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.text import Text

    from orchestrator.parsers import Parser

_LOOK = {
    "thinking": "thinking",
    "answer": "answer",
    "call": "call",
    "toolUse": "call",
    "category": "answer",
    "route": "answer",
    "topic": "answer",
}


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
        str, setting("--stage", "STAGE", "The prompt type that it answers.")
    ] = "ORCHESTRATION",
    parser: Annotated[
        str,
        setting("--parser", "NAME", "xml, tool_use, function_call, fncall or auto."),
    ] = "auto",
    parser_lambda: Annotated[
        str | None,
        option(
            "--parser-lambda",
            "FILE",
            "A parser of your own instead: parser.py, parser.py:function or a Lambda's ARN.",
        ),
    ] = None,
) -> None:
    """Explain what a parser makes of a model's reply.

    The exit code is 1 when the reply cannot be understood; then the text is shown that the model
    would be told.

    [bold]Examples[/bold]
      $ orchestrator parse reply.txt
      $ echo '<thinking>Easy.</thinking><answer>42' | orchestrator parse
      $ orchestrator parse reply.txt --stage PRE_PROCESSING --json
      $ orchestrator parse reply.json --parser-lambda my-agent/parser.py
    """
    from orchestrator.parsers import explain

    reply, stage = _parse_reply(read_input(file)), to_stage_name(stage)
    new_parser = None
    if parser_lambda is not None:
        parser, new_parser = parser_lambda, _load_parser(parser_lambda, stage, reply)
    explained = explain(reply, stage, parser, new_parser=new_parser)
    if terminal.json:
        terminal.document(explained)
    else:
        _show(terminal, explained)
    if explained["code"]:
        raise typer.Exit(AGENT_FAILED)


def _load_parser(spec: str, stage: str, reply: str | list[dict[str, Any]]) -> Callable[[], Parser]:
    # Bedrock passes content blocks to a parser as JSON.
    from orchestrator.actions.parser_lambda import lambda_parser, parser_function

    agent = {"name": "agent", "id": "AGENT12345", "alias": "TSTALIASID", "version": "DRAFT"}
    return lambda_parser(parser_function(spec), stage, agent, tool_use=not isinstance(reply, str))


def _parse_reply(text: str) -> str | list[dict[str, Any]]:
    found = json_or(text, None)
    if isinstance(found, dict) and isinstance(found.get("output"), dict):
        # The whole reply of Converse.
        found = found["output"].get("message")
    content = found.get("content") if isinstance(found, dict) else found
    if isinstance(content, list) and content and all(isinstance(it, dict) for it in content):
        return content
    return text


def _show(terminal: Terminal, explained: dict[str, Any]) -> None:
    for piece in explained["pieces"]:
        if piece["text"].strip():
            _show_piece(terminal, piece)
    terminal.print(_format_verdict(explained))
    shown = json.dumps(explained["response"], ensure_ascii=False, indent=2)
    terminal.block(clean(shown), 2)
    if explained["raw"]:
        terminal.print(style_text("what could not be understood", "heading"))
        terminal.block(clean(explained["raw"]), 2)
    if explained["reprompt"]:
        terminal.print(style_text("what the model is told", "heading"))
        terminal.block(clean(explained["reprompt"]), 2)
    for note in explained["notes"]:
        terminal.block(assemble(("note ", "info"), clean(note)))


def _show_piece(terminal: Terminal, piece: dict[str, Any]) -> None:
    kind, text = piece["kind"], clean(piece["text"]).strip()
    place = f"{piece['start']}–{piece['end']}" if "start" in piece else ""
    look = _LOOK.get(kind, "quiet")
    head = assemble((f"{place:>11}  ", "quiet"), (f"{kind:<9}", look))
    if "\n" in text:
        terminal.print(head)
        terminal.block(style_text(text, look), 13)
    else:
        terminal.block(head.append(text, look))


def _format_verdict(explained: dict[str, Any]) -> Text:
    if explained["code"]:
        return assemble(("not understood ", "error"), explained["code"])
    grammar = f" (calls in the grammar of {explained['grammar']})" if explained["grammar"] else ""
    return assemble(("understood as", "heading"), (grammar, "quiet"))
