"""How a parser understands a reply, for people: the `orchestrator parse` command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from orchestrator.message import Block
from orchestrator.parsers.base import Parser
from orchestrator.parsers.calls import tool_uses
from orchestrator.parsers.orchestration import grammar_of

_CALLS = ("<function_call", "<fncall", "<invoke")


def explain(
    reply: str | Sequence[Block],
    stage: str = "ORCHESTRATION",
    name: str = "auto",
    *,
    new_parser: Callable[[], Parser] | None = None,
) -> dict[str, Any]:
    """How a reply is understood, as JSON members.

    `grammar` is the parser whose grammar the reply's calls are written in, or empty. `pieces` has
    `{"kind", "start", "end", "text"}` with offsets in the joined text blocks (kinds: those of
    `orchestrator.parsers.scanner.Piece`, and `category`, `route` and `topic`), and
    `{"kind": "toolUse", "text": name}` for native calls. `response` is the parser-Lambda object,
    `reprompt` the text for the model, `raw` the call that could not be understood.

    Args:
        reply: A text, or content blocks: Converse's, or Anthropic's as a trace's `rawResponse`
            shows them.
        stage: The prompt type.
        name: The parser.
        new_parser: Makes the parser to use instead.

    Raises:
        ValidationError: There is no such stage or parser.
        DependencyFailed: The parser of `new_parser` failed.
    """
    from orchestrator.parsers import maker

    blocks = [{"text": reply}] if isinstance(reply, str) else [_converse(one) for one in reply]
    parser = (new_parser or maker(name, stage))()
    texts, uses = tool_uses(blocks)
    for text in texts:
        parser.feed(text)
    parsed = parser.finish(blocks)
    text = "".join(texts)
    pieces = [
        {"kind": kind, "start": start, "end": end, "text": text[start:end]}
        for kind, start, end in getattr(parser, "pieces", ())
    ]
    pieces += [{"kind": "toolUse", "text": _name_of(use)} for use in uses]
    (member,) = (parsed.response[key] for key in parsed.response if key.endswith("Response"))
    error = member.get("parsingErrorDetails", {})
    return {
        "stage": stage,
        "parser": name,
        "grammar": _grammar(pieces),
        "pieces": pieces,
        "response": parsed.response,
        "code": parsed.code,
        "reprompt": error.get("repromptResponse", ""),
        "raw": parsed.raw,
        "notes": list(parsed.notes),
    }


def _grammar(pieces: Sequence[dict[str, Any]]) -> str:
    for piece in pieces:
        if piece["kind"] == "toolUse":
            return "tool_use"
        if piece["kind"] == "tag" and piece["text"].lower().startswith(_CALLS):
            return grammar_of(piece["text"])
    return ""


def _converse(block: Any) -> Any:
    if not isinstance(block, dict) or block.get("type") != "tool_use":
        return block
    use = {"toolUseId": block.get("id"), "name": block.get("name"), "input": block.get("input")}
    return {"toolUse": use}


def _name_of(use: Any) -> str:
    return str(use.get("name", "")) if isinstance(use, dict) else ""
