"""Ingestion jobs: what of a bucket comes into a knowledge base, and what is told of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from knowledge_servers import Caller, Gate, refused, running, write

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.knowledge import Chunking
from orchestrator.server.knowledge_bases.chunking import build_chunker
from orchestrator.server.operations import Caller as Tenant
from orchestrator.support.process_locks import ProcessLocks

SOURCE_ID = "x-amz-bedrock-kb-data-source-id"
LEAVE, DOGS, VPN = (f"s3://handbook/{it}" for it in ("hr/leave.md", "hr/dogs.md", "it/vpn.txt"))


def uris(references: list[dict[str, Any]]) -> list[str]:
    return [it["location"]["s3Location"]["uri"] for it in references]


def counts(job: dict[str, Any]) -> dict[str, int]:
    told = job["statistics"]
    short = {name.removeprefix("numberOf"): it for name, it in told.items()}
    return {name: it for name, it in short.items() if it}


def test_a_bucket_is_found_by_what_it_says(server: Caller) -> None:
    base = server.base()
    job = server.ingested(base, source := server.source(base, "handbook"))
    assert (job["status"], job.get("failureReasons")) == ("COMPLETE", None)
    assert counts(job) == {
        "DocumentsScanned": 3,
        "MetadataDocumentsScanned": 1,
        "NewDocumentsIndexed": 3,
    }
    assert job["startedAt"] <= job["textReadyAt"] <= job["updatedAt"]
    first = server.found(base, "days of leave a year")[0]
    assert first["content"] == {
        "text": "Leave\n\nEverybody has 28 days of leave a year.",
        "type": "TEXT",
    }
    assert first["location"] == {"type": "S3", "s3Location": {"uri": LEAVE}}
    metadata = first["metadata"]
    assert metadata.pop("x-amz-bedrock-kb-chunk-id")
    assert metadata == {
        "topic": "time",
        "year": 2026,
        "x-amz-bedrock-kb-source-uri": LEAVE,
        "x-amz-bedrock-kb-data-source-id": source,
    }


def test_filters_see_metadata_and_what_is_built_in(server: Caller) -> None:
    base = server.base()
    source = server.source(base, "handbook")
    server.ingested(base, source)

    def found(key: str, value: Any) -> list[str]:
        return uris(
            server.found(base, "dog leave", filter={"equals": {"key": key, "value": value}})
        )

    assert found("year", 2026) == [LEAVE]
    assert found("x-amz-bedrock-kb-source-uri", DOGS) == [DOGS]
    assert len(found("x-amz-bedrock-kb-data-source-id", source)) == 3
    assert found("x-amz-bedrock-kb-data-source-id", "OTHERSRC01") == []


def test_a_prefix_chooses_what_is_read(server: Caller) -> None:
    base = server.base()
    job = server.ingested(base, server.source(base, "handbook", "hr/"))
    assert counts(job)["DocumentsScanned"] == 2
    assert set(uris(server.found(base, "certificate"))) == {LEAVE, DOGS}


def test_only_what_changed_is_ingested_again(server: Caller, folder: Path) -> None:
    base = server.base()
    source = server.source(base, "handbook")
    server.ingested(base, source)
    assert counts(server.ingested(base, source)) == {
        "DocumentsScanned": 3,
        "MetadataDocumentsScanned": 1,
    }
    write(
        folder,
        {
            "hr/dogs.md": "# Dogs\n\nNo dog is welcome.\n",
            "hr/leave.md.metadata.json": '{"metadataAttributes": {"topic": "rest"}}',
            "hr/new.md": "# Canteen\n\nLunch costs five euros.\n",
        },
    )
    (folder / "it" / "vpn.txt").unlink()
    assert counts(server.ingested(base, source)) == {
        "DocumentsScanned": 3,
        "MetadataDocumentsScanned": 1,
        "NewDocumentsIndexed": 1,
        "ModifiedDocumentsIndexed": 1,
        "MetadataDocumentsModified": 1,
        "DocumentsDeleted": 1,
    }
    assert VPN not in uris(server.found(base, "VPN-809 certificate"))
    assert "No dog" in server.found(base, "dog is welcome")[0]["content"]["text"]
    found = server.found(base, "leave", filter={"equals": {"key": "topic", "value": "rest"}})
    assert uris(found) == [LEAVE]


def test_what_cannot_be_read_fails_alone(server: Caller, folder: Path) -> None:
    write(
        folder,
        {
            "broken.pdf": b"%PDF-1.4 nothing",
            "hr/dogs.md.metadata.json": '{"metadataAttributes": {"x-amz-bedrock-kb-x": 1}}',
            "picture.png": b"\x89PNG",
        },
    )
    base = server.base()
    source = server.source(base, "handbook")
    job = server.ingested(base, source)
    assert job["status"] == "COMPLETE"
    assert counts(job) == {
        "DocumentsScanned": 5,
        "MetadataDocumentsScanned": 2,
        "NewDocumentsIndexed": 2,
        "DocumentsFailed": 2,
        "DocumentsSkipped": 1,
    }
    reasons = "\n".join(job["failureReasons"])
    assert "s3://handbook/broken.pdf: " in reasons
    assert f"{DOGS}: " in reasons
    assert "s3://handbook/picture.png" in reasons
    assert set(uris(server.found(base, "leave dog VPN", numberOfResults=50))) == {LEAVE, VPN}
    (folder / "hr/dogs.md.metadata.json").unlink()
    assert counts(server.ingested(base, source))["NewDocumentsIndexed"] == 1
    assert DOGS in uris(server.found(base, "leave dog VPN", numberOfResults=50))


def test_a_failed_document_keeps_what_was_found_before(server: Caller, folder: Path) -> None:
    base = server.base()
    source = server.source(base, "handbook")
    server.ingested(base, source)
    write(folder, {"hr/dogs.md": b"# Dogs\0"})
    assert counts(server.ingested(base, source))["DocumentsFailed"] == 1
    assert DOGS in uris(server.found(base, "dog"))


def test_a_bucket_that_is_not_there_fails_the_job(tmp_path: Path) -> None:
    gone = write(tmp_path / "gone", {"a.md": "A"})
    with running(buckets={"gone": gone}) as server:
        base = server.base()
        source = server.source(base, "gone")
        shutil.rmtree(gone)
        job = server.ingested(base, source)
        assert job["status"] == "FAILED"
        assert "gone" in job["failureReasons"][0]


@pytest.mark.parametrize(
    ("chunking", "passages"),
    [
        ({"chunkingStrategy": "NONE"}, 1),
        (
            {
                "chunkingStrategy": "FIXED_SIZE",
                "fixedSizeChunkingConfiguration": {"maxTokens": 30, "overlapPercentage": 10},
            },
            8,
        ),
        (
            {
                "chunkingStrategy": "HIERARCHICAL",
                "hierarchicalChunkingConfiguration": {
                    "levelConfigurations": [{"maxTokens": 100}, {"maxTokens": 30}],
                    "overlapTokens": 3,
                },
            },
            8,
        ),
        (
            {
                "chunkingStrategy": "SEMANTIC",
                "semanticChunkingConfiguration": {
                    "maxTokens": 60,
                    "bufferSize": 0,
                    "breakpointPercentileThreshold": 90,
                },
            },
            4,
        ),
    ],
)
def test_documents_are_cut_as_asked(tmp_path: Path, chunking: Any, passages: int) -> None:
    sentences = " ".join(
        f"Number {number} of the rules says that dogs sleep." for number in range(20)
    )
    folder = write(tmp_path / "bucket", {"long.md": f"# One\n\n{sentences}\n\n# Two\n\nA cat.\n"})
    with running(buckets={"long": folder}) as server:
        base = server.base()
        source = server.source(
            base, "long", vectorIngestionConfiguration={"chunkingConfiguration": chunking}
        )
        assert server.ingested(base, source)["status"] == "COMPLETE"
        found = [it["content"]["text"] for it in server.found(base, "dogs", numberOfResults=50)]
    if passages == 1:
        assert found == [f"One\n\n{sentences}\n\nTwo\n\nA cat."]
    else:
        assert len(found) >= passages
        assert max(len(it.split()) for it in found) <= 60


def test_levels_overlap_as_asked() -> None:
    levels = [{"maxTokens": 300}, {"maxTokens": 60}]
    hierarchical = {"levelConfigurations": levels, "overlapTokens": 12}
    chunking = {
        "chunkingStrategy": "HIERARCHICAL",
        "hierarchicalChunkingConfiguration": hierarchical,
    }
    assert build_chunker({"chunkingConfiguration": chunking}).chunking == Chunking(60, 20)
    levels.reverse()
    with pytest.raises(ValidationError, match="larger than the first's"):
        build_chunker({"chunkingConfiguration": chunking})
    assert build_chunker(None).chunking == Chunking()


def test_a_whole_document_that_is_too_long_fails(tmp_path: Path) -> None:
    folder = write(tmp_path / "bucket", {"long.txt": "word " * 9000})
    with running(buckets={"long": folder}) as server:
        base = server.base()
        none = {"chunkingConfiguration": {"chunkingStrategy": "NONE"}}
        job = server.ingested(base, server.source(base, "long", vectorIngestionConfiguration=none))
        assert counts(job)["DocumentsFailed"] == 1
        assert "8,192 tokens" in job["failureReasons"][0]


def test_without_a_model_documents_are_found_by_their_words(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCHESTRATOR_MODELS", str(tmp_path / "nothing"))
    with running("local", buckets={"handbook": folder}) as server:
        base = server.base()
        job = server.ingested(base, server.source(base, "handbook"))
        assert job["status"] == "COMPLETE"
        assert "by their words only" in job["failureReasons"][0]
        assert uris(server.found(base, "certificate")) == [VPN]
        problem, text = refused(
            server.found, base=base, query="certificate", overrideSearchType="SEMANTIC"
        )
        assert problem == "ValidationException"
        assert "leave overrideSearchType out" in text and "orchestrator models pull" in text


def test_a_parsing_configuration_is_kept_and_said_to_do_nothing(server: Caller) -> None:
    base = server.base()
    parsing = {"parsingConfiguration": {"parsingStrategy": "BEDROCK_DATA_AUTOMATION"}}
    source = server.source(base, "handbook", vectorIngestionConfiguration=parsing)
    job = server.ingested(base, source)
    assert (job["status"], len(job["failureReasons"])) == ("COMPLETE", 1)
    assert "parsingConfiguration" in job["failureReasons"][0]


def test_retained_documents_outlive_their_source(server: Caller) -> None:
    base = server.base()
    kept = server.source(base, "handbook", "hr/", dataDeletionPolicy="RETAIN")
    gone = server.source(base, "handbook", name="gone")
    for source in (kept, gone):
        server.ingested(base, source)
    assert len(server.found(base, "dog", numberOfResults=50)) > 1
    for source in (kept, gone):
        server.agent.delete_data_source(knowledgeBaseId=base, dataSourceId=source)
    left = {it["metadata"][SOURCE_ID] for it in server.found(base, "dog", numberOfResults=50)}
    assert left == {kept}


@pytest.mark.parametrize("policy", ["RETAIN", "DELETE"])
def test_an_index_outlives_its_knowledge_base_only_if_asked(
    tmp_path: Path, folder: Path, policy: str
) -> None:
    with running(state=tmp_path / "state.sqlite", buckets={"handbook": folder}) as server:
        base = server.base()
        server.ingested(base, server.source(base, "handbook", dataDeletionPolicy=policy))
        server.agent.delete_knowledge_base(knowledgeBaseId=base)
    left = [it.suffix for it in (tmp_path / "knowledge").iterdir()]
    assert left == ([".sqlite"] if policy == "RETAIN" else [])


def test_documents_of_a_deleted_knowledge_base_are_found_by_nobody(server: Caller) -> None:
    base = server.base()
    server.ingested(base, server.source(base, "handbook"))
    searched = server.world.bases.base(Tenant(), base)
    assert searched.retrieve("dog")
    server.agent.delete_knowledge_base(knowledgeBaseId=base)
    with pytest.raises(ResourceNotFound):
        searched.retrieve("dog")


# -- running, stopping, ending -------------------------------------------------------------------


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


@pytest.fixture
def gated(gate: Gate, tmp_path: Path, folder: Path) -> Iterator[Caller]:
    """A server whose jobs wait at a gate, with the passages read and not yet embedded."""
    with running(
        gate, state=tmp_path / "state.sqlite", buckets={"handbook": folder}, shutdown_seconds=1
    ) as caller:
        yield caller
        gate.open.set()


def begun(server: Caller, gate: Gate) -> dict[str, str]:
    base = server.base()
    ids = {"knowledgeBaseId": base, "dataSourceId": server.source(base, "handbook")}
    job = server.agent.start_ingestion_job(**ids)["ingestionJob"]
    assert job["status"] == "STARTING"
    assert gate.entered.wait(60)
    return ids | {"ingestionJobId": job["ingestionJobId"]}


def test_one_job_runs_at_a_time(gated: Caller, gate: Gate) -> None:
    ids = begun(gated, gate)
    base = ids["knowledgeBaseId"]
    told = gated.agent.get_ingestion_job(**ids)["ingestionJob"]
    assert told["status"] == "IN_PROGRESS"
    assert told["statistics"]["numberOfNewDocumentsIndexed"] == 3
    source = {name: ids[name] for name in ("knowledgeBaseId", "dataSourceId")}
    for call, params in (
        (gated.agent.start_ingestion_job, source),
        (gated.agent.delete_data_source, source),
        (gated.agent.delete_knowledge_base, {"knowledgeBaseId": base}),
    ):
        problem, text = refused(call, **params)
        assert (problem, ids["ingestionJobId"] in text) == ("ConflictException", True)
    gate.open.set()
    assert gated.ended(ids)["status"] == "COMPLETE"
    gated.agent.delete_knowledge_base(knowledgeBaseId=base)


def test_a_job_is_stopped(gated: Caller, gate: Gate) -> None:
    ids = begun(gated, gate)
    assert gated.agent.stop_ingestion_job(**ids)["ingestionJob"]["status"] == "STOPPING"
    gate.open.set()
    assert gated.ended(ids)["status"] == "STOPPED"
    assert refused(gated.agent.stop_ingestion_job, **ids)[0] == "ConflictException"
    again = gated.ingested(ids["knowledgeBaseId"], ids["dataSourceId"])
    assert (again["status"], again["statistics"]["numberOfNewDocumentsIndexed"]) == ("COMPLETE", 0)
    assert uris(gated.found(ids["knowledgeBaseId"], "dog is welcome"))[0] == DOGS


def test_a_client_token_starts_one_job(server: Caller) -> None:
    base = server.base()
    ids = {"knowledgeBaseId": base, "dataSourceId": server.source(base, "handbook")}
    token = str(uuid4())
    first, second = (
        server.agent.start_ingestion_job(**ids, clientToken=token)["ingestionJob"] for _ in "12"
    )
    assert first == second
    server.ended(ids | {"ingestionJobId": first["ingestionJobId"]})
    assert len(server.agent.list_ingestion_jobs(**ids)["ingestionJobSummaries"]) == 1


def test_jobs_are_listed_sorted_and_filtered(server: Caller) -> None:
    base = server.base()
    source = server.source(base, "handbook")
    done = [server.ingested(base, source)["ingestionJobId"] for _ in range(3)]
    ids = {"knowledgeBaseId": base, "dataSourceId": source}

    def listed(**params: Any) -> list[str]:
        pages = server.agent.get_paginator("list_ingestion_jobs").paginate(
            **ids, **params, PaginationConfig={"PageSize": 2}
        )
        return [it["ingestionJobId"] for page in pages for it in page["ingestionJobSummaries"]]

    assert listed() == done[::-1]
    assert listed(sortBy={"attribute": "STARTED_AT", "order": "ASCENDING"}) == done
    status = {"attribute": "STATUS", "operator": "EQ"}
    assert listed(filters=[{**status, "values": ["FAILED"]}]) == []
    assert set(listed(filters=[{**status, "values": ["COMPLETE", "FAILED"]}])) == set(done)


def test_a_server_that_stops_ends_its_jobs(tmp_path: Path, folder: Path) -> None:
    gate = Gate()
    options = {"state": tmp_path / "state.sqlite", "buckets": {"handbook": folder}}
    with running(gate, **options) as server:
        ids = begun(server, gate)
        server.world.bases.closing.set()
        gate.open.set()
    with running(**options) as server:
        job = server.agent.get_ingestion_job(**ids)["ingestionJob"]
        assert (job["status"], "stopped" in job["failureReasons"][0]) == ("FAILED", True)


CHILD = """
import sys, threading
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from knowledge_servers import running, Gate
gate = Gate()
with running(gate, state=Path(sys.argv[2]), buckets={"handbook": Path(sys.argv[3])}) as server:
    base = server.base()
    source = server.source(base, "handbook")
    ids = dict(knowledgeBaseId=base, dataSourceId=source)
    job = server.agent.start_ingestion_job(**ids)["ingestionJob"]["ingestionJobId"]
    gate.entered.wait()
    print(base, source, job, flush=True)
    sys.stdin.read()
"""


def test_the_job_of_a_killed_process_has_failed(tmp_path: Path, folder: Path) -> None:
    state = tmp_path / "state.sqlite"
    here = str(Path(__file__).parents[2])
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, here, str(state), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        base, source, job = child.stdout.readline().split()
        ids = {"knowledgeBaseId": base, "dataSourceId": source, "ingestionJobId": job}
        with running(state=state, buckets={"handbook": folder}) as server:
            told = server.agent.get_ingestion_job(**ids)["ingestionJob"]
            assert told["status"] == "IN_PROGRESS"
            begin = {"knowledgeBaseId": base, "dataSourceId": source}
            assert refused(server.agent.start_ingestion_job, **begin)[0] == "ConflictException"
            child.kill()
            child.wait()
            told = server.agent.get_ingestion_job(**ids)["ingestionJob"]
            assert (told["status"], len(told["failureReasons"])) == ("FAILED", 1)
            assert server.ingested(base, source)["status"] == "COMPLETE"
    finally:
        child.kill()
        child.communicate()


def test_two_processes_of_one_state_know_who_lives(tmp_path: Path) -> None:
    first, second = ProcessLocks(tmp_path), ProcessLocks(tmp_path)
    assert first.is_alive(second.me) and second.is_alive(first.me)
    first.close()
    assert not second.is_alive(first.me)
    assert second.is_alive(second.me)
    assert not second.is_alive("../state")
    second.close()
    assert list(tmp_path.iterdir()) == []


# -- Amazon S3 -----------------------------------------------------------------------------------


def test_objects_of_s3_are_ingested_as_they_change(s3: Any) -> None:
    s3.create_bucket(
        Bucket="papers", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )

    def put(key: str, content: str) -> None:
        s3.put_object(Bucket="papers", Key=key, Body=content.encode())

    put("hr/leave.md", "# Leave\n\nEverybody has 28 days of leave a year.\n")
    put("hr/leave.md.metadata.json", '{"metadataAttributes": {"topic": "time"}}')
    put("hr/../../etc/dogs.md", "A dog is welcome.")
    put("other/vpn.txt", "Renew the certificate.")
    with running() as server:
        base = server.base()
        source = server.source(base, "papers", "hr/")
        assert counts(server.ingested(base, source)) == {
            "DocumentsScanned": 2,
            "MetadataDocumentsScanned": 1,
            "NewDocumentsIndexed": 2,
        }
        assert uris(server.found(base, "leave days"))[0] == "s3://papers/hr/leave.md"
        assert uris(server.found(base, "dog welcome"))[0] == "s3://papers/hr/../../etc/dogs.md"
        assert "NewDocumentsIndexed" not in counts(server.ingested(base, source))
        put("hr/leave.md", "# Leave\n\nEverybody has 30 days of leave a year.\n")
        s3.delete_object(Bucket="papers", Key="hr/../../etc/dogs.md")
        assert counts(server.ingested(base, source)) == {
            "DocumentsScanned": 1,
            "MetadataDocumentsScanned": 1,
            "ModifiedDocumentsIndexed": 1,
            "DocumentsDeleted": 1,
        }
        (only,) = server.found(base, "leave days")
        assert "30 days" in only["content"]["text"]


@pytest.mark.exhaustive
def test_more_objects_than_a_page_of_s3_are_ingested(s3: Any) -> None:
    s3.create_bucket(
        Bucket="papers", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    for number in range(1010):
        s3.put_object(Bucket="papers", Key=f"{number}.bin", Body=b"x")
    s3.put_object(Bucket="papers", Key="a-last.md", Body=b"A dog.")
    with running() as server:
        base = server.base()
        job = server.ingested(base, server.source(base, "papers"))
        assert counts(job) == {
            "DocumentsScanned": 1011,
            "DocumentsSkipped": 1010,
            "NewDocumentsIndexed": 1,
        }


def test_a_bucket_of_s3_that_is_not_there_fails_the_job(s3: Any) -> None:
    with running() as server:
        base = server.base()
        job = server.ingested(base, server.source(base, "nothing-here"))
        assert (job["status"], "nothing-here" in job["failureReasons"][0]) == ("FAILED", True)
