"""Fakes of the seams that need one of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["FakeClock", "FakeKnowledgeBase"]


class FakeClock:
    """A clock that moves only when it is told to, for `Sessions(clock=...)`."""

    def __init__(self, now: int = 1_700_000_000_000_000_000) -> None:
        """Makes the clock.

        Args:
            now: Nanoseconds since 1970.
        """
        self.now = now

    def __call__(self) -> int:
        """The time in nanoseconds since 1970."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Moves the clock on."""
        self.now += int(seconds * 1e9)


class FakeKnowledgeBase:
    """A knowledge base that finds the same passages for every query.

    Attributes:
        queries: What was searched for, in order.
    """

    def __init__(self, id: str, passages: Sequence[str], description: str = "") -> None:
        """Makes the knowledge base.

        Args:
            id: Its id.
            passages: The passages' texts.
            description: For the model.
        """
        self.id = id
        self.description = description
        self.queries: list[str] = []
        self._passages = tuple(passages)

    def retrieve(self, query: str) -> list[dict[str, Any]]:
        """All passages, with locations `passage:0`, `passage:1`, ..."""
        self.queries.append(query)
        return [
            {
                "content": {"text": text, "type": "TEXT"},
                "location": {
                    "type": "CUSTOM",
                    "customDocumentLocation": {"id": f"passage:{index}"},
                },
            }
            for index, text in enumerate(self._passages)
        ]
