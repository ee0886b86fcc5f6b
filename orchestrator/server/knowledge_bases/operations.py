"""The operations of `bedrock-agent` on knowledge bases, and who carries each out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.server.knowledge_bases import (
    data_sources,
    jobs,
    knowledge_bases,
)
from orchestrator.server.knowledge_bases.service import KnowledgeBaseService
from orchestrator.server.operations import Operations, Request

if TYPE_CHECKING:
    from orchestrator.server.state import ServerState

_HANDLERS: dict[str, Callable[[KnowledgeBaseService, Request], Mapping[str, Any]]] = {
    "CreateKnowledgeBase": knowledge_bases.create,
    "GetKnowledgeBase": knowledge_bases.get,
    "UpdateKnowledgeBase": knowledge_bases.update,
    "DeleteKnowledgeBase": knowledge_bases.delete,
    "ListKnowledgeBases": knowledge_bases.list_all,
    "CreateDataSource": data_sources.create,
    "GetDataSource": data_sources.get,
    "UpdateDataSource": data_sources.update,
    "DeleteDataSource": data_sources.delete,
    "ListDataSources": data_sources.list_all,
    "StartIngestionJob": jobs.start,
    "GetIngestionJob": jobs.get,
    "ListIngestionJobs": jobs.list_all,
    "StopIngestionJob": jobs.stop,
}


def operations_of(world: ServerState) -> Operations:
    """The operations of knowledge bases, data sources, ingestion jobs and documents."""
    handlers = {name: partial(handler, world.bases) for name, handler in _HANDLERS.items()}
    return {"bedrock-agent": handlers}
