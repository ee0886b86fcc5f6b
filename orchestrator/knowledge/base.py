"""The knowledge base seam: a query in, retrieved references out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from orchestrator.errors import DependencyFailed, OrchestratorError
from orchestrator.support.user_code import is_own_failure


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


def search(
    base: KnowledgeBase, query: str, configuration: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """What a knowledge base retrieves; whether it is what it should be is checked.

    Raises:
        DependencyFailed: The search failed, or what was found are no references in JSON.
    """
    own = () if configuration is None else (configuration,)
    try:
        references = base.retrieve(query, *own)
    except OrchestratorError:
        raise
    except BaseException as error:
        if not is_own_failure(error):
            raise
        raise DependencyFailed(
            f"the knowledge base {base.id!r} raised {type(error).__name__}; its own message is "
            "kept out of this one, since it may hold what nobody else may read",
            resource=base.id,
        ) from error
    try:
        return [_check_reference(reference) for reference in references]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise wrong_references(base.id) from None


def wrong_references(id: str) -> DependencyFailed:
    """The error of a knowledge base whose results nobody can use."""
    return DependencyFailed(
        f"the knowledge base {id!r} returned something else than references: each must be "
        "{'content': {'text': '...'}}, with 'location', 'metadata' and 'score' if it has them, all "
        "of it JSON (no dates, no numbers of NumPy, no NaN)",
        resource=id,
    )


def _check_reference(reference: dict[str, Any]) -> dict[str, Any]:
    # Journals, traces and answers are JSON.
    json.dumps(reference, allow_nan=False)
    reference["content"].items()
    return reference
