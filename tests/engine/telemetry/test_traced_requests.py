"""Spans of requests to MCP servers, and the trace that requests and submitted turns carry."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from forking import forked
from left_out import need_dbos

from orchestrator.engine.telemetry import names

SCRIPT = Path(__file__).with_name("observed_requests.py")
Observe = Callable[[str], Any]


@pytest.fixture(scope="module")
def observe(tmp_path_factory: pytest.TempPathFactory) -> Observe:
    """What a process tells of a case."""

    @cache
    def run(case: str) -> str:
        done = forked(SCRIPT, tmp_path_factory.mktemp("observed"), case)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
        assert "canary" not in done.stdout
        return done.stdout

    return lambda case: json.loads(run(case))


@pytest.mark.parametrize(
    ("case", "transport"),
    [pytest.param("stdio", "pipe", marks=pytest.mark.exhaustive), ("http", "tcp")],
)
def test_a_call_of_a_tool_is_a_span_below_the_action(
    observe: Observe, case: str, transport: str
) -> None:
    pytest.importorskip("mcp")
    found = observe(case)
    own = {span["name"]: span for span in found["spans"] if span["scope"] == names.SCOPE}
    add, fails = own["tools/call add"], own["tools/call fails"]
    assert add["above"] == own["execute_tool demo::add"]["id"]
    assert add["kind"] == "CLIENT" and add["status"] == ["UNSET", None]
    version = add["attributes"].pop("mcp.protocol.version")
    assert version.startswith("20")
    ids = [one["attributes"].pop("jsonrpc.request.id") for one in (add, fails)]
    assert all(map(str.isdigit, ids)) and int(ids[0]) < int(ids[1])
    assert add["attributes"] == {
        "mcp.method.name": "tools/call",
        "network.transport": transport,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
    }
    # Neither the message nor the SDK's own spans of what we ask.
    assert (fails["status"], fails["events"]) == (["ERROR", None], [])
    assert fails["attributes"]["error.type"] == "tool_error"
    assert not [span for span in found["spans"] if span["name"].startswith("MCP send")]


@pytest.mark.exhaustive
def test_requests_of_a_session_have_its_id(observe: Observe) -> None:
    pytest.importorskip("mcp")
    found = observe("http sessions")
    own = [it["attributes"] for it in found["spans"] if it["scope"] == names.SCOPE]
    (session,) = found["sessions"]
    ids = [it["mcp.session.id"] for it in own if "mcp.method.name" in it]
    assert len(ids) >= 3 and set(ids) == {session}


def test_a_server_over_http_is_in_the_trace_of_the_turn(observe: Observe) -> None:
    pytest.importorskip("mcp")
    found = observe("http")
    (mine,) = [one for one in found["spans"] if one["name"] == "invoke_agent boss"]
    calls = [one for one in found["spans"] if one["name"] == "tools/call add"]
    client, server = sorted(calls, key=lambda one: str(one["kind"]))
    assert (client["trace"], server["trace"]) == (mine["trace"], mine["trace"])
    assert server["above"] == client["id"]  # by the request's `_meta`
    assert f"{mine['trace']}-{client['id']}" in [one[3:-3] for one in found["headers"]]


@pytest.mark.exhaustive
def test_a_submitted_turn_is_in_the_trace_of_whoever_submitted_it(observe: Observe) -> None:
    need_dbos()
    found = observe("submitted")
    spans = {span["name"]: span for span in found["spans"]}
    caller, turn = spans["caller"], spans["invoke_agent boss"]
    assert (turn["trace"], turn["above"]) == (caller["trace"], caller["id"])
