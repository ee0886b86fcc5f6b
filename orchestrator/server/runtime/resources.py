"""What a retrieval uses in the server's name has to be allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.server.access.permissions import check_access
from orchestrator.server.operations import Caller

_SEARCHES = ("vectorSearchConfiguration", "managedSearchConfiguration")


def check_retrieval(caller: Caller, configuration: Mapping[str, Any] | None) -> None:
    """Checks that a caller may use the models that a `retrievalConfiguration` names.

    Raises:
        AccessDenied: It may not.
    """
    for model in _find_models(configuration or {}):
        check_access(caller, model)


def _find_models(configuration: Mapping[str, Any]) -> Iterator[str]:
    for search in _SEARCHES:
        members = configuration.get(search) or {}
        reranking = members.get("rerankingConfiguration") or {}
        reranker = (reranking.get("bedrockRerankingConfiguration") or {}).get("modelConfiguration")
        for named in (reranker, members.get("implicitFilterConfiguration")):
            if named and (arn := named.get("modelArn")):
                yield arn
