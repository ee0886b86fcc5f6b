"""The knowledge bases of agents that are defined on disk: searched and shown, never changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from orchestrator.definition.knowledge_base import build_knowledge_bases
from orchestrator.knowledge import KnowledgeBase, LocalKnowledgeBase
from orchestrator.server.ids import Arns

if TYPE_CHECKING:
    from orchestrator.definition import AgentDefinition

ID = re.compile("[0-9a-zA-Z]{10}")
"""The form of ids (Bedrock: Id)."""

_MODEL = "foundation-model/sentence-transformers.all-minilm-l6-v2"


class AgentFolder(Protocol):
    """An agent that is defined on disk."""

    folder: Path  # its folder
    definition: AgentDefinition | None  # what its file says, unless that is wrong
    changed: datetime  # when a file of it was changed last


ListFolders = Callable[[], Sequence[AgentFolder]]


class FolderBases:
    """The folders of documents of the agents in `settings.agents`. Safe for many threads.

    Everybody who sees the agents may search them.
    """

    def __init__(self, arns: Arns, list_folders: ListFolders) -> None:
        self._arns = arns
        self._list_folders = list_folders
        self._lock = Lock()
        self._open: dict[Path, tuple[AgentDefinition, dict[str, LocalKnowledgeBase]]] = {}

    def base(self, id: str) -> KnowledgeBase | None:
        """The knowledge base with an id, if an agent has such a folder.

        Raises:
            DefinitionError: Its folder or its settings are wrong.
        """
        for agent, definition in self._agents():
            if any(it.knowledge_base_id == id and it.folder for it in definition.knowledge_bases):
                return self._bases(agent, definition).get(id)
        return None

    def _bases(
        self, agent: AgentFolder, definition: AgentDefinition
    ) -> dict[str, LocalKnowledgeBase]:
        # Not the compiled agent's own: an agent may be compiled just now that asks.
        with self._lock:
            known = self._open.get(agent.folder)
            # Its files have changed.
            if known is None or known[0] is not definition:
                _close_bases(known[1] if known else {})
                bases = build_knowledge_bases(definition, agent.folder)
                found = {it.id: it for it in bases if isinstance(it, LocalKnowledgeBase)}
                known = self._open[agent.folder] = definition, found
            return known[1]

    def describe(self, id: str) -> dict[str, Any] | None:
        """A folder as GetKnowledgeBase shows a knowledge base."""
        return next((it for it in self.all() if it["knowledgeBaseId"] == id), None)

    def all(self) -> Iterator[dict[str, Any]]:
        """All folders whose ids are of Bedrock's form, as GetKnowledgeBase shows them."""
        seen = set()
        for agent, definition in self._agents():
            for it in definition.knowledge_bases:
                id = it.knowledge_base_id
                if it.folder and id not in seen and ID.fullmatch(id):
                    seen.add(id)
                    yield self._describe(id, it.description, agent.changed)

    def _describe(self, id: str, description: str | None, changed: datetime) -> dict[str, Any]:
        arns, model = self._arns, f"arn:aws:bedrock:{self._arns.region}::{_MODEL}"
        return {
            "knowledgeBaseId": id,
            "name": id,
            "knowledgeBaseArn": arns.knowledge_base(id),
            **({"description": description[:200]} if description else {}),
            "roleArn": arns.role(),
            "knowledgeBaseConfiguration": {
                "type": "VECTOR",
                "vectorKnowledgeBaseConfiguration": {"embeddingModelArn": model},
            },
            "status": "ACTIVE",
            "createdAt": changed,
            "updatedAt": changed,
        }

    def close(self) -> None:
        """Closes the indexes that were opened."""
        with self._lock:
            for _, bases in self._open.values():
                _close_bases(bases)
            self._open.clear()

    def _agents(self) -> Iterator[tuple[AgentFolder, AgentDefinition]]:
        for agent in self._list_folders():
            if agent.definition is not None:
                yield agent, agent.definition


def _close_bases(bases: Mapping[str, LocalKnowledgeBase]) -> None:
    for base in bases.values():
        base.close()
