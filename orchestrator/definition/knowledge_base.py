"""Knowledge bases of a definition: one of Bedrock's by its id, or a folder of documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, model_validator

from orchestrator.definition.fields import Name, Part, State, Text, mistake
from orchestrator.errors import ValidationError
from orchestrator.support.documents import Keys

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
    return [
        _build(definition, base, index, root)
        for index, base in enumerate(definition.knowledge_bases)
        if base.knowledge_base_state != "DISABLED"
    ]


def _build(
    definition: AgentDefinition, base: KnowledgeBaseAssociation, index: int, root: Path | None
) -> KnowledgeBase:
    from orchestrator.knowledge import BedrockKnowledgeBase

    keys = ("knowledgeBases", index)
    try:
        if base.folder is not None:
            return _build_local(definition, base, base.folder, keys, root)
        return BedrockKnowledgeBase(
            base.knowledge_base_id,
            base.description or "",
            retrieval_configuration=base.retrieval_configuration,
        )
    except ValidationError as error:  # of the id, the configuration or the embedder's name
        member = "knowledgeBaseId" if base.folder is None else "embedder"
        if "retrievalConfiguration" in error.message or error.message.startswith("filter"):
            member = "retrievalConfiguration"
        raise definition.source.error(error.message, *keys, member) from error


def _build_local(
    definition: AgentDefinition,
    base: KnowledgeBaseAssociation,
    name: str,
    keys: Keys,
    root: Path | None,
) -> KnowledgeBase:
    from orchestrator.definition.files import locate_folder
    from orchestrator.knowledge import Chunking, LocalKnowledgeBase

    root, keys = root or definition.source.folder, (*keys, "folder")
    if root is None:
        raise definition.source.error(
            f"the folder {name!r} is relative to an agent's folder, and there is none", *keys
        )
    root, id = root.resolve(), base.knowledge_base_id
    chunking = base.chunking_configuration or ChunkingConfiguration()
    return LocalKnowledgeBase(
        locate_folder(definition, name, keys, root),
        id=id,
        description=base.description or "",
        index=root / ".orchestrator" / "knowledge" / f"{id}.sqlite",
        embedder=base.embedder,
        chunking=Chunking(chunking.max_tokens, chunking.overlap_percentage),
        retrieval_configuration=base.retrieval_configuration,
    )
