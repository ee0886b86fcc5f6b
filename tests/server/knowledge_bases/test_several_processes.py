"""Knowledge bases that several processes of one state serve."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from knowledge_servers import Caller, refused, running, write

from orchestrator.server.knowledge_bases import jobs


@pytest.fixture
def workers(tmp_path: Path, folder: Path) -> Iterator[list[Caller]]:
    """Two servers on one state."""
    options = {"state": tmp_path / "state.sqlite", "buckets": {"handbook": folder}}
    with ExitStack() as stack:
        yield [stack.enter_context(running(**options)) for _ in range(2)]


def test_what_one_brings_in_the_other_finds(workers: list[Caller], folder: Path) -> None:
    one, other = workers
    base = one.base()
    source = other.source(base, "handbook")
    begun = one.agent.start_ingestion_job(knowledgeBaseId=base, dataSourceId=source)
    ids = {"knowledgeBaseId": base, "dataSourceId": source}
    job = other.ended(ids | {"ingestionJobId": begun["ingestionJob"]["ingestionJobId"]})
    assert job["status"] == "COMPLETE"
    assert "28 days" in other.found(base, "days of leave")[0]["content"]["text"]
    write(folder, {"cats.md": "Cats climb trees."})
    assert other.ingested(base, source)["statistics"]["numberOfNewDocumentsIndexed"] == 1
    assert "climb" in one.found(base, "cats climb trees")[0]["content"]["text"]


def test_what_one_deletes_is_gone_for_the_other(
    workers: list[Caller], aws: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    one, other = workers
    base = one.base()
    one.ingested(base, one.source(base, "handbook"))
    assert other.found(base, "dog")
    one.agent.delete_knowledge_base(knowledgeBaseId=base)
    for server in workers:
        assert refused(server.found, base=base, query="dog")[0] == "ResourceNotFoundException"
    assert not list((tmp_path / "knowledge").glob("*.sqlite"))


def test_only_the_last_jobs_are_told(
    workers: list[Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_MOST_KEPT", 2)
    server = workers[0]
    base = server.base()
    source = server.source(base, "handbook")
    done = [server.ingested(base, source)["ingestionJobId"] for _ in range(4)]
    told = server.agent.list_ingestion_jobs(knowledgeBaseId=base, dataSourceId=source)
    kept = [it["ingestionJobId"] for it in told["ingestionJobSummaries"]]
    assert kept == done[:1:-1]
