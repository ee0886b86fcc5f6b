"""The operations of `bedrock-agent` on knowledge bases, and who carries each out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.server.control.bases import data_sources, direct, jobs, knowledge_bases
from orchestrator.server.control.bases.room import Bases
from orchestrator.server.operations import Operations, Request

if TYPE_CHECKING:
    from orchestrator.server.world import World

__all__ = ["operations_of"]

_HANDLERS: dict[str, Callable[[Bases, Request], Mapping[str, Any]]] = {
    "CreateKnowledgeBase": knowledge_bases.create,
    "GetKnowledgeBase": knowledge_bases.get,
    "UpdateKnowledgeBase": knowledge_bases.update,
    "DeleteKnowledgeBase": knowledge_bases.delete,
    "ListKnowledgeBases": knowledge_bases.listed,
    "CreateDataSource": data_sources.create,
    "GetDataSource": data_sources.get,
    "UpdateDataSource": data_sources.update,
    "DeleteDataSource": data_sources.delete,
    "ListDataSources": data_sources.listed,
    "StartIngestionJob": jobs.start,
    "GetIngestionJob": jobs.get,
    "ListIngestionJobs": jobs.listed,
    "StopIngestionJob": jobs.stop,
    "IngestKnowledgeBaseDocuments": direct.ingest,
    "GetKnowledgeBaseDocuments": direct.get,
    "ListKnowledgeBaseDocuments": direct.listed,
    "DeleteKnowledgeBaseDocuments": direct.delete,
}


def operations_of(world: World) -> Operations:
    """The operations of knowledge bases, data sources, ingestion jobs and documents."""
    handlers = {name: partial(handler, world.bases) for name, handler in _HANDLERS.items()}
    return {"bedrock-agent": handlers}
