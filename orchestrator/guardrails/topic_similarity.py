"""Denied topics by meaning: a sentence is near to what a topic says of itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from threading import Lock
from typing import Any

from orchestrator.models.embeddings.base import Embedder

_BATCH = 64
_LONGEST = 400  # characters of a piece; embedding models read a few hundred tokens


class TopicVectors:
    """Topics as vectors, embedded at the first check. Safe for many threads at once."""

    def __init__(
        self, embedder: Embedder, topics: Sequence[tuple[str, Sequence[str]]], threshold: float
    ) -> None:
        """Takes the topics: names, each with the texts that say what it is about.

        A sentence belongs to a topic from the cosine `threshold` on, a number from -1 to 1.
        """
        self._embedder = embedder
        self._owners = [name for name, texts in topics for _ in texts]
        self._texts = [text for _, texts in topics for text in texts]
        self._threshold = threshold
        self._known: Any = None
        self._lock = Lock()

    def find(self, text: str) -> set[str]:
        """The names of the topics that a sentence of the text belongs to.

        Raises:
            DependencyFailed: The embedding model failed.
        """
        found: set[str] = set()
        if not self._texts:
            return found
        known = self._vectors()
        pieces = pieces_of(text)
        for start in range(0, len(pieces), _BATCH):
            near = self._embedder.embed(pieces[start : start + _BATCH]) @ known.T
            best = near.max(axis=0)
            found |= {
                name
                for name, value in zip(self._owners, best.tolist(), strict=True)
                if value >= self._threshold
            }
        return found

    def _vectors(self) -> Any:
        with self._lock:
            if self._known is None:
                self._known = self._embedder.embed(self._texts)
            return self._known


def pieces_of(text: str) -> list[str]:
    """A text's sentences; longer ones are cut at spaces."""
    pieces = []
    for sentence in re.split(r"(?<=[.!?。！？])\s+|\n+", text):
        rest = sentence.strip()
        while len(rest) > _LONGEST:
            cut = rest.rfind(" ", _LONGEST // 2, _LONGEST)
            cut = cut if cut > 0 else _LONGEST
            pieces.append(rest[:cut])
            rest = rest[cut:].lstrip()
        if rest:
            pieces.append(rest)
    return pieces
