"""Spans and metrics of turns, as a collector of OpenTelemetry gets them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from forking import forked
from inline_snapshot import snapshot
from model_servers import Answer, Loopback
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from orchestrator.engine.telemetry import names

SCRIPT = Path(__file__).with_name("observed_turns.py")
SECRET = "canary-5f1c"
QUESTION = f"Where is the order of {SECRET}?"
CAPTURE = {names.CAPTURE_CONTENT: "SPAN_ONLY", names.STABILITY: names.EXPERIMENTAL}


@dataclass
class Exported:
    """What a process sent to the collector, and what it printed."""

    spans: list[Any] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)
    raw: bytes = b""

    def find(self, name: str) -> Any:
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def tree(self, above: bytes = b"", level: int = 0) -> Iterator[str]:
        """A line for each span, below the one that it belongs to, in the order of their start."""
        below = [span for span in self.spans if span.parent_span_id == above]
        for span in sorted(below, key=lambda one: one.start_time_unix_nano):
            status = " ERROR" if span.status.code == 2 else ""
            yield f"{'  ' * level}{span.name} {kind_of(span)}{status}"
            yield from self.tree(span.span_id, level + 1)


def kind_of(span: Any) -> str:
    return {1: "INTERNAL", 3: "CLIENT"}[span.kind]


def attributes(item: Any) -> dict[str, Any]:
    return {one.key: plain(one.value) for one in item.attributes}


def plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(one) for one in value.array_value.values]
    return getattr(value, kind)


@pytest.fixture(scope="module")
def export() -> Iterator[Any]:
    """Runs a case in a process of its own, with a collector."""

    def export(case: str, **env: str) -> Exported:
        with Loopback([Answer(b"")]).running() as collector:
            done = forked(SCRIPT, collector.url, case, **env)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr and "detach" not in done.stderr, done.stderr
        found = Exported(printed=done.stdout.split())
        for asked in collector.asked:
            found.raw += asked.body
            if asked.path.endswith("traces"):
                message = ExportTraceServiceRequest.FromString(asked.body)
                for resource in message.resource_spans:
                    found.spans += [it for one in resource.scope_spans for it in one.spans]
            else:
                for resource in ExportMetricsServiceRequest.FromString(asked.body).resource_metrics:
                    for scope in resource.scope_metrics:
                        found.metrics |= {it.name: it for it in scope.metrics}
        return found

    yield export


TREE = """\
invoke_agent boss INTERNAL
  chat anthropic.claude-3-5-sonnet-20240620-v1:0 CLIENT
  retrieval HANDBOOK01 CLIENT
  chat anthropic.claude-3-5-sonnet-20240620-v1:0 CLIENT
  execute_tool orders::find_order INTERNAL
  execute_tool orders::count_orders INTERNAL
  chat anthropic.claude-3-5-sonnet-20240620-v1:0 CLIENT
  invoke_agent helper INTERNAL
    chat anthropic.claude-3-5-sonnet-20240620-v1:0 CLIENT
    execute_tool orders::count_orders INTERNAL
    chat anthropic.claude-3-5-sonnet-20240620-v1:0 CLIENT
  chat anthropic.claude-3-5-sonnet-20240620-v1:0 CLIENT"""


@pytest.mark.parametrize("case", ["invoked", "awaited", "streamed"])
def test_the_tree_of_a_whole_turn(export: Any, case: str) -> None:
    found = export(case)
    assert "\n".join(sorted(found.tree())) == "\n".join(sorted(TREE.splitlines()))
    assert len({span.trace_id for span in found.spans}) == 1
    # Each action ran in its own span, although two of them ran at the same time.
    actions = {it.span_id.hex() for it in found.spans if it.name.startswith("execute_tool")}
    assert set(found.printed) == actions and len(actions) == 3
    assert SECRET.encode() not in found.raw
    chat = next(it for it in found.spans if it.name.startswith("chat"))
    assert (names.RESPONSE_TIME_TO_FIRST_CHUNK in attributes(chat)) == (case == "streamed")
    assert attributes(found.find("invoke_agent boss")) == snapshot(
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": "other",
            "gen_ai.request.model": "anthropic.claude-3-5-sonnet-20240620-v1:0",
            "gen_ai.agent.name": "boss",
            "gen_ai.agent.id": attributes(found.find("invoke_agent boss"))["gen_ai.agent.id"],
            "gen_ai.agent.version": "DRAFT",
            "gen_ai.conversation.id": "s-1",
            "gen_ai.usage.input_tokens": 310,
            "gen_ai.usage.output_tokens": 65,
            "gen_ai.usage.cache_read.input_tokens": 21,
            "gen_ai.response.finish_reasons": ["end_turn"],
        }
    )
    tokens = found.metrics[names.CLIENT_TOKEN_USAGE].histogram.data_points
    total = {plain(it.value): point.sum for point in tokens for it in point.attributes
             if it.key == names.TOKEN_TYPE}  # fmt: skip
    assert set(total) == {"input", "output"}
    assert set(found.metrics) == {
        names.CLIENT_TOKEN_USAGE,
        names.CLIENT_OPERATION_DURATION,
        names.INVOKE_AGENT_DURATION,
        names.EXECUTE_TOOL_DURATION,
    }


def test_a_failure_has_its_kind_and_no_payload(export: Any) -> None:
    found = export("failing")
    assert found.printed[0] == "DependencyFailed"
    tool = found.find("execute_tool orders::find_order")
    assert (tool.status.code, tool.status.message) == (2, "")
    assert attributes(tool)[names.ERROR_TYPE] == "RuntimeError"
    turn = found.find("invoke_agent boss")
    assert (turn.status.code, attributes(turn)[names.ERROR_TYPE]) == (2, "DependencyFailed")
    assert SECRET.encode() not in found.raw


def test_a_turn_that_is_stopped_ends_its_spans(export: Any) -> None:
    found = export("stopped")
    turn = found.find("invoke_agent boss")
    assert (turn.status.code, attributes(turn)[names.ERROR_TYPE]) == (2, "cancelled")
    assert all(span.end_time_unix_nano for span in found.spans)


def test_content_is_exported_only_when_both_variables_ask_for_it(export: Any) -> None:
    assert SECRET.encode() not in export("invoked", **{names.CAPTURE_CONTENT: "SPAN_ONLY"}).raw
    found = export("invoked", **CAPTURE)
    turn = attributes(found.find("invoke_agent boss"))
    assert turn[names.INPUT_MESSAGES] == (
        f'[{{"role": "user", "parts": [{{"type": "text", "content": "{QUESTION}"}}]}}]'
    )
    tool = attributes(found.find("execute_tool orders::find_order"))
    assert tool[names.TOOL_CALL_ARGUMENTS] == '{"number": "7"}'
    assert tool[names.TOOL_CALL_RESULT] == f"It is with {SECRET}."
    chats = [attributes(it) for it in found.spans if it.name.startswith("chat")]
    assert all(QUESTION in it[names.INPUT_MESSAGES] for it in chats if "boss" in str(it))
    assert any(f"With {SECRET}." in it[names.OUTPUT_MESSAGES] for it in chats)
    search = attributes(found.find("retrieval HANDBOOK01"))
    assert search[names.RETRIEVAL_QUERY_TEXT] == SECRET


def test_workflows_and_their_items(export: Any) -> None:
    assert list(export("workflow").tree()) == [
        "invoke_workflow FLOW000001 INTERNAL",
        "  invoke_workflow loop INTERNAL",
        "    chat anthropic.claude-3-5-sonnet-20240620-v1:0 CLIENT",
        "    chat anthropic.claude-3-5-sonnet-20240620-v1:0 CLIENT",
    ]


def test_without_a_provider_nothing_is_made(export: Any) -> None:
    found = export("off")
    assert found.spans == [] and found.metrics == {}


def test_the_names_are_those_of_the_conventions() -> None:
    found = {name: value for name, value in vars(names).items() if name.isupper()}
    assert found == snapshot(
        {
            "SCOPE": "bedrock-orchestrator",
            "INVOKE_AGENT": "invoke_agent",
            "INVOKE_WORKFLOW": "invoke_workflow",
            "CHAT": "chat",
            "EXECUTE_TOOL": "execute_tool",
            "RETRIEVAL": "retrieval",
            "OPERATION_NAME": "gen_ai.operation.name",
            "PROVIDER_NAME": "gen_ai.provider.name",
            "AGENT_NAME": "gen_ai.agent.name",
            "AGENT_ID": "gen_ai.agent.id",
            "AGENT_VERSION": "gen_ai.agent.version",
            "WORKFLOW_NAME": "gen_ai.workflow.name",
            "CONVERSATION_ID": "gen_ai.conversation.id",
            "DATA_SOURCE_ID": "gen_ai.data_source.id",
            "REQUEST_MODEL": "gen_ai.request.model",
            "REQUEST_MAX_TOKENS": "gen_ai.request.max_tokens",
            "REQUEST_TEMPERATURE": "gen_ai.request.temperature",
            "REQUEST_TOP_P": "gen_ai.request.top_p",
            "REQUEST_TOP_K": "gen_ai.request.top_k",
            "REQUEST_STOP_SEQUENCES": "gen_ai.request.stop_sequences",
            "REQUEST_STREAM": "gen_ai.request.stream",
            "RESPONSE_FINISH_REASONS": "gen_ai.response.finish_reasons",
            "RESPONSE_TIME_TO_FIRST_CHUNK": "gen_ai.response.time_to_first_chunk",
            "USAGE_INPUT_TOKENS": "gen_ai.usage.input_tokens",
            "USAGE_OUTPUT_TOKENS": "gen_ai.usage.output_tokens",
            "USAGE_CACHE_READ_INPUT_TOKENS": "gen_ai.usage.cache_read.input_tokens",
            "USAGE_CACHE_CREATION_INPUT_TOKENS": "gen_ai.usage.cache_creation.input_tokens",
            "TOOL_NAME": "gen_ai.tool.name",
            "TOOL_CALL_ID": "gen_ai.tool.call.id",
            "TOOL_TYPE": "gen_ai.tool.type",
            "TOKEN_TYPE": "gen_ai.token.type",
            "ERROR_TYPE": "error.type",
            "INPUT_MESSAGES": "gen_ai.input.messages",
            "OUTPUT_MESSAGES": "gen_ai.output.messages",
            "SYSTEM_INSTRUCTIONS": "gen_ai.system_instructions",
            "TOOL_CALL_ARGUMENTS": "gen_ai.tool.call.arguments",
            "TOOL_CALL_RESULT": "gen_ai.tool.call.result",
            "RETRIEVAL_QUERY_TEXT": "gen_ai.retrieval.query.text",
            "RETRIEVAL_DOCUMENTS": "gen_ai.retrieval.documents",
            "CLIENT_OPERATION_DURATION": "gen_ai.client.operation.duration",
            "CLIENT_TOKEN_USAGE": "gen_ai.client.token.usage",
            "INVOKE_AGENT_DURATION": "gen_ai.invoke_agent.duration",
            "EXECUTE_TOOL_DURATION": "gen_ai.execute_tool.duration",
            "CAPTURE_CONTENT": "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
            "STABILITY": "OTEL_SEMCONV_STABILITY_OPT_IN",
            "EXPERIMENTAL": "gen_ai_latest_experimental",
        }
    )
