"""Embeddings: what texts mean, as vectors.

The embedders are imported when they are first named: none of numpy, onnxruntime, boto3 and httpx2
is needed to import this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orchestrator.embeddings.base import Embedder

if TYPE_CHECKING:
    from orchestrator.embeddings.bedrock import BedrockEmbedder
    from orchestrator.embeddings.minilm import MiniLM
    from orchestrator.embeddings.openai import OpenAIEmbedder
    from orchestrator.embeddings.resolve import resolve_embedder

__all__ = ["BedrockEmbedder", "Embedder", "MiniLM", "OpenAIEmbedder", "resolve_embedder"]

_HOMES = {
    "BedrockEmbedder": "bedrock",
    "MiniLM": "minilm",
    "OpenAIEmbedder": "openai",
    "resolve_embedder": "resolve",
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
