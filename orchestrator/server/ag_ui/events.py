"""A turn as AG-UI's events.

| of the turn | events |
|---|---|
| its begin and end | `RUN_STARTED`, `STATE_SNAPSHOT` (session attributes), `RUN_FINISHED` |
| a model call | `STEP_STARTED`, `STEP_FINISHED` |
| what the model thought | `REASONING_…` |
| a call of an action, a search | `TOOL_CALL_START`, `_ARGS`, `_END`, `_RESULT` |
| another agent's work | `SUBAGENT_STARTED`, `SUBAGENT_FINISHED` |
| the answer | `TEXT_MESSAGE_…` |
| a return of control | a tool call each, and interrupts as the outcome of `RUN_FINISHED` |
| citations, files, a guardrail | `CUSTOM` |
| a failure | `RUN_ERROR` |
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.engine.trace.reply import Event, Files, Reply, TextDelta, TracePart, TurnEnd
from orchestrator.message import to_json
from orchestrator.server.ag_ui.requests import import_protocol
from orchestrator.server.chat.return_control import to_tool_calls

_CONFIRMATION = "USER_CONFIRMATION"
_CONFIRM_SCHEMA = {"type": "string", "enum": ["CONFIRM", "DENY"]}


class RunMapper:
    """Makes the events of one run. Opened texts and steps are closed before the run is."""

    def __init__(self, run: Any) -> None:
        """Takes the `RunAgentInput`."""
        self._protocol = import_protocol()
        self._run = run
        self._message = ""  # the id of the text that is open
        self._texts: list[str] = []  # of each message; the last one grows
        self._steps: dict[tuple[str, str], str] = {}
        self._step_count = 0
        self._calls: dict[str, list[str]] = {}  # ids of calls without a result, by agent
        self._searches: dict[str, list[str]] = {}
        self._agents: dict[str, list[str]] = {}  # ids of runs of other agents, by name

    def start(self) -> Iterator[Any]:
        """The first event."""
        run = self._run
        yield self._protocol.RunStartedEvent(
            thread_id=run.thread_id,
            run_id=run.run_id,
            protocol_version=self._protocol.PROTOCOL_VERSION,
        )

    def of(self, event: Event) -> Iterator[Any]:
        """The events of an event, but for the end of the turn."""
        if isinstance(event, TextDelta):
            yield from self._map_text(event.text)
        elif isinstance(event, TracePart):
            yield from self._map_part(event.part)
        elif isinstance(event, Files):
            files = [
                {**file, "bytes": base64.b64encode(file["bytes"]).decode()} for file in event.files
            ]
            yield self._protocol.CustomEvent(name="files", value=files)

    def finish(self, event: TurnEnd, attributes: Mapping[str, str]) -> Iterator[Any]:
        """The events of the end of the turn."""
        reply = event.reply
        yield from self._close_text()
        for name in self._steps.values():
            yield self._protocol.StepFinishedEvent(step_name=name)
        for runs in self._agents.values():
            for run in runs:
                yield self._protocol.SubagentFinishedEvent(subagent_run_id=run)
        if reply.text and (not self._texts or self._texts != [reply.text]):
            yield self._replace_messages(reply)
        if reply.citations:
            yield self._protocol.CustomEvent(name="citations", value=reply.citations)
        outcome = None
        if reply.return_control is not None:
            interrupts = []
            for call, item in zip(
                to_tool_calls(reply.return_control, reply.session_id),
                reply.return_control.invocation_inputs,
                strict=True,
            ):
                yield from self._map_call(call)
                interrupts.append(self._build_interrupt(call, item))
            outcome = self._protocol.RunFinishedInterruptOutcome(interrupts=interrupts)
        yield self._protocol.StateSnapshotEvent(snapshot=dict(attributes))
        yield self._build_end(reply, outcome)

    def _build_end(self, reply: Reply, outcome: Any) -> Any:
        usage = reply.usage
        return self._protocol.RunFinishedEvent(
            thread_id=self._run.thread_id,
            run_id=self._run.run_id,
            result={"stopReason": reply.stop_reason},
            outcome=outcome or self._protocol.RunFinishedSuccessOutcome(),
            usage=[
                self._protocol.TokenUsage(
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    total_tokens=usage.total_tokens,
                    cached_input_tokens=usage.cache_read_tokens,
                    cache_write_input_tokens=usage.cache_write_tokens,
                )
            ],
        )

    # -- texts -----------------------------------------------------------------------------------

    def _map_text(self, text: str) -> Iterator[Any]:
        if not text:  # the protocol refuses empty pieces
            return
        if not self._message:
            self._message = _new_id()
            self._texts.append("")
            yield self._protocol.TextMessageStartEvent(message_id=self._message, role="assistant")
        self._texts[-1] += text
        yield self._protocol.TextMessageContentEvent(message_id=self._message, delta=text)

    def _close_text(self) -> Iterator[Any]:
        if self._message:
            yield self._protocol.TextMessageEndEvent(message_id=self._message)
            self._message = ""

    def _replace_messages(self, reply: Reply) -> Any:
        # What was streamed is not the answer: a model went on, or a guardrail changed it.
        answer = self._protocol.AssistantMessage(id=_new_id(), content=reply.text)
        return self._protocol.MessagesSnapshotEvent(messages=[*self._run.messages, answer])

    # -- trace parts -----------------------------------------------------------------------------

    def _map_part(self, part: Mapping[str, Any]) -> Iterator[Any]:
        agent = part.get("collaboratorName", "")
        for kind, trace in part["trace"].items():
            if not isinstance(trace, Mapping):
                continue
            if kind == "guardrailTrace" and trace.get("action") == "INTERVENED":
                yield self._protocol.CustomEvent(name="guardrail", value={"action": "INTERVENED"})
            if called := trace.get("modelInvocationInput"):
                yield from self._start_step(agent, called)
            elif "modelInvocationOutput" in trace:
                yield from self._finish_step(agent, trace["modelInvocationOutput"])
            elif text := trace.get("rationale", {}).get("text"):
                yield from self._map_reasoning(text)
            elif begun := trace.get("invocationInput"):
                yield from self._map_invocation(agent, begun)
            elif seen := trace.get("observation"):
                yield from self._map_observation(agent, seen)

    def _start_step(self, agent: str, called: Mapping[str, Any]) -> Iterator[Any]:
        yield from self._close_text()  # what was said before is not what comes now
        self._step_count += 1
        name = f"{called.get('type', 'MODEL')}-{self._step_count}"
        key = agent, str(called.get("traceId"))
        if key in self._steps:  # it is asked again
            yield self._protocol.StepFinishedEvent(step_name=self._steps.pop(key))
        self._steps[key] = name
        yield self._protocol.StepStartedEvent(step_name=name)

    def _finish_step(self, agent: str, output: Mapping[str, Any]) -> Iterator[Any]:
        name = self._steps.pop((agent, str(output.get("traceId"))), None)
        if name is not None:
            yield self._protocol.StepFinishedEvent(step_name=name)

    def _map_reasoning(self, text: str) -> Iterator[Any]:
        yield from self._close_text()
        span, message, protocol = _new_id(), _new_id(), self._protocol
        yield protocol.ReasoningStartEvent(message_id=span)
        yield protocol.ReasoningMessageStartEvent(message_id=message, role="reasoning")
        yield protocol.ReasoningMessageContentEvent(message_id=message, delta=text)
        yield protocol.ReasoningMessageEndEvent(message_id=message)
        yield protocol.ReasoningEndEvent(message_id=span)

    def _map_invocation(self, agent: str, begun: Mapping[str, Any]) -> Iterator[Any]:
        action = begun.get("actionGroupInvocationInput")
        if action and action.get("executionType") != "RETURN_CONTROL":
            name = action.get("function") or (
                f"{str(action.get('verb', '')).upper()} {action.get('apiPath', '')}"
            )
            call = _build_call(f"{action.get('actionGroupName', '')}::{name}", _arguments(action))
            self._calls.setdefault(agent, []).append(call["id"])
            yield from self._map_call(call)
        if search := begun.get("knowledgeBaseLookupInput"):
            name = f"search::{search.get('knowledgeBaseId', '')}"
            call = _build_call(name, {"query": search.get("text", "")})
            self._searches.setdefault(agent, []).append(call["id"])
            yield from self._map_call(call)
        if other := begun.get("agentCollaboratorInvocationInput"):
            name, run = other.get("agentCollaboratorName", ""), _new_id()
            self._agents.setdefault(name, []).append(run)
            yield from self._close_text()
            yield self._protocol.SubagentStartedEvent(subagent_run_id=run, name=name)

    def _map_call(self, call: Mapping[str, Any]) -> Iterator[Any]:
        yield from self._close_text()
        id, function = call["id"], call["function"]
        yield self._protocol.ToolCallStartEvent(tool_call_id=id, tool_call_name=function["name"])
        yield self._protocol.ToolCallArgsEvent(tool_call_id=id, delta=function["arguments"])
        yield self._protocol.ToolCallEndEvent(tool_call_id=id)

    def _map_observation(self, agent: str, seen: Mapping[str, Any]) -> Iterator[Any]:
        if output := seen.get("actionGroupInvocationOutput"):
            yield from self._map_result(self._calls.get(agent), output.get("text", ""))
        if found := seen.get("knowledgeBaseLookupOutput"):
            references = found.get("retrievedReferences", [])
            contents = [one.get("content", {}) for one in references]
            yield from self._map_result(self._searches.get(agent), to_json(contents))
        if other := seen.get("agentCollaboratorInvocationOutput"):
            runs = self._agents.get(other.get("agentCollaboratorName", ""))
            if runs:
                yield self._protocol.SubagentFinishedEvent(
                    subagent_run_id=runs.pop(0), result=other.get("output", {}).get("text")
                )

    def _map_result(self, waiting: list[str] | None, text: str) -> Iterator[Any]:
        if waiting:  # results come in the order of the calls
            yield self._protocol.ToolCallResultEvent(
                message_id=_new_id(), tool_call_id=waiting.pop(0), content=text, role="tool"
            )

    # -- returns of control ----------------------------------------------------------------------

    def _build_interrupt(self, call: Mapping[str, Any], item: Mapping[str, Any]) -> Any:
        (waiting,) = item.values()
        confirms = waiting.get("actionInvocationType") == _CONFIRMATION
        name = call["function"]["name"]
        return self._protocol.Interrupt(
            id=call["id"],
            reason="confirmation" if confirms else "tool_call",
            tool_call_id=call["id"],
            message=f"Confirm the call of {name}." if confirms else f"Carry out {name}.",
            response_schema=_CONFIRM_SCHEMA if confirms else {"type": "string"},
        )


def _new_id() -> str:
    return str(uuid.uuid4())


def _build_call(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": _new_id(), "function": {"name": name, "arguments": to_json(dict(arguments))}}


def _arguments(action: Mapping[str, Any]) -> dict[str, Any]:
    parameters = list(action.get("parameters", ()))
    for body in action.get("requestBody", {}).get("content", {}).values():
        parameters += body["properties"] if isinstance(body, dict) else body
    return {one["name"]: one.get("value", "") for one in parameters}
