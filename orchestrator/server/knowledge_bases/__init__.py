"""Knowledge bases made through the API: what they hold, how it comes in, and who may search it.

A knowledge base is an index of passages in one SQLite file beside the server's state, which
`orchestrator.knowledge` searches by meaning and words. What a caller says of embedding models and
vector stores is kept and told again, and has no effect: code that is written for Amazon Bedrock
runs unchanged, and nothing leaves the machine.
"""

from __future__ import annotations

from orchestrator.server.knowledge_bases.operations import operations_of
from orchestrator.server.knowledge_bases.service import KnowledgeBaseService

__all__ = ["KnowledgeBaseService", "operations_of"]
