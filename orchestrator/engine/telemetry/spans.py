"""The spans of a turn, and the metrics beside them.

Only OpenTelemetry's API is used: who has set up no provider gets nothing, and pays for nothing.
What is on a span when it starts decides whether it is sampled, so all that is known is on it then.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from orchestrator.actions.base import Call
from orchestrator.engine.effects import Branch, CallModel, Retrieve
from orchestrator.engine.plan import Plan
from orchestrator.engine.results import Answer, Failure
from orchestrator.engine.run.branches import BranchRun
from orchestrator.engine.run.invocation import Run
from orchestrator.engine.run.observation import Step, Watch, describe_outcome, get_provider
from orchestrator.engine.telemetry import names
from orchestrator.engine.telemetry.content import capture, render_messages, to_text
from orchestrator.models.base import Usage

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from orchestrator.sessions import Record

Attributes = dict[str, Any]

_INFERENCE = {
    "maximumLength": names.REQUEST_MAX_TOKENS,
    "temperature": names.REQUEST_TEMPERATURE,
    "topP": names.REQUEST_TOP_P,
    "topK": names.REQUEST_TOP_K,
    "stopSequences": names.REQUEST_STOP_SEQUENCES,
}
# What metrics have of a span's attributes.
_MEASURED = (names.PROVIDER_NAME, names.REQUEST_MODEL, names.AGENT_NAME, names.TOOL_NAME)
# As OpenTelemetry's conventions advise, in seconds and in tokens.
_SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_TOKENS = [4**power for power in range(14)]


def find_telemetry() -> Telemetry | None:
    """What observes turns, once somebody has set up a provider of traces or of metrics."""
    # What both give until then is a stand-in; that of metrics has no public name.
    providers = trace.get_tracer_provider(), metrics.get_meter_provider()
    if all("Proxy" in type(one).__name__ for one in providers):
        return None
    return _get_telemetry()


@cache
def _get_telemetry() -> Telemetry:
    return Telemetry()


class Telemetry:
    """Makes the spans of turns; safe for many threads."""

    def __init__(self) -> None:
        self.tracer = trace.get_tracer(names.SCOPE)
        meter = metrics.get_meter(names.SCOPE)

        def histogram(name: str, unit: str, bounds: list[Any]) -> Any:
            return meter.create_histogram(
                name, unit, explicit_bucket_boundaries_advisory=list(map(float, bounds))
            )

        self.durations = {
            names.CHAT: histogram(names.CLIENT_OPERATION_DURATION, "s", _SECONDS),
            names.INVOKE_AGENT: histogram(names.INVOKE_AGENT_DURATION, "s", _SECONDS),
            names.EXECUTE_TOOL: histogram(names.EXECUTE_TOOL_DURATION, "s", _SECONDS),
        }
        self.tokens = histogram(names.CLIENT_TOKEN_USAGE, "{token}", _TOKENS)

    def begin_turn(self, run: Run) -> Watch:
        """A turn begins, in the calling context."""
        return _TurnSpan(self, run, None)


class _SpanStep(Step):
    """One span."""

    has_context = True

    def __init__(
        self,
        telemetry: Telemetry,
        operation: str,
        target: str,
        kind: SpanKind,
        attributes: Attributes,
        parent: Context | None,
    ) -> None:
        self._telemetry, self._operation = telemetry, operation
        self._measured = {
            name: attributes[name]
            for name in (
                names.PROVIDER_NAME,
                names.REQUEST_MODEL,
                names.AGENT_NAME,
                names.TOOL_NAME,
            )
            if name in attributes
        } | {names.OPERATION_NAME: operation}
        self._began = time.perf_counter()
        self.span: Span = telemetry.tracer.start_span(
            f"{operation} {target}" if target else operation,
            parent,
            kind,
            {names.OPERATION_NAME: operation, **attributes},
        )
        self.context = trace.set_span_in_context(self.span, parent)

    def attach(self) -> Any:
        return contexts.attach(self.context)

    def detach(self, token: Any) -> None:
        contexts.detach(token)

    def finish(self, error_type: str = "", attributes: Mapping[str, Any] | None = None) -> None:
        """Ends the span; of an error only the kind is told, since its text may hold payloads."""
        if attributes:
            self.span.set_attributes(dict(attributes))
        if error_type:
            self.span.set_attribute(names.ERROR_TYPE, error_type)
            self.span.set_status(Status(StatusCode.ERROR))
            self._measured[names.ERROR_TYPE] = error_type
        self.span.end()
        histogram = self._telemetry.durations.get(self._operation)
        if histogram is not None:
            seconds = time.perf_counter() - self._began
            histogram.record(seconds, self._measured, context=self.context)

    def end(self, record: Record | None, error: BaseException | None) -> None:
        self.finish(_get_error_type(error))


def begin_workflow(name: str) -> Step | None:
    """The span of a workflow, in the calling context; `None` where nobody has set up a provider."""
    telemetry = find_telemetry()
    if telemetry is None:
        return None
    attributes = {names.WORKFLOW_NAME: name}
    kind = SpanKind.INTERNAL
    return _SpanStep(telemetry, names.INVOKE_WORKFLOW, name, kind, attributes, None)


class _ModelSpan(_SpanStep):
    """`chat`: one model call."""

    def __init__(self, telemetry: Telemetry, run: Run, effect: CallModel, above: _TurnSpan) -> None:
        stage, provider = effect.stage, get_provider(effect.stage.model)
        attributes: Attributes = {
            names.PROVIDER_NAME: provider,
            names.REQUEST_MODEL: stage.model.model_id,
            names.AGENT_NAME: run.plan.name,
            names.CONVERSATION_ID: run.session_id,
        }
        for own, name in _INFERENCE.items():
            if stage.inference.get(own) is not None:
                attributes[name] = stage.inference[own]
        kind = SpanKind.INTERNAL if provider == "local" else SpanKind.CLIENT
        super().__init__(
            telemetry, names.CHAT, stage.model.model_id, kind, attributes, above.context
        )
        self._run, self._effect, self._above = run, effect, above

    def note_chunk(self) -> None:
        waited = time.perf_counter() - self._began
        self.span.set_attribute(names.REQUEST_STREAM, True)
        self.span.set_attribute(names.RESPONSE_TIME_TO_FIRST_CHUNK, waited)

    def end(self, record: Record | None, error: BaseException | None) -> None:
        attributes: Attributes = {}
        if record is not None:
            usage = Usage(*record["usage"])
            self._above.usage = self._above.usage.plus(usage)
            attributes = {names.RESPONSE_FINISH_REASONS: [record["stop"]], **_describe_usage(usage)}
            for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                measured = {**self._measured, names.TOKEN_TYPE: kind}
                self._telemetry.tokens.record(count, measured, context=self.context)
        attributes |= capture(self.span, lambda: self._describe_content(record))
        self.finish(_get_error_type(error), attributes)

    def _describe_content(self, record: Record | None) -> Attributes:
        bound, messages = self._run.replay.prompt(self._effect)
        found: Attributes = {
            names.INPUT_MESSAGES: render_messages((it["role"], it["content"]) for it in messages),
        }
        if bound.system:
            found[names.SYSTEM_INSTRUCTIONS] = to_text([{"type": "text", "content": bound.system}])
        if record is not None:
            found[names.OUTPUT_MESSAGES] = render_messages([("assistant", record["content"])])
        return found


class _ActionSpan(_SpanStep):
    """`execute_tool`: one call."""

    def __init__(self, telemetry: Telemetry, run: Run, call: Call, above: _TurnSpan) -> None:
        name = call.operation.xml_name
        attributes: Attributes = {
            names.TOOL_NAME: name,
            names.TOOL_CALL_ID: call.id,
            names.TOOL_TYPE: "function",
            names.AGENT_NAME: run.plan.name,
        }
        kind = SpanKind.INTERNAL
        super().__init__(telemetry, names.EXECUTE_TOOL, name, kind, attributes, above.context)
        self._call = call

    def end(self, record: Record | None, error: BaseException | None) -> None:
        kind = _get_error_type(error)
        if record is not None and record.get("state") == "FAILURE":
            kind = kind or record.get("error", "FAILURE")
        self.finish(kind, capture(self.span, lambda: self._describe_content(record)))

    def _describe_content(self, record: Record | None) -> Attributes:
        found = {names.TOOL_CALL_ARGUMENTS: to_text(self._call.arguments)}
        if record is not None:
            found[names.TOOL_CALL_RESULT] = to_text(record["text"])
        return found


class _RetrievalSpan(_SpanStep):
    """`retrieval`: one search."""

    def __init__(self, telemetry: Telemetry, run: Run, effect: Retrieve, above: _TurnSpan) -> None:
        id = effect.knowledge_base_id
        attributes = {names.DATA_SOURCE_ID: id, names.AGENT_NAME: run.plan.name}
        kind = SpanKind.CLIENT
        super().__init__(telemetry, names.RETRIEVAL, id, kind, attributes, above.context)
        self._query = effect.query

    def end(self, record: Record | None, error: BaseException | None) -> None:
        content = capture(self.span, lambda: self._describe_content(record))
        self.finish(_get_error_type(error), content)

    def _describe_content(self, record: Record | None) -> Attributes:
        found = {names.RETRIEVAL_QUERY_TEXT: to_text(self._query)}
        if record is not None:
            found[names.RETRIEVAL_DOCUMENTS] = to_text(record["references"])
        return found


class _TurnSpan(_SpanStep, Watch):
    """`invoke_agent`: a turn of an agent or of a collaborator; `invoke_workflow` of a script."""

    def __init__(self, telemetry: Telemetry, run: Run, above: _TurnSpan | None) -> None:
        parent = contexts.get_current() if above is None else above.context
        plan = run.plan
        attributes = {**_describe_agent(plan), names.CONVERSATION_ID: run.session_id}
        operation = names.INVOKE_AGENT
        if plan.features.orchestration is not None:
            operation = names.INVOKE_WORKFLOW
            attributes[names.WORKFLOW_NAME] = plan.name
        super().__init__(telemetry, operation, plan.name, SpanKind.INTERNAL, attributes, parent)
        self.usage = Usage()

    def begin_model(self, run: Run, effect: CallModel) -> Step:
        if get_provider(effect.stage.model) == "aws.bedrock" and _is_instrumented():
            return Step()
        return _ModelSpan(self._telemetry, run, effect, self)

    def begin_action(self, run: Run, call: Call) -> Step:
        return _ActionSpan(self._telemetry, run, call, self)

    def begin_retrieval(self, run: Run, effect: Retrieve) -> Step:
        return _RetrievalSpan(self._telemetry, run, effect, self)

    def begin_remote(self, run: Run, branch: Branch) -> Step:
        name = branch.collaborator.name
        attributes = {names.AGENT_NAME: name, names.PROVIDER_NAME: "aws.bedrock"}
        kind = SpanKind.CLIENT
        return _SpanStep(self._telemetry, names.INVOKE_AGENT, name, kind, attributes, self.context)

    def begin_branch(self, run: BranchRun) -> Watch:
        return _TurnSpan(self._telemetry, run, self)

    def end_turn(self, run: Run, error: BaseException | None) -> None:
        result, kind = run.result, _get_error_type(error)
        attributes = _describe_usage(self.usage)
        if isinstance(result, Failure):
            kind = type(result.error).__name__
        elif isinstance(result, Answer):
            attributes[names.RESPONSE_FINISH_REASONS] = [result.stop_reason]
        elif error is None:
            attributes[names.RESPONSE_FINISH_REASONS] = [describe_outcome(run, None)]
        self.finish(kind, attributes | capture(self.span, lambda: _describe_talk(run)))


def _describe_talk(run: Run) -> Attributes:
    asked = [("user", [{"text": run.replay.turn.question}])]
    found = {names.INPUT_MESSAGES: render_messages(asked)}
    if isinstance(run.result, Answer):
        said = [("assistant", [{"text": run.result.text}])]
        found[names.OUTPUT_MESSAGES] = render_messages(said)
    return found


def _describe_agent(plan: Plan) -> Attributes:
    model = plan.orchestration.model
    return {
        names.PROVIDER_NAME: get_provider(model),
        names.REQUEST_MODEL: model.model_id,
        names.AGENT_NAME: plan.name,
        names.AGENT_ID: plan.agent_id,
        names.AGENT_VERSION: plan.version,
    }


def _describe_usage(usage: Usage) -> Attributes:
    found = {
        names.USAGE_INPUT_TOKENS: usage.input_tokens,
        names.USAGE_OUTPUT_TOKENS: usage.output_tokens,
    }
    if usage.cache_read_tokens:
        found[names.USAGE_CACHE_READ_INPUT_TOKENS] = usage.cache_read_tokens
    if usage.cache_write_tokens:
        found[names.USAGE_CACHE_CREATION_INPUT_TOKENS] = usage.cache_write_tokens
    return found


def _get_error_type(error: BaseException | None) -> str:
    if error is None:
        return ""
    return type(error).__name__ if isinstance(error, Exception) else "cancelled"


# Each makes spans of its own of what boto3 asks of Bedrock.
_INSTRUMENTATIONS = (
    "opentelemetry.instrumentation.botocore",
    "opentelemetry.instrumentation.bedrock",
    "opentelemetry.instrumentation.genai.bedrock",
)


def _is_instrumented() -> bool:
    return any(name in sys.modules for name in _INSTRUMENTATIONS)
