"""Attack 17: what is in documents and sessions, in logs and errors."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest
from knowledge_servers import refused, running, write

SECRET = "canary-in-a-document-81c4"


def test_what_is_kept_is_in_no_log_and_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "orchestrator")
    reserved = {"metadataAttributes": {"x-amz-bedrock-kb-own": SECRET}}
    files = {"a.md": SECRET, "b.md": SECRET, "b.md.metadata.json": json.dumps(reserved)}
    folder = write(tmp_path / "docs", {**files, "c.pdf": SECRET})
    with running(buckets={"docs": folder}) as server:
        base = server.base()
        told = server.ingested(base, server.source(base, "docs"))
        counted = told["statistics"]
        assert counted["numberOfNewDocumentsIndexed"] == 1
        assert counted["numberOfDocumentsFailed"] == 2
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
