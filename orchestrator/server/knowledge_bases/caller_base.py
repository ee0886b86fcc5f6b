"""A knowledge base as one caller may search it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from orchestrator.errors import AccessDenied, ResourceNotFound
from orchestrator.knowledge import KnowledgeBase
from orchestrator.knowledge.settings import check, merge_configurations
from orchestrator.server.operations import Caller
from orchestrator.support.aws import Settings, Target, get_shared_client


class Searchable(Protocol):
    """What can be searched, whatever it is called."""

    def retrieve(
        self, query: str, configuration: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """The passages that fit `query` best, best first."""
        ...


Find = Callable[[], Searchable]


class CallerKnowledgeBase:
    """A `KnowledgeBase` that is found anew for each search: others may delete it meanwhile.

    Attributes:
        id: The knowledge base id.
        description: For the model.
    """

    def __init__(self, find: Find, id: str, description: str, caller: Caller) -> None:
        self.id = id
        self.description = description
        self._find = find
        self._caller = caller

    def retrieve(
        self, query: str, configuration: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """The passages that fit `query` best, best first; see `orchestrator.KnowledgeBase`.

        Raises:
            Fault: The configuration names a model that the caller may not use.
            ResourceNotFound: The knowledge base is no more.
            ValidationError: The query or the configuration is wrong.
            DependencyFailed: The search failed.
        """
        from orchestrator.server.access.permissions import check_retrieval

        check_retrieval(self._caller, configuration)
        return self._find().retrieve(query, configuration)


def open_aws_base(id: str) -> Searchable:
    """The knowledge base of Amazon Bedrock with an id.

    Raises:
        ResourceNotFound: There are no credentials or no region to look for it with.
        ValidationError: It is no such id.
    """
    from orchestrator.knowledge import BedrockKnowledgeBase

    target = Target(f"the knowledge base {id!r}", id, "allow bedrock:Retrieve")
    try:
        client = get_shared_client(Settings("bedrock-agent-runtime"), target)
    except AccessDenied as error:
        raise ResourceNotFound(
            f"there is no knowledge base {id!r} here; were it one of AWS: {error.message}"
        ) from error
    return BedrockKnowledgeBase(id, client=client)


class AssociatedBase:
    """A knowledge base with an agent's own description and configuration; a `KnowledgeBase`.

    It is found anew for every search, so that a cached agent searches what is there now.

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
