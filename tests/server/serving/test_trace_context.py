"""The trace that a caller's request belongs to goes on to the models that a turn asks."""

from __future__ import annotations

from pathlib import Path

import opentelemetry.trace  # noqa: F401  (where nobody has imported it, no header is looked at)
import pytest
from server_requests import send
from serving_support import AGENT_ID, ALIAS_ID, WaitingModel, write_agent

from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState

TRACE = "0af7651916cd43dd8448eb211c80319c"
PATH = f"/agents/{AGENT_ID}/agentAliases/{ALIAS_ID}/sessions/s-1/text"


@pytest.mark.parametrize("header", [f"00-{TRACE}-b7ad6b7169203331-01", "00-canary", "", "x" * 5000])
def test_a_trace_goes_on_and_nothing_else_of_a_caller(
    model: WaitingModel, tmp_path: Path, header: str
) -> None:
    model.go.set()
    settings = Settings(port=0, agents=write_agent(tmp_path), model=model.spec)
    given = {"traceparent": header, "tracestate": "canary=1", "baggage": "canary=2"}
    with ServerState(settings) as state, serve_in_thread(state) as url:
        assert send(url, "POST", PATH, b'{"inputText": "Hello"}', given).status == 200
    headers = {name.lower(): it for name, it in model.loopback.asked[-1].headers.items()}
    assert headers.get("traceparent") == (header if TRACE in header else None)
    assert "canary" not in str(headers)
