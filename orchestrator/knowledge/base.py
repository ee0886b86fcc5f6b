"""The knowledge base seam: a query in, retrieved references out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class KnowledgeBase(Protocol):
    """Something that can be searched."""

    id: str  # the knowledge base id, as the model calls it
    description: str  # for the model: what can be found here

    def retrieve(
        self, query: str, configuration: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """The passages that fit `query` best, best first.

        Args:
            query: What to look for. A model's query is never empty, and has at most 20,000
                characters (Bedrock: KnowledgeBaseQuery): the engine refuses others, and the
                model may ask again.
            configuration: Bedrock's `retrievalConfiguration` of this call, whose members win over
                the knowledge base's own: `{"vectorSearchConfiguration": {"numberOfResults",
                "overrideSearchType", "filter", ...}}`.

        Returns:
            Bedrock's retrieved references: `{"content": {"text", "type"}, "location", "metadata"}`
            and mostly `score`.

        Raises:
            DependencyFailed: The search failed.
        """
