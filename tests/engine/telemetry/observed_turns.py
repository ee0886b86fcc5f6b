"""Turns whose spans and metrics go to a collector; a script, since a process has one provider.

`python observed_turns.py COLLECTOR CASE`: one turn of a supervisor that searches, acts and asks a
collaborator, invoked in one of several ways.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from whole_agents import CLAUDE_35

from orchestrator import (
    ActionGroup,
    Agent,
    Collaborator,
    Flow,
    OrchestratorError,
    TextDelta,
    action,
)
from orchestrator.actions import CallContext
from orchestrator.engine.telemetry.workflows import trace_workflow
from orchestrator.models import ModelReply
from orchestrator.models.base import Usage
from orchestrator.testing import FakeKnowledgeBase, ScriptedModel

SECRET = "canary-5f1c"
QUESTION = f"Where is the order of {SECRET}?"
seen: list[str] = []


@action
async def find_order(number: str, context: CallContext) -> str:
    """Finds an order."""
    seen.append(f"{trace.get_current_span().get_span_context().span_id:016x}")
    if number == "broken":
        raise RuntimeError(f"no {SECRET}")
    return f"It is with {SECRET}."


@action
def count_orders(context: CallContext) -> int:
    """Counts orders."""
    seen.append(f"{trace.get_current_span().get_span_context().span_id:016x}")
    return 3


def says(text: str) -> ModelReply:
    return ModelReply([{"text": f"<answer>{text}</answer>"}], "end_turn", Usage(10, 5, calls=1))


def calls(*uses: tuple[str, dict[str, Any]]) -> ModelReply:
    blocks: list[Any] = [
        {"toolUse": {"toolUseId": f"t-{name}", "name": name, "input": given}}
        for name, given in uses
    ]
    return ModelReply(blocks, "tool_use", Usage(100, 20, cache_read_tokens=7, calls=1))


def build_agent(case: str) -> Agent:
    broken = {"number": "broken" if case == "failing" else "7"}
    helper = Agent(
        "helper",
        "You count orders.",
        ScriptedModel([calls(("orders__count_orders", {})), says("Three.")], CLAUDE_35),
        action_groups=[ActionGroup("orders", [count_orders])],
    )
    script = [
        calls(("GET__x_amz_knowledgebase_HANDBOOK01__Search", {"searchQuery": SECRET})),
        calls(("orders__find_order", broken), ("orders__count_orders", {})),
        calls(("AgentCommunication__sendMessage", {"recipient": "helper", "content": SECRET})),
        says(f"With {SECRET}."),
    ]
    return Agent(
        "boss",
        f"You help {SECRET}.",
        ScriptedModel(script, CLAUDE_35),
        action_groups=[ActionGroup("orders", [find_order, count_orders])],
        knowledge_bases=[FakeKnowledgeBase("HANDBOOK01", [SECRET], "What is known.")],
        collaborators=[Collaborator(helper, "Counts orders.")],
    )


def run_workflows() -> None:
    """A script's turn, with a loop whose items run side by side; and a graph with such a turn."""
    script = Flow.from_text(
        "FOR $x in [1, 2] PARALLEL:\n    Say $x about $question >> said\nEND", "pl"
    )
    model = ScriptedModel([says("a"), says("b")], CLAUDE_35)
    agent = Agent("loop", "You help.", model, orchestration=script)
    with trace_workflow("FLOW000001"):
        agent.invoke(QUESTION, "s-1")


def run(agent: Agent, case: str) -> None:
    if case == "workflow":
        run_workflows()
    elif case == "streamed":
        for event in agent.stream(QUESTION, "s-1"):
            # Whoever takes events is in no span of the turn.
            assert not trace.get_current_span().get_span_context().is_valid, event
    elif case == "stopped":
        events = agent.stream(QUESTION, "s-1")
        next(event for event in events if isinstance(event, TextDelta))
        events.close()
    elif case == "awaited":
        asyncio.run(agent.ainvoke(QUESTION, "s-1"))
    else:
        agent.invoke(QUESTION, "s-1")


def main(collector: str, case: str) -> None:
    spans, reader = (
        BatchSpanProcessor(OTLPSpanExporter(f"{collector}/v1/traces")),
        PeriodicExportingMetricReader(OTLPMetricExporter(f"{collector}/v1/metrics")),
    )
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(spans)
    if case != "off":
        trace.set_tracer_provider(tracers)
        metrics.set_meter_provider(meters)
    with build_agent(case) as agent:
        try:
            run(agent, case)
        except OrchestratorError as error:
            print(type(error).__name__)
    assert not trace.get_current_span().get_span_context().is_valid
    tracers.shutdown()
    meters.shutdown()
    print(*seen)


if __name__ == "__main__":
    main(*sys.argv[1:])
