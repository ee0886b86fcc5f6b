"""Knowledge bases and data sources through boto3: made, told, changed, deleted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from knowledge_servers import ROLE, STORAGE, VECTORS, Caller, polled, refused, running, s3_source


def test_a_knowledge_base_lives_as_in_aws(server: Caller) -> None:
    agent = server.agent
    made = agent.create_knowledge_base(
        name="handbook",
        description="Rules of the house",
        roleArn=ROLE,
        knowledgeBaseConfiguration=VECTORS,
        storageConfiguration=STORAGE,
        tags={"team": "hr"},
    )["knowledgeBase"]
    id = made["knowledgeBaseId"]
    assert made["status"] == "CREATING"
    assert made["knowledgeBaseArn"] == f"arn:aws:bedrock:us-east-1:000000000000:knowledge-base/{id}"

    told = agent.get_knowledge_base(knowledgeBaseId=id)["knowledgeBase"]
    assert told == made | {"status": "ACTIVE"}
    assert told["storageConfiguration"] == STORAGE
    assert told["knowledgeBaseConfiguration"] == VECTORS

    summaries = agent.list_knowledge_bases()["knowledgeBaseSummaries"]
    assert [(it["knowledgeBaseId"], it["name"], it["status"]) for it in summaries] == [
        (id, "handbook", "ACTIVE")
    ]
    changed = agent.update_knowledge_base(
        knowledgeBaseId=id,
        name="rules",
        roleArn=ROLE,
        knowledgeBaseConfiguration=VECTORS,
        storageConfiguration=STORAGE,
    )["knowledgeBase"]
    assert changed["status"] == "UPDATING"
    told = agent.get_knowledge_base(knowledgeBaseId=id)["knowledgeBase"]
    assert (told["name"], told["status"], "description" in told) == ("rules", "ACTIVE", False)
    assert told["updatedAt"] > told["createdAt"] == made["createdAt"]

    assert agent.delete_knowledge_base(knowledgeBaseId=id)["status"] == "DELETING"
    assert refused(agent.get_knowledge_base, knowledgeBaseId=id)[0] == "ResourceNotFoundException"
    assert agent.list_knowledge_bases()["knowledgeBaseSummaries"] == []


def test_tags_of_a_knowledge_base_are_changed(server: Caller) -> None:
    id = server.base(tags={"team": "hr"})
    arn = f"arn:aws:bedrock:us-east-1:000000000000:knowledge-base/{id}"
    server.agent.tag_resource(resourceArn=arn, tags={"stage": "test"})
    server.agent.untag_resource(resourceArn=arn, tagKeys=["team"])
    assert server.agent.list_tags_for_resource(resourceArn=arn)["tags"] == {"stage": "test"}
    many = {f"key-{number}": "" for number in range(50)}
    problem, _ = refused(server.agent.tag_resource, resourceArn=arn, tags=many)
    assert problem in ("ServiceQuotaExceededException", "ValidationException")
    assert server.agent.list_tags_for_resource(resourceArn=arn)["tags"] == {"stage": "test"}


def test_a_client_token_makes_one_knowledge_base(server: Caller) -> None:
    given = {
        "roleArn": ROLE,
        "knowledgeBaseConfiguration": VECTORS,
        "clientToken": str(uuid4()),
    }
    first, second = (server.agent.create_knowledge_base(name="one", **given) for _ in "12")
    assert first["knowledgeBase"] == second["knowledgeBase"]
    assert len(server.agent.list_knowledge_bases()["knowledgeBaseSummaries"]) == 1
    assert refused(server.agent.create_knowledge_base, name="two", **given)[0] == (
        "ConflictException"
    )


def test_names_are_taken_once(server: Caller) -> None:
    server.base("one")
    two = server.base("two")
    given = {"name": "one", "roleArn": ROLE, "knowledgeBaseConfiguration": VECTORS}
    problem, text = refused(server.agent.create_knowledge_base, **given)
    assert (problem, "'one'" in text) == ("ConflictException", True)
    problem, _ = refused(server.agent.update_knowledge_base, knowledgeBaseId=two, **given)
    assert problem == "ConflictException"


def test_configurations_cannot_be_changed(server: Caller) -> None:
    id = server.base()
    other = json.loads(json.dumps(VECTORS).replace("titan-embed-text-v2", "titan-embed-text-v1"))
    problem, text = refused(
        server.agent.update_knowledge_base,
        knowledgeBaseId=id,
        name="handbook",
        roleArn=ROLE,
        knowledgeBaseConfiguration=other,
    )
    assert (problem, "knowledgeBaseConfiguration" in text) == ("ValidationException", True)


def test_only_vector_knowledge_bases_are_made(server: Caller) -> None:
    kendra = {
        "type": "KENDRA",
        "kendraKnowledgeBaseConfiguration": {
            "kendraIndexArn": "arn:aws:kendra:us-east-1:000000000000:index/"
            "a2345678-1234-1234-1234-123456789012"
        },
    }
    problem, text = refused(
        server.agent.create_knowledge_base,
        name="kendra",
        roleArn=ROLE,
        knowledgeBaseConfiguration=kendra,
    )
    assert (problem, "VECTOR" in text) == ("ValidationException", True)


def test_lists_come_in_pages(server: Caller) -> None:
    ids = [server.base(f"base-{number}") for number in range(5)]
    pages = server.agent.get_paginator("list_knowledge_bases").paginate(
        PaginationConfig={"PageSize": 2}
    )
    found = [[it["knowledgeBaseId"] for it in page["knowledgeBaseSummaries"]] for page in pages]
    assert found == [ids[:2], ids[2:4], ids[4:]]
    problem, _ = refused(server.agent.list_knowledge_bases, nextToken="nonsense")
    assert problem == "ValidationException"


def test_a_data_source_lives_as_in_aws(server: Caller) -> None:
    agent, base = server.agent, server.base()
    made = agent.create_data_source(
        knowledgeBaseId=base,
        name="docs",
        dataSourceConfiguration={
            "type": "S3",
            "s3Configuration": {
                "bucketArn": "arn:aws:s3:::handbook",
                "inclusionPrefixes": ["hr/"],
            },
        },
    )["dataSource"]
    assert (made["status"], made["dataDeletionPolicy"]) == ("AVAILABLE", "DELETE")
    ids = {"knowledgeBaseId": base, "dataSourceId": made["dataSourceId"]}
    assert agent.get_data_source(**ids)["dataSource"] == made
    (summary,) = agent.list_data_sources(knowledgeBaseId=base)["dataSourceSummaries"]
    assert (summary["dataSourceId"], summary["name"]) == (made["dataSourceId"], "docs")

    changed = agent.update_data_source(
        **ids,
        name="papers",
        dataDeletionPolicy="RETAIN",
        dataSourceConfiguration=made["dataSourceConfiguration"],
    )["dataSource"]
    assert agent.get_data_source(**ids)["dataSource"] == changed
    assert (changed["name"], changed["dataDeletionPolicy"]) == ("papers", "RETAIN")
    assert agent.delete_data_source(**ids)["status"] == "DELETING"
    assert refused(agent.get_data_source, **ids)[0] == "ResourceNotFoundException"


def test_chunking_cannot_be_changed(server: Caller) -> None:
    base = server.base()
    fixed = {"maxTokens": 100, "overlapPercentage": 10}
    chunking = {"chunkingStrategy": "FIXED_SIZE", "fixedSizeChunkingConfiguration": fixed}
    ingestion = {"chunkingConfiguration": chunking}
    source = server.source(base, "docs", vectorIngestionConfiguration=ingestion)
    problem, text = refused(
        server.agent.update_data_source,
        knowledgeBaseId=base,
        dataSourceId=source,
        name="docs",
        dataSourceConfiguration=s3_source("docs"),
    )
    assert (problem, "chunkingConfiguration" in text) == ("ValidationException", True)


@pytest.mark.parametrize(
    ("ingestion", "told"),
    [
        (
            {
                "chunkingConfiguration": {
                    "chunkingStrategy": "FIXED_SIZE",
                    "fixedSizeChunkingConfiguration": {"maxTokens": 5, "overlapPercentage": 10},
                }
            },
            "from 20 to 8,192",
        ),
        (
            {
                "chunkingConfiguration": {
                    "chunkingStrategy": "FIXED_SIZE",
                    "fixedSizeChunkingConfiguration": {"maxTokens": 50, "overlapPercentage": 60},
                }
            },
            "at most 50",
        ),
        ({"chunkingConfiguration": {"chunkingStrategy": "HIERARCHICAL"}}, "hierarchical"),
        (
            {
                "contextEnrichmentConfiguration": {
                    "type": "BEDROCK_FOUNDATION_MODEL",
                    "bedrockFoundationModelConfiguration": {
                        "modelArn": "amazon.nova-lite-v1:0",
                        "enrichmentStrategyConfiguration": {"method": "CHUNK_ENTITY_EXTRACTION"},
                    },
                }
            },
            "leave it out",
        ),
    ],
)
def test_what_is_not_done_is_refused(server: Caller, ingestion: Any, told: str) -> None:
    problem, text = refused(
        server.agent.create_data_source,
        knowledgeBaseId=server.base(),
        name="docs",
        dataSourceConfiguration=s3_source("docs"),
        vectorIngestionConfiguration=ingestion,
    )
    assert (problem, told in text) == ("ValidationException", True), text


WEB = {"sourceConfiguration": {"urlConfiguration": {"seedUrls": [{"url": "https://a.test"}]}}}


def test_sources_of_other_types_are_refused(server: Caller) -> None:
    problem, text = refused(
        server.agent.create_data_source,
        knowledgeBaseId=server.base(),
        name="other",
        dataSourceConfiguration={"type": "WEB", "webConfiguration": WEB},
    )
    assert (problem, "WEB" in text) == ("ValidationException", True)


def test_a_source_keeps_its_type(server: Caller) -> None:
    base = server.base()
    source = server.source(base, "handbook")
    problem, text = refused(
        server.agent.update_data_source,
        knowledgeBaseId=base,
        dataSourceId=source,
        name="handbook",
        dataSourceConfiguration={"type": "CUSTOM"},
    )
    assert (problem, "cannot be changed" in text) == ("ValidationException", True)


def test_what_was_made_outlives_the_server(tmp_path: Path) -> None:
    state = tmp_path / "state.sqlite"
    with running(state=state) as server:
        id = server.base()
    with running(state=state) as server:
        assert server.agent.get_knowledge_base(knowledgeBaseId=id)["knowledgeBase"]["name"] == (
            "handbook"
        )


def test_folders_of_agents_are_told_and_searched(tmp_path: Path) -> None:
    agent = tmp_path / "agents" / "house"
    (agent / "docs").mkdir(parents=True)
    (agent / "docs" / "dogs.md").write_text("# Dogs\n\nA dog is welcome on the second floor.\n")
    definition: dict[str, Any] = {
        "agentName": "house",
        "instruction": "Answer questions about the rules of the house.",
        "foundationModel": "anthropic.claude-3-sonnet-20240229-v1:0",
        "knowledgeBases": [
            {
                "knowledgeBaseId": "FOLDERBASE",
                "description": "The rules",
                "folder": "docs",
                "embedder": None,
            }
        ],
    }
    (agent / "agent.yaml").write_text(json.dumps(definition))
    with running(agents=tmp_path / "agents") as server:
        (found,) = server.found("FOLDERBASE", "dog")
        assert "second floor" in found["content"]["text"]
        (agent / "docs" / "cats.md").write_text("# Cats\n\nA cat climbs trees.\n")
        described = [{**definition["knowledgeBases"][0], "description": "All rules"}]
        (agent / "agent.yaml").write_text(json.dumps({**definition, "knowledgeBases": described}))
        for _ in polled():
            told = server.agent.get_knowledge_base(knowledgeBaseId="FOLDERBASE")["knowledgeBase"]
            if told["description"] != "The rules":
                break
        (found,) = server.found("FOLDERBASE", "trees")
        assert "cat climbs" in found["content"]["text"]
        assert (told["status"], told["description"]) == ("ACTIVE", "All rules")
        (summary,) = server.agent.list_knowledge_bases()["knowledgeBaseSummaries"]
        assert summary["knowledgeBaseId"] == "FOLDERBASE"
        assert (
            server.agent.list_data_sources(knowledgeBaseId="FOLDERBASE")["dataSourceSummaries"]
            == []
        )
        problem, text = refused(server.agent.delete_knowledge_base, knowledgeBaseId="FOLDERBASE")
        assert (problem, "on disk" in text) == ("ValidationException", True)


def test_what_is_nowhere_is_not_found(server: Caller, aws: Any, monkeypatch: Any) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    problem, _ = refused(server.found, base="NOTHINGYET", query="dog")
    assert problem == "ResourceNotFoundException"
