"""Embeddings: what texts mean, as vectors."""

from orchestrator.embeddings.base import Embedder

__all__ = ["Embedder"]
