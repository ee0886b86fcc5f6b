"""Knowledge bases made through the API: what they hold, how it comes in, and who may search it.

A knowledge base is an index of passages in one SQLite file beside the server's state, which
`orchestrator.knowledge` searches by meaning and words. What a caller says of embedding models and
vector stores is stored and shown again, and has no effect: code that is written for Amazon Bedrock
runs unchanged, and nothing leaves the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.server.operations import Operations

if TYPE_CHECKING:
    from orchestrator.server.knowledge_bases.service import KnowledgeBaseService


def operations_of(bases: KnowledgeBaseService) -> Operations:
    """The operations of knowledge bases, and of all that belongs to them."""
    from functools import partial

    from orchestrator.server.knowledge_bases import (
        data_sources,
        documents,
        jobs,
        knowledge_bases,
        policies,
    )

    modules = (knowledge_bases, data_sources, jobs, documents, policies)
    handlers = {name: it for module in modules for name, it in module.HANDLERS.items()}
    return {"bedrock-agent": {name: partial(it, bases) for name, it in handlers.items()}}
