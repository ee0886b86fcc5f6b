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

from orchestrator.errors import ValidationError
from orchestrator.message import Block
from orchestrator.parsers.answers import KnowledgeBaseAnswer, PostProcessing
from orchestrator.parsers.base import ANSWER, CALL, THINKING, Parsed, Parser
from orchestrator.parsers.explain import explain
from orchestrator.parsers.orchestration import Orchestration
from orchestrator.parsers.whole_reply import MemorySummary, PreProcessing, Routing

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

    `name` is one of `NAMES`; it matters in ORCHESTRATION only.

    Raises:
        ValidationError: There is no such parser or stage.
    """
    if name not in NAMES:
        raise ValidationError(f"there is no parser {name!r}; use one of {', '.join(NAMES)}")
    if stage == "ORCHESTRATION":
        return partial(Orchestration, name)
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
