"""Retrieval backends; nothing here knows the loop.

The backends are imported when they are first named: neither boto3 nor numpy is needed to import
this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orchestrator.knowledge.base import KnowledgeBase

if TYPE_CHECKING:
    from orchestrator.knowledge.bedrock import BedrockKnowledgeBase, References
    from orchestrator.knowledge.chunks import Chunking
    from orchestrator.knowledge.indexing import IndexReport
    from orchestrator.knowledge.local import LocalKnowledgeBase
    from orchestrator.knowledge.rerank import BedrockReranker, Reranker

__all__ = [
    "BedrockKnowledgeBase",
    "BedrockReranker",
    "Chunking",
    "IndexReport",
    "KnowledgeBase",
    "LocalKnowledgeBase",
    "References",
    "Reranker",
]

_HOMES = {
    "BedrockKnowledgeBase": "bedrock",
    "BedrockReranker": "rerank",
    "Chunking": "chunks",
    "IndexReport": "indexing",
    "LocalKnowledgeBase": "local",
    "References": "bedrock",
    "Reranker": "rerank",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
