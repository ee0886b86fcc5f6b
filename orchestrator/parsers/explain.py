"""What a parser makes of a reply, told for people: the `orchestrator parse` command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.message import Block
from orchestrator.parsers.calls import tool_uses

__all__ = ["explain"]


def explain(
    reply: str | Sequence[Block], stage: str = "ORCHESTRATION", name: str = "auto"
) -> dict[str, Any]:
    """How a reply is understood.

    Args:
        reply: A text, or content blocks: Converse's, or Anthropic's as a trace's `rawResponse`
            shows them.
        stage: The prompt type.
        name: The parser.

    Returns:
        JSON members: `stage`, `parser`, `pieces` (a list of `{"kind", "start", "end", "text"}`,
        offsets in the text blocks joined, and `{"kind": "toolUse", "text": name}` for native
        calls), `response` (the parser-Lambda object), `code`, `reprompt` (the text for the model,
        or empty), `raw` (the call that could not be understood) and `notes`.

    Raises:
        ValidationError: There is no such stage or parser.
    """
    from orchestrator.parsers import new

    blocks = [{"text": reply}] if isinstance(reply, str) else [_converse(one) for one in reply]
    parser = new(name, stage)
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
    details = parsed.response.get("orchestrationParsedResponse", {}).get("parsingErrorDetails", {})
    return {
        "stage": stage,
        "parser": name,
        "pieces": pieces,
        "response": parsed.response,
        "code": parsed.code,
        "reprompt": details.get("repromptResponse", ""),
        "raw": parsed.raw,
        "notes": list(parsed.notes),
    }


def _converse(block: Any) -> Any:
    if not isinstance(block, dict) or block.get("type") != "tool_use":
        return block
    use = {"toolUseId": block.get("id"), "name": block.get("name"), "input": block.get("input")}
    return {"toolUse": use}


def _name_of(use: Any) -> str:
    return str(use.get("name", "")) if isinstance(use, dict) else ""
