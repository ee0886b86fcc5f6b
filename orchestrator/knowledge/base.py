"""The knowledge base seam: a query in, retrieved references out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from orchestrator.errors import DependencyFailed, OrchestratorError
from orchestrator.support.safe_json import read_json
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
    """The references that a knowledge base retrieves, as JSON values.

    Raises:
        DependencyFailed: The search failed, or its results are not references.
    """
    own = () if configuration is None else (configuration,)
    try:
        found = base.retrieve(query, *own)
        references = [*found] if isinstance(found, Iterable) else None
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
        if references is None:
            raise TypeError
        return [_read_reference(reference) for reference in references]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise build_references_error(base.id) from None


def build_references_error(id: str) -> DependencyFailed:
    """The error of a knowledge base whose results nobody can use."""
    return DependencyFailed(
        f"the knowledge base {id!r} returned something else than references: each must be "
        "{'content': {'text': '...'}}, with 'location' and 'metadata' (objects) and 'score' (a "
        "number) if it has them, all of it JSON (no dates, no numbers of NumPy, no NaN)",
        resource=id,
    )


# Of a reference; a passage that is an image or a row has no text.
_KINDS: Mapping[str, Any] = {"location": dict, "metadata": dict, "score": (int, float)}


def _read_reference(reference: dict[str, Any]) -> dict[str, Any]:
    # Journals, traces and answers are JSON, of no more levels than can be read again.
    read: dict[str, Any] = read_json(json.dumps(reference, allow_nan=False))
    text = read["content"].get("text", "") if isinstance(read["content"], dict) else None
    if not isinstance(text, str):
        raise TypeError
    for name, kind in _KINDS.items():
        if read.get(name) is not None and not isinstance(read[name], kind):
            raise TypeError
    return read
