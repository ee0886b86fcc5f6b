"""Turns whose spans stay in memory; a script, since a process has one provider.

`python observed_requests.py FOLDER CASE` prints the spans as JSON, and the `traceparent`s that came
to the server: of calls to an MCP server (`http`, `http sessions`, `stdio`), or of a submitted turn
(`submitted`).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from mcp_servers import http_server, stdio_server
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from whole_agents import CLAUDE_35

from orchestrator import ActionGroup, Agent
from orchestrator.actions import MCPServer
from orchestrator.testing import ScriptedModel

ANSWER = "<answer>Done.</answer>"


def use(name: str, **values: Any) -> list[Any]:
    return [{"toolUse": {"toolUseId": f"t-{name}", "name": f"demo__{name}", "input": values}}]


def ask(server: MCPServer) -> None:
    """A call, and one that the tool itself has failed."""
    replies = [use("add", a=1, b=2), use("fails", why="canary-5f1c"), ANSWER]
    with server:
        group = ActionGroup("demo", executor=server)
        agent = Agent(
            "boss", "You add numbers.", ScriptedModel(replies, CLAUDE_35), action_groups=[group]
        )
        agent.invoke("1 + 2?")


def submit() -> None:
    from orchestrator.agent.durable import DurableRuns, Worker

    model = ScriptedModel([ANSWER], CLAUDE_35)
    agent = Agent("boss", "You add numbers.", model, sessions="sessions.sqlite")
    with DurableRuns("sqlite:///runs.sqlite") as runs:
        with trace.get_tracer("caller").start_as_current_span("caller"):
            submission = agent.submit("1 + 2?", runs=runs)
        with Worker("sqlite:///runs.sqlite", [agent]):
            submission.result(60)


class Chdir:
    """What `http_server` needs of pytest's `monkeypatch`."""

    def chdir(self, folder: Path) -> None:
        os.chdir(folder)


def main(folder: str, case: str) -> None:
    exporter, provider, came = InMemorySpanExporter(), TracerProvider(), []
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    os.chdir(folder)
    if case == "submitted":
        submit()
    elif case == "stdio":
        ask(stdio_server(Path(folder)))
    else:
        has_sessions = case == "http sessions"
        with http_server(Path(folder), Chdir(), has_sessions=has_sessions) as (url, came):
            ask(MCPServer(url=url, allow_private=["127.0.0.1"]))
    spans = [describe(span) for span in exporter.get_finished_spans()]
    headers = [one["traceparent"] for one in came if "traceparent" in one]
    sessions = {one["mcp-session-id"] for one in came if "mcp-session-id" in one}
    print(json.dumps({"spans": spans, "headers": headers, "sessions": [*sessions]}))


def describe(span: Any) -> dict[str, Any]:
    return {
        "name": span.name,
        "scope": span.instrumentation_scope.name,
        "id": f"{span.context.span_id:016x}",
        "trace": f"{span.context.trace_id:032x}",
        "above": f"{span.parent.span_id:016x}" if span.parent else "",
        "kind": span.kind.name,
        "attributes": dict(span.attributes),
        "status": [span.status.status_code.name, span.status.description],
        "events": [event.name for event in span.events],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
