"""Attack 16: knowledge bases, jobs and documents that are made to cost too much."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from knowledge_servers import Caller, Gate, refused, running, s3_source, write

from orchestrator.server.knowledge_bases import sync


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


def test_a_large_object_fails_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "MOST_BYTES", 1000)
    folder = write(tmp_path / "bucket", {"large.md": "word " * 300, "small.md": "A dog."})
    with running(buckets={"docs": folder}) as server:
        base = server.base()
        job = server.ingested(base, server.source(base, "docs"))
        assert job["statistics"]["numberOfDocumentsFailed"] == 1
        assert "more than 1,000 bytes" in job["failureReasons"][0]
        assert len(server.found(base, "word dog")) == 1


def test_a_bucket_with_too_many_objects_fails_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "_MOST_OBJECTS", 3)
    folder = write(tmp_path / "bucket", {f"{number}.md": "A dog." for number in range(5)})
    with running(buckets={"docs": folder}) as server:
        base = server.base()
        job = server.ingested(base, server.source(base, "docs"))
        assert (job["status"], "inclusionPrefix" in job["failureReasons"][0]) == ("FAILED", True)


def test_only_so_many_jobs_run_at_once(tmp_path: Path, gate: Gate) -> None:
    folder = write(tmp_path / "bucket", {"a.md": "A dog."})
    with running(gate, buckets={"docs": folder}, shutdown_seconds=1) as server:
        problems = []
        for number in range(6):
            base = server.base(f"base-{number}")
            ids = {"knowledgeBaseId": base, "dataSourceId": server.source(base, "docs")}
            if number < 5:
                server.agent.start_ingestion_job(**ids)
            else:
                problems.append(refused(server.agent.start_ingestion_job, **ids)[0])
        assert problems == ["ServiceQuotaExceededException"]
        gate.open.set()


def test_a_knowledge_base_has_only_so_many_sources(server: Caller) -> None:
    base = server.base()
    for number in range(5):
        server.agent.create_data_source(
            knowledgeBaseId=base,
            name=f"source-{number}",
            dataSourceConfiguration=s3_source("docs", f"{number}/"),
        )
    problem, _ = refused(server.source, base=base, bucket="docs")
    assert problem == "ServiceQuotaExceededException"


@pytest.fixture
def server() -> Iterator[Caller]:
    with running() as caller:
        yield caller
