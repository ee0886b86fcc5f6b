"""A knowledge base of the server, as one agent searches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.knowledge import KnowledgeBase
from orchestrator.knowledge.settings import check, merge_configurations


class AssociatedBase:
    """A knowledge base with an agent's own description and configuration; a `KnowledgeBase`.

    It is found anew for every search, so that an agent that is kept searches what is there now.

    Attributes:
        id: The knowledge base id.
        description: For the model: what can be found there.
    """

    def __init__(
        self,
        id: str,
        description: str,
        find: Callable[[], KnowledgeBase],
        retrieval_configuration: Mapping[str, Any] | None = None,
    ) -> None:
        """Names the knowledge base.

        Args:
            id: Its id.
            description: For the model.
            find: Gives it; raises `ResourceNotFound` when it is not there any more.
            retrieval_configuration: Bedrock's `retrievalConfiguration` for all searches of the
                agent; that of a call wins.

        Raises:
            ValidationError: The configuration is wrong.
        """
        check(retrieval_configuration or {})
        self.id = id
        self.description = description
        self._find = find
        self._configuration = retrieval_configuration

    def retrieve(
        self, query: str, configuration: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """See `KnowledgeBase.retrieve`."""
        return self._find().retrieve(
            query, merge_configurations(self._configuration, configuration) or None
        )
