"""What a caller's agents use in the server's name has to be allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.server.operations import Caller, Fault

__all__ = ["check_allowed", "check_retrieval"]

_SEARCHES = ("vectorSearchConfiguration", "managedSearchConfiguration")


def check_allowed(caller: Caller, resource: str) -> None:
    """Checks that a caller's agents may use something in the server's name.

    Raises:
        Fault: They may not (Bedrock: AccessDeniedException).
    """
    if not caller.may_use(resource):
        raise Fault(
            "AccessDeniedException",
            f"this access key may not use {resource!r}: whoever runs the server can allow it",
        )


def check_retrieval(caller: Caller, configuration: Mapping[str, Any] | None) -> None:
    """Checks that a caller may use the models that a `retrievalConfiguration` names.

    Raises:
        Fault: It may not.
    """
    for model in _models_named(configuration or {}):
        check_allowed(caller, model)


def _models_named(configuration: Mapping[str, Any]) -> Iterator[str]:
    for search in _SEARCHES:
        members = configuration.get(search) or {}
        reranking = members.get("rerankingConfiguration") or {}
        reranker = (reranking.get("bedrockRerankingConfiguration") or {}).get("modelConfiguration")
        for named in (reranker, members.get("implicitFilterConfiguration")):
            if named and (arn := named.get("modelArn")):
                yield arn
