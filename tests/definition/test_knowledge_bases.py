"""Knowledge bases in `agent.yaml`: a folder, an id of Bedrock, and what is wrong with either."""

import pytest

from orchestrator.definition import load_definition, parse_definition
from orchestrator.definition.knowledge_base import build_knowledge_bases
from orchestrator.errors import DefinitionError
from orchestrator.knowledge import BedrockKnowledgeBase, LocalKnowledgeBase

HEAD = "agentName: a\ninstruction: You help people with their questions, politely.\n"


@pytest.fixture
def load(tmp_path):
    """Loads an agent with these knowledge bases, and a folder `documents` beside them."""
    folder = tmp_path / "agent"
    (folder / "documents").mkdir(parents=True)
    (folder / "documents" / "a.md").write_text("# A\n\nA dog is welcome.\n")
    (tmp_path / "outside").mkdir()
    (folder / "link").symlink_to(tmp_path / "outside")

    def load(*bases):
        lines = "".join(f"  - {{{base}}}\n" for base in bases)
        (folder / "agent.yaml").write_text(f"{HEAD}knowledgeBases:\n{lines}")
        return build_knowledge_bases(load_definition(folder), folder)

    return load


def test_a_folder_and_an_id(load):
    local, cloud = load(
        "knowledgeBaseId: rules, description: The rules., folder: documents, embedder: null",
        "knowledgeBaseId: ABCDEFGHIJ, description: The terms.",
    )
    assert isinstance(local, LocalKnowledgeBase) and isinstance(cloud, BedrockKnowledgeBase)
    assert (local.id, local.description, local.embedder) == ("rules", "The rules.", None)
    assert (cloud.id, cloud.description) == ("ABCDEFGHIJ", "The terms.")
    (found,) = local.retrieve("dog")
    assert found["location"]["customDocumentLocation"] == {"id": "a.md"}
    index = local.folder.parent / ".orchestrator" / "knowledge" / "rules.sqlite"
    assert index.is_file()


def test_the_embedded_model_is_the_default(load):
    (local,) = load("knowledgeBaseId: rules, folder: documents")
    assert local.embedder.id == "all-minilm-l6-v2"


def test_settings_reach_the_search(load):
    (local,) = load(
        "knowledgeBaseId: rules, folder: documents, embedder: null, "
        "chunkingConfiguration: {maxTokens: 20}, retrievalConfiguration: "
        "{vectorSearchConfiguration: {filter: {equals: {key: x, value: 1}}}}"
    )
    assert local.retrieve("dog") == []


def test_disabled_ones_are_left_out(load):
    assert load("knowledgeBaseId: x, knowledgeBaseState: DISABLED") == []


@pytest.mark.parametrize(
    ("base", "column", "says"),
    [
        ("knowledgeBaseId: rules", 23, "ten letters and digits"),
        ("knowledgeBaseId: r, folder: gone", 34, "there is no folder 'gone'"),
        ("knowledgeBaseId: r, folder: ../outside", 34, "leads out of the folder"),
        ("knowledgeBaseId: r, folder: /etc", 34, "is an absolute path"),
        ("knowledgeBaseId: r, folder: link", 34, "outside of the agent's folder"),
        ('knowledgeBaseId: r, folder: "a\\0b"', 34, "is no file's name"),
        ("knowledgeBaseId: r, folder: documents, embedder: bm25", 55, "bm25"),
        ("knowledgeBaseId: ABCDEFGHIJ, embedder: local", 45, "embedder is for a folder"),
        (
            "knowledgeBaseId: r, folder: documents, chunkingConfiguration: {maxTokens: 1}",
            None,
            "maxTokens",
        ),
        (
            "knowledgeBaseId: r, folder: documents, embedder: null, "
            "retrievalConfiguration: {vectorSearchConfiguration: {filter: {like: 1}}}",
            85,
            "no operator 'like'",
        ),
    ],
)
def test_a_message_has_its_place(load, base, column, says):
    with pytest.raises(DefinitionError, match=says) as caught:
        load(base)
    assert caught.value.line == 4
    assert column is None or caught.value.column == column


def test_a_folder_needs_an_agents_folder():
    definition = parse_definition(f"{HEAD}knowledgeBases: [{{knowledgeBaseId: r, folder: docs}}]")
    with pytest.raises(DefinitionError, match="there is none"):
        build_knowledge_bases(definition, None)
