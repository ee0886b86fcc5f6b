"""Tags that are stored apart from the things that have them."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.server.document_store import DocumentStore
from orchestrator.server.operations import Caller, TagChange, check_tags

_KIND = "tags"


class StoredTags:
    """Tags by the ARNs of the things that have them."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents

    def put(self, caller: Caller, arn: str, tags: Mapping[str, str] | None) -> None:
        """Stores the tags of a new thing."""
        if tags:
            check_tags(tags)
            self.change(caller, arn, lambda _: dict(tags))

    def forget(self, caller: Caller, arn: str) -> None:
        """Deletes the tags of a deleted thing."""
        self._documents.delete(caller.tenant, _KIND, arn)

    def change(self, caller: Caller, arn: str, change: TagChange | None) -> dict[str, str]:
        """The tags of a thing, which is there, after a change of them if there is one."""
        documents, tenant = self._documents, caller.tenant
        with documents.transaction():
            tags: dict[str, str] = documents.get(tenant, _KIND, arn) or {}
            if change is not None:
                tags = change(tags)
                documents.put(tenant, _KIND, arn, tags)
        return tags
