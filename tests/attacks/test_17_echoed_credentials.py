"""Attack 17: an API that sends its caller's credentials back, in whatever part of its answer."""

from __future__ import annotations

from typing import Any

import pytest
from loopback import Sent, Site
from whole_agents import NATIVE, agent, answer

from orchestrator import ActionGroup, OrchestratorError
from orchestrator.actions import HttpExecutor

SECRET = "Zq7-canary-T0ken"
API: dict[str, Any] = {
    "openapi": "3.0.0",
    "info": {"title": "t", "version": "1"},
    "paths": {"/me": {"get": {"operationId": "me", "description": "Me.", "responses": {}}}},
}


@pytest.mark.parametrize("status", [200, 299, 400, 401, 404, 407, 429, 499, 500, 599])
@pytest.mark.parametrize("kind", ["", f"image/{SECRET}", f"text/plain; charset={SECRET}"])
def test_no_part_of_an_answer_tells_them(
    status: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    body = f"seen: {SECRET}".encode() if status % 2 else b""
    sent = Sent(body, status, {"Content-Type": kind, "Retry-After": "60"}, echo=True)
    with Site(sent).running() as site:
        headers = {"Authorization": "Bearer ${env:TOKEN}"}
        executor = HttpExecutor(site.url(), headers=headers, allow_private=["localhost"])
        model = NATIVE.model([NATIVE.calls(("GET::api::me", {})), answer("Done.")])
        asked = agent(model, [ActionGroup("api", api_schema=API, executor=executor)])
        try:
            told = asked.invoke("Who am I?")
            read = f"{told.text} {told.trace} {model.requests[1].messages}"
            assert "toolResult" in read
        except OrchestratorError as error:
            read = repr(error)
            assert f"HTTP {status}" in read
    assert SECRET.lower() not in read.lower()
