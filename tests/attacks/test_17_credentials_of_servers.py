"""Row 17: no credential and no payload of a request is in the server's log, errors or answers."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from server_requests import (
    API_KEY,
    ID,
    SECRET,
    TOKEN,
    client,
    send,
    send_signed,
    signed,
    write_keys,
)

from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState

PAYLOAD = "canary-of-the-users-payload"


def test_refused_and_taken_requests_leave_no_secret_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "orchestrator")
    caplog.set_level(logging.DEBUG, "uvicorn")
    answers = []
    with (
        ServerState(Settings(port=0, keys=write_keys(tmp_path))) as world,
        serve_in_thread(world) as url,
    ):
        good = signed(url=f"{url}/agents/", body=b'{"maxResults": 5}')
        signature = str(good.headers["Authorization"]).rpartition("=")[2].rstrip("'")
        answers.append(send_signed(good))
        answers.append(send_signed(good, PAYLOAD.encode()))
        answers.append(send_signed(good, Authorization=f"AWS4-HMAC-SHA256 {SECRET}"))
        for who in ((ID, API_KEY), ("AKIDNOBODY", SECRET), (ID, SECRET, TOKEN)):
            answers.append(send_signed(signed(url=f"{url}/agents/", who=who)))
        for scheme in ("Bearer", "Basic", "bearer"):
            answers.append(send(url, headers={"Authorization": f"{scheme} {SECRET}"}))
        path = f"/agents/?token={API_KEY}&X-Amz-Signature={signature}"
        answers.append(send(url, path=path, body=PAYLOAD.encode()))
        with pytest.raises(Exception, match="InvalidSignatureException"):
            client(url, who=(ID, "another-secret-altogether")).list_agents(nextToken=PAYLOAD)
    assert len({answer.status for answer in answers}) > 1
    told = caplog.text + "".join(f"{it.headers}{it.body!r}" for it in answers)
    assert len(caplog.records) > len(answers)
    for secret in (SECRET, API_KEY, TOKEN, PAYLOAD, signature):
        assert secret not in told
