"""Attack 17: what is in documents and sessions, in logs and errors."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest
from knowledge_servers import refused, running, text

SECRET = "canary-in-a-document-81c4"


def test_what_is_kept_is_in_no_log_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "orchestrator")
    with running() as server:
        base = server.base()
        ids = {"knowledgeBaseId": base, "dataSourceId": server.source(base)}
        key = {"x-amz-bedrock-kb-own": {"type": "STRING", "stringValue": SECRET}}
        broken = text("pdf", "x")
        broken["content"]["custom"]["inlineContent"] = {
            "type": "BYTE",
            "byteContent": {"mimeType": "application/pdf", "data": SECRET.encode()},
        }
        documents = [text("a", SECRET), text("b", SECRET, **key), broken]
        server.agent.ingest_knowledge_base_documents(**ids, documents=documents)
        told = server.settled(base, ids["dataSourceId"])
        assert {id: it["status"] for id, it in told.items()} == {
            "a": "INDEXED",
            "b": "FAILED",
            "pdf": "FAILED",
        }
        session = server.runtime.create_session(sessionMetadata={"user": SECRET})["sessionId"]
        server.runtime.end_session(sessionIdentifier=session)
        step = {
            "sessionIdentifier": session,
            "invocationIdentifier": session,
            "invocationStepTime": datetime.now(UTC),
            "payload": {"contentBlocks": [{"text": SECRET}]},
        }
        _, message = refused(server.runtime.put_invocation_step, **step)
    ours = [it.getMessage() for it in caplog.records if it.name.startswith("orchestrator")]
    assert SECRET not in f"{told} {message} {ours}"
