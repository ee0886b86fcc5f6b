"""How to search: Bedrock's `KnowledgeBaseRetrievalConfiguration`, merged and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.knowledge.filters import Filter, compile_filter
from orchestrator.message import clean

# How many passages are found unless more are asked for (Bedrock: "Query configurations").
DEFAULT_RESULTS = 5

_LONGEST_QUERY = 20_000  # Bedrock: KnowledgeBaseQuery
_MOST_RESULTS = 100
_VECTOR = "vectorSearchConfiguration"
_MANAGED = "managedSearchConfiguration"
_TYPES = ("HYBRID", "SEMANTIC")
_MEMBERS = {
    _VECTOR: (
        *("filter", "implicitFilterConfiguration", "numberOfResults", "overrideSearchType"),
        "rerankingConfiguration",
    ),
    _MANAGED: ("filter", "numberOfResults", "rerankingConfiguration", "rerankingModelType"),
}


@dataclass(frozen=True, slots=True)
class Search:
    """What a local knowledge base is asked for."""

    results: int = DEFAULT_RESULTS  # how many passages at most
    semantic: bool = False  # whether only the meaning counts, and no keyword (`SEMANTIC`)
    filter: Filter | None = None  # which passages may be found
    reranking: Mapping[str, Any] | None = None  # Bedrock's `rerankingConfiguration`


def check_query(query: str) -> str:
    """The query; halves of surrogate pairs, which have no UTF-8, become question marks.

    Raises:
        ValidationError: It is empty or too long.
    """
    if not isinstance(query, str) or not query.strip():
        raise ValidationError("the query of a knowledge base is a text that is not empty")
    if len(query) > _LONGEST_QUERY:
        raise ValidationError(
            f"the query has {len(query):,} characters, and a knowledge base takes at most "
            f"{_LONGEST_QUERY:,}: ask for less"
        )
    text: str = clean(query)
    return text


def merge_configurations(
    own: Mapping[str, Any] | None, call: Mapping[str, Any] | None
) -> dict[str, dict[str, Any]]:
    """A call's configuration over a knowledge base's own, member by member; both are left alone.

    Raises:
        ValidationError: The result is not a retrieval configuration.
    """
    # Bedrock's Retrieve takes one configuration, so the members of the call win here, before it.
    together: dict[str, dict[str, Any]] = {}
    for configuration in (own, call):
        for name, members in _objects(configuration):
            together.setdefault(name, {}).update(members)
    check(together)
    return together


def _objects(configuration: Mapping[str, Any] | None) -> list[tuple[str, Mapping[str, Any]]]:
    if configuration is not None and not isinstance(configuration, Mapping):
        raise ValidationError("retrievalConfiguration must be an object")
    for name, members in (configuration or {}).items():
        if name not in _MEMBERS:
            raise ValidationError(
                f"retrievalConfiguration has no member {name!r}; there are {', '.join(_MEMBERS)}"
            )
        if not isinstance(members, Mapping):
            raise ValidationError(f"retrievalConfiguration.{name} must be an object")
    return list((configuration or {}).items())


def check(configuration: Mapping[str, Any]) -> None:
    """Checks what can be known without the service.

    Raises:
        ValidationError: A member, a number or a filter is wrong; the message says which.
    """
    for name, members in _objects(configuration):
        at = f"retrievalConfiguration.{name}"
        for member in members:
            if member not in _MEMBERS[name]:
                known = ", ".join(_MEMBERS[name])
                raise ValidationError(f"{at} has no member {member!r}; there are {known}")
        _check_members(members, at)


def _check_members(members: Mapping[str, Any], at: str) -> None:
    number = members.get("numberOfResults", 1)
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= _MOST_RESULTS:
        raise ValidationError(f"{at}.numberOfResults must be a number from 1 to {_MOST_RESULTS}")
    if members.get("overrideSearchType", "HYBRID") not in _TYPES:
        raise ValidationError(f"{at}.overrideSearchType must be one of {', '.join(_TYPES)}")
    if "filter" in members:
        compile_filter(members["filter"])


def search_of(configuration: Mapping[str, Any]) -> Search:
    """What a checked configuration asks of a local knowledge base.

    Raises:
        ValidationError: It asks for something that only the service has.
    """
    if _MANAGED in configuration:
        raise ValidationError(
            f"{_MANAGED} is for Bedrock's managed knowledge bases; a local one takes {_VECTOR}"
        )
    members = configuration.get(_VECTOR) or {}
    if "implicitFilterConfiguration" in members:
        raise ValidationError(
            "a local knowledge base makes no filter of a question: leave "
            "implicitFilterConfiguration out, and give a filter"
        )
    filter_value = members.get("filter")
    return Search(
        results=members.get("numberOfResults", DEFAULT_RESULTS),
        semantic=members.get("overrideSearchType") == "SEMANTIC",
        filter=compile_filter(filter_value) if filter_value is not None else None,
        reranking=members.get("rerankingConfiguration"),
    )
