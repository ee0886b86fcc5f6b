"""Attack 12: knowledge bases and sessions that another tenant has."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from knowledge_servers import (
    ROLE,
    VECTORS,
    Caller,
    refused,
    running,
    s3_source,
    tenant,
    two_tenants,
    write,
)

from orchestrator.errors import AccessDenied
from orchestrator.server.operations import Caller as Tenant


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Caller]:
    folder = write(tmp_path / "docs", {"a.md": "A secret dog."})
    options = {"state": tmp_path / "state.sqlite", "buckets": {"docs": folder}}
    with running(**options, keys=two_tenants(tmp_path)) as caller:
        yield caller


def test_anothers_knowledge_base_is_not_there(server: Caller, aws: Any, monkeypatch: Any) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    mine, theirs = tenant(server, "A"), tenant(server, "B")
    base = mine.base()
    ids = {"knowledgeBaseId": base, "dataSourceId": mine.source(base, "docs")}
    mine.ingested(base, ids["dataSourceId"])
    job = {**ids, "ingestionJobId": "ABCDEFGHIJ"}
    named = {"name": "x", "roleArn": ROLE, "knowledgeBaseConfiguration": VECTORS}
    own = {"name": "x", "dataSourceConfiguration": s3_source("docs")}
    for call, params in (
        ("get_knowledge_base", {"knowledgeBaseId": base}),
        ("update_knowledge_base", {"knowledgeBaseId": base, **named}),
        ("delete_knowledge_base", {"knowledgeBaseId": base}),
        ("list_data_sources", {"knowledgeBaseId": base}),
        ("create_data_source", {"knowledgeBaseId": base, **own}),
        ("get_data_source", ids),
        ("update_data_source", ids | own),
        ("delete_data_source", ids),
        ("start_ingestion_job", ids),
        ("list_ingestion_jobs", ids),
        ("get_ingestion_job", job),
        ("stop_ingestion_job", job),
        ("list_tags_for_resource", {"resourceArn": _arn(f"knowledge-base/{base}")}),
    ):
        assert refused(getattr(theirs.agent, call), **params)[0] == "ResourceNotFoundException", (
            call
        )
    assert refused(theirs.found, base=base, query="dog")[0] == "ResourceNotFoundException"
    assert theirs.agent.list_knowledge_bases()["knowledgeBaseSummaries"] == []
    assert len(mine.found(base, "dog")) == 1
    theirs.base()  # the name is free for them


def _arn(rest: str) -> str:
    return f"arn:aws:bedrock:us-east-1:000000000000:{rest}"


def test_anothers_session_is_not_there(server: Caller) -> None:
    mine, theirs = tenant(server, "A").runtime, tenant(server, "B").runtime
    session = mine.create_session(sessionMetadata={"user": "ana"})["sessionId"]
    invocation = mine.create_invocation(sessionIdentifier=session)["invocationId"]
    step = {
        "sessionIdentifier": session,
        "invocationIdentifier": invocation,
        "invocationStepTime": datetime.now(UTC),
        "payload": {"contentBlocks": [{"text": "secret"}]},
    }
    id = mine.put_invocation_step(**step)["invocationStepId"]
    known = {"sessionIdentifier": session, "invocationIdentifier": invocation}
    for call, params in (
        ("get_session", {"sessionIdentifier": session}),
        ("update_session", {"sessionIdentifier": session}),
        ("end_session", {"sessionIdentifier": session}),
        ("delete_session", {"sessionIdentifier": session}),
        ("create_invocation", {"sessionIdentifier": session}),
        ("list_invocations", {"sessionIdentifier": session}),
        ("put_invocation_step", step),
        ("get_invocation_step", {**known, "invocationStepId": id}),
        ("list_invocation_steps", {"sessionIdentifier": session}),
        ("list_tags_for_resource", {"resourceArn": _arn(f"session/{session}")}),
        ("tag_resource", {"resourceArn": _arn(f"session/{session}"), "tags": {"a": "b"}}),
    ):
        assert refused(getattr(theirs, call), **params)[0] == "ResourceNotFoundException", call
    assert theirs.list_sessions()["sessionSummaries"] == []
    assert mine.get_session(sessionIdentifier=session)["sessionStatus"] == "ACTIVE"


def test_a_tenants_page_token_shows_nobody_elses_list(server: Caller) -> None:
    mine, theirs = tenant(server, "A"), tenant(server, "B")
    for name in ("one", "two"):
        mine.base(name)
    token = mine.agent.list_knowledge_bases(maxResults=1)["nextToken"]
    problem, _ = refused(theirs.agent.list_knowledge_bases, nextToken=token)
    assert problem == "ValidationException"


def test_only_what_a_key_is_allowed_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "bucket"
    (folder / "open").mkdir(parents=True)
    (folder / "open" / "page.md").write_text("An open page.")
    (folder / "closed.md").write_text("A closed page.")
    keys = two_tenants(tmp_path, allow="s3://docs/open/*")
    with running(buckets={"docs": folder}, keys=keys) as server:
        caller = tenant(server, "A")
        base = caller.base()
        for prefix in ("", "clo", "open"):
            problem, _ = refused(caller.source, base=base, bucket="docs", prefix=prefix)
            assert problem == "AccessDeniedException"
        source = caller.source(base, "docs", "open/")
        assert caller.ingested(base, source)["statistics"]["numberOfNewDocumentsIndexed"] == 1
        # A prefix that only looks as if it were allowed leads to no object.
        own = caller.source(base, "docs", "open/../closed", name="own")
        assert caller.ingested(base, own)["statistics"]["numberOfDocumentsScanned"] == 0
        assert len(caller.found(base, "closed page")) == 1


def test_an_object_that_is_not_allowed_is_not_read_with_others(tmp_path: Path) -> None:
    folder = tmp_path / "bucket"
    (folder / "open").mkdir(parents=True)
    (folder / "open" / "page.md").write_text("A page.")
    keys = two_tenants(tmp_path, allow="s3://docs/open/")  # the listing, and none of the objects
    with running(buckets={"docs": folder}, keys=keys) as server:
        caller = tenant(server, "A")
        base = caller.base()
        job = caller.ingested(base, caller.source(base, "docs", "open/"))
        assert job["statistics"]["numberOfDocumentsFailed"] == 1
        assert caller.found(base, "page") == []


def test_a_reranking_model_that_is_not_allowed_is_not_asked(tmp_path: Path) -> None:
    folder, keys = (
        write(tmp_path / "docs", {"a.md": "A dog."}),
        two_tenants(tmp_path, "s3://docs/*"),
    )
    with running(keys=keys, buckets={"docs": folder}) as server:
        caller = tenant(server, "A")
        base = caller.base()
        caller.ingested(base, caller.source(base, "docs"))
        model = "arn:aws:bedrock:us-east-1::foundation-model/amazon.rerank-v1:0"
        reranking = {
            "type": "BEDROCK_RERANKING_MODEL",
            "bedrockRerankingConfiguration": {"modelConfiguration": {"modelArn": model}},
        }
        problem, _ = refused(caller.found, base=base, query="dog", rerankingConfiguration=reranking)
        assert problem == "AccessDeniedException"
        # Nor by an agent, whose searches do not pass Retrieve.
        searched = server.world.bases.base(Tenant("tenant-A", ("s3://docs/*",)), base)
        with pytest.raises(AccessDenied, match="may not use"):
            searched.retrieve(
                "dog", {"vectorSearchConfiguration": {"rerankingConfiguration": reranking}}
            )
