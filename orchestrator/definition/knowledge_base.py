"""Knowledge bases of a definition: one of Bedrock's by its id, or a folder of documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, model_validator

from orchestrator.definition.fields import Name, Part, State, Text, mistake
from orchestrator.errors import DefinitionError, ValidationError

if TYPE_CHECKING:
    from orchestrator.definition.agent import AgentDefinition
    from orchestrator.knowledge import KnowledgeBase

_LOCAL_ONLY = ("embedder", "chunking_configuration")


class ChunkingConfiguration(Part):
    """How documents are cut (Bedrock: FixedSizeChunkingConfiguration).

    Attributes:
        max_tokens: The size of a passage in words and marks.
        overlap_percentage: How much of a cut paragraph is repeated in the next passage.
    """

    max_tokens: Annotated[int, Field(ge=20, le=8192)] = 180
    overlap_percentage: Annotated[int, Field(ge=0, le=50)] = 15


class KnowledgeBaseAssociation(Part):
    """A knowledge base that the agent may search.

    Attributes:
        knowledge_base_id: Its id; of a knowledge base of Bedrock, ten letters and digits.
        description: What is in it and when to search it, for the model.
        knowledge_base_state: `DISABLED` leaves it out.
        retrieval_configuration: How it is searched (Bedrock: KnowledgeBaseRetrievalConfiguration).
        folder: A folder of documents in the agent's folder, which is searched in this process.
        embedder: What understands meaning in the folder: `local` is the embedded model; null
            searches by keywords only.
        chunking_configuration: How the folder's documents are cut.
    """

    READ_ONLY: ClassVar[frozenset[str]] = frozenset(
        ("agentId", "agentVersion", "createdAt", "updatedAt")
    )

    knowledge_base_id: Name
    description: Text | None = None
    knowledge_base_state: State | None = None
    retrieval_configuration: dict[str, Any] | None = None
    folder: Annotated[str, Field(min_length=1)] | None = None
    embedder: Annotated[str, Field(min_length=1)] | None = "local"
    chunking_configuration: ChunkingConfiguration | None = None

    @model_validator(mode="after")
    def _check_folder_members(self) -> KnowledgeBaseAssociation:
        for name in _LOCAL_ONLY:
            if self.folder is None and name in self.model_fields_set:
                alias = type(self).model_fields[name].alias or name
                raise mistake(f"{alias} is for a folder of documents; give a folder", alias)
        return self


def build_knowledge_bases(definition: AgentDefinition, root: Path | None) -> list[KnowledgeBase]:
    """The knowledge bases that a definition asks for; nothing is read or asked yet.

    `DISABLED` ones are left out. `root` is the agent's folder, to which a `folder` is relative and
    which has its index in `.orchestrator/knowledge/<id>.sqlite`.

    Raises:
        DefinitionError: A folder is missing or outside of the agent's folder, an id is no id of
            Bedrock, or a retrieval configuration or an embedder's name is wrong.
    """
    bases: Sequence[Any] = definition.knowledge_bases
    return [
        _Builder(definition, base, index, root).build()
        for index, base in enumerate(bases)
        if base.knowledge_base_state != "DISABLED"
    ]


class _Builder:
    def __init__(
        self,
        definition: AgentDefinition,
        base: KnowledgeBaseAssociation,
        index: int,
        root: Path | None,
    ) -> None:
        self.definition = definition
        self.base = base
        self.index = index
        self.root = root

    def build(self) -> KnowledgeBase:
        try:
            return self.bedrock() if self.base.folder is None else self.local(self.base.folder)
        except ValidationError as error:  # of the id, the configuration or the embedder's name
            raise self.fail(error.message, self.member(error.message)) from error

    def member(self, message: str) -> str:
        if "retrievalConfiguration" in message or message.startswith("filter"):
            return "retrievalConfiguration"
        return "knowledgeBaseId" if self.base.folder is None else "embedder"

    def fail(self, message: str, member: str) -> DefinitionError:
        return self.definition.source.error(message, "knowledgeBases", self.index, member)

    def bedrock(self) -> KnowledgeBase:
        from orchestrator.knowledge import BedrockKnowledgeBase

        return BedrockKnowledgeBase(
            self.base.knowledge_base_id,
            self.base.description or "",
            retrieval_configuration=self.base.retrieval_configuration,
        )

    def local(self, name: str) -> KnowledgeBase:
        from orchestrator.knowledge import Chunking, LocalKnowledgeBase

        chunking = self.base.chunking_configuration or ChunkingConfiguration()
        root = self.agent_folder(name)
        return LocalKnowledgeBase(
            self.folder(root, name),
            id=self.base.knowledge_base_id,
            description=self.base.description or "",
            index=root / ".orchestrator" / "knowledge" / f"{self.base.knowledge_base_id}.sqlite",
            embedder=self.base.embedder,
            chunking=Chunking(chunking.max_tokens, chunking.overlap_percentage),
            retrieval_configuration=self.base.retrieval_configuration,
        )

    def agent_folder(self, name: str) -> Path:
        root = self.root or self.definition.source.folder
        if root is None:
            raise self.fail(
                f"the folder {name!r} is relative to an agent's folder, and there is none", "folder"
            )
        return root.resolve()

    def folder(self, root: Path, name: str) -> Path:
        from orchestrator.definition.files import locate_folder

        keys = ("knowledgeBases", self.index, "folder")
        return locate_folder(self.definition, name, keys, root)
