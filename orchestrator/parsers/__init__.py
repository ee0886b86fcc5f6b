"""Model replies to decisions: incremental parsers that never raise on any reply.

```python
parser = new("xml", "ORCHESTRATION")
for piece in stream:
    for kind, text in parser.feed(piece): ...      # thinking, answer, call
parsed = parser.finish(blocks)
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.message import Block
from orchestrator.parsers.base import ANSWER, CALL, THINKING, Parsed, Parser
from orchestrator.parsers.calls import tool_uses
from orchestrator.parsers.orchestration import Orchestration, grammar_of
from orchestrator.parsers.stages import (
    KnowledgeBaseAnswer,
    MemorySummary,
    PostProcessing,
    PreProcessing,
    Routing,
)

__all__ = [
    "ANSWER",
    "CALL",
    "NAMES",
    "STAGES",
    "THINKING",
    "Parsed",
    "Parser",
    "explain",
    "maker",
    "new",
    "parse",
]

NAMES = ("xml", "tool_use", "function_call", "fncall", "auto")
"""The parsers: `xml` (Claude 2.1 and 3), `tool_use` (native tools), `function_call` (Claude 2.0)
and `fncall` (DeepSeek's documented prompt). Each understands the calls of all of them where a call
is expected; inside an answer only its own grammar's calls count. `auto` expects all of them."""

_OTHERS: dict[str, Callable[[], Parser]] = {
    "PRE_PROCESSING": PreProcessing,
    "KNOWLEDGE_BASE_RESPONSE_GENERATION": KnowledgeBaseAnswer,
    "POST_PROCESSING": PostProcessing,
    "MEMORY_SUMMARIZATION": MemorySummary,
    "ROUTING_CLASSIFIER": Routing,
}

STAGES = ("ORCHESTRATION", *_OTHERS)
"""The prompt types; the replies of each can be parsed."""


def maker(name: str, stage: str) -> Callable[[], Parser]:
    """What makes a parser for each reply of a stage.

    `name` is one of `NAMES`; it matters in ORCHESTRATION, and a little in PRE_PROCESSING.

    Raises:
        ValidationError: There is no such parser or stage.
    """
    if name not in NAMES:
        raise ValidationError(f"there is no parser {name!r}; use one of {', '.join(NAMES)}")
    if stage == "ORCHESTRATION":
        return partial(Orchestration, name)
    if stage == "PRE_PROCESSING":
        return partial(PreProcessing, trims=name not in ("tool_use", "auto"))
    parser = _OTHERS.get(stage)
    if parser is None:
        there = ", ".join(STAGES)
        raise ValidationError(f"replies of stage {stage!r} have no parser; those of {there} do")
    return parser


def new(name: str, stage: str) -> Parser:
    """A parser for one reply; see `maker`."""
    return maker(name, stage)()


def parse(reply: str | Sequence[Block], stage: str = "ORCHESTRATION", name: str = "auto") -> Parsed:
    """What a whole reply means: a text, or Converse content blocks.

    Raises:
        ValidationError: There is no such parser or stage.
    """
    return new(name, stage).finish([{"text": reply}] if isinstance(reply, str) else reply)


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
    blocks = [{"text": reply}] if isinstance(reply, str) else [_to_converse(one) for one in reply]
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
    for use in uses:
        tool = use.get("name", "") if isinstance(use, dict) else ""
        pieces.append({"kind": "toolUse", "text": str(tool)})
    (member,) = (parsed.response[key] for key in parsed.response if key.endswith("Response"))
    error = member.get("parsingErrorDetails", {})
    return {
        "stage": stage,
        "parser": name,
        "grammar": _find_grammar(pieces),
        "pieces": pieces,
        "response": parsed.response,
        "code": parsed.code,
        "reprompt": error.get("repromptResponse", ""),
        "raw": parsed.raw,
        "notes": list(parsed.notes),
    }


def _find_grammar(pieces: Sequence[dict[str, Any]]) -> str:
    for piece in pieces:
        if piece["kind"] == "toolUse":
            return "tool_use"
        is_tag = piece["kind"] == "tag"
        if is_tag and piece["text"].lower().startswith(("<function_call", "<fncall", "<invoke")):
            return grammar_of(piece["text"])
    return ""


def _to_converse(block: Any) -> Any:
    if not isinstance(block, dict) or block.get("type") != "tool_use":
        return block
    use = {"toolUseId": block.get("id"), "name": block.get("name"), "input": block.get("input")}
    return {"toolUse": use}
