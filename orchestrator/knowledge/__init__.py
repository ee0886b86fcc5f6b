"""Retrieval backends; nothing here knows the loop.

The backends are imported when they are first named: neither boto3 nor numpy is needed to import
this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.knowledge.base import KnowledgeBase
from orchestrator.support.lazy_imports import lazy_exports

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

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
