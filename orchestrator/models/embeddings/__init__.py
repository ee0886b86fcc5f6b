"""Embeddings: what texts mean, as vectors.

The embedders are imported when they are first named: none of numpy, onnxruntime, boto3 and httpx2
is needed to import this package. `orchestrator.models.registry` finds one by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.models.embeddings.base import Embedder
from orchestrator.support.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from orchestrator.models.embeddings.bedrock import BedrockEmbedder
    from orchestrator.models.embeddings.minilm import MiniLM
    from orchestrator.models.embeddings.openai import OpenAIEmbedder

__all__ = ["BedrockEmbedder", "Embedder", "MiniLM", "OpenAIEmbedder"]

_HOMES = {"BedrockEmbedder": "bedrock", "MiniLM": "minilm", "OpenAIEmbedder": "openai"}

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
