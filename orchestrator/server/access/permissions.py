"""What a caller has used in the server's name has to be allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.errors import AccessDenied
from orchestrator.server.operations import Caller


def check_access(caller: Caller, resource: str) -> None:
    """Sees to it that a caller may have something used in the server's name.

    Raises:
        AccessDenied: They may not.
    """
    if not caller.may_use(resource):
        raise AccessDenied(
            f"this access key may not use {resource!r}: whoever runs the server can allow it, with "
            "`allow` in the file of --keys",
            resource=resource,
        )


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
