"""What a turn did, read from its trace: calls, results, questions to the user, and its steps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Call = dict[str, Any]  # a function's `name` or `VERB /path`, and `arguments`
Trace = Iterable[Mapping[str, Any]]

# What a run keeps of each step, and how many steps of a turn.
MOST_CHARS = 4_000
MOST_STEPS = 300


def _find_parts(trace: Trace, member: str) -> Iterator[dict[str, Any]]:
    for event in trace:
        part = event.get("trace", event).get("orchestrationTrace", {}).get(member)
        if part:
            yield part


def list_calls(trace: Trace) -> list[Call]:
    """The action calls that were really made; one that waits for its caller was not."""
    inputs = _find_parts(trace, "invocationInput")
    actions = (step.get("actionGroupInvocationInput") for step in inputs)
    return [
        read_call(action)
        for action in actions
        if action and action.get("executionType") != "RETURN_CONTROL"
    ]


def list_waiting_calls(inputs: Iterable[Mapping[str, Any]]) -> list[Call]:
    """The calls of a returned control (`invocationInputs`), in their order."""
    return [read_call(call) for item in inputs for call in item.values()]


def read_call(action: Mapping[str, Any]) -> Call:
    """The call that a trace or a return of control describes."""
    parameters = list(action.get("parameters", []))
    for body in action.get("requestBody", {}).get("content", {}).values():
        parameters += body["properties"] if isinstance(body, dict) else body
    name = action.get("function")
    if not name:
        verb = action.get("verb") or action["httpMethod"]
        name = f"{verb.upper()} {action['apiPath']}"
    return {"name": name, "arguments": {one["name"]: one["value"] for one in parameters}}


def list_results(trace: Trace) -> list[str]:
    """What actions, searches and collaborators gave back."""
    results = []
    for seen in _find_parts(trace, "observation"):
        for part in ("actionGroupInvocationOutput", "agentCollaboratorInvocationOutput"):
            output = seen.get(part, {})
            results.append(output.get("text") or output.get("output", {}).get("text", ""))
        found = seen.get("knowledgeBaseLookupOutput", {}).get("retrievedReferences", [])
        results += [json.dumps(reference.get("content", {})) for reference in found]
    return [text for text in results if text]


def asks_user(trace: Trace) -> bool:
    """Whether the turn ended with a question to the user (`AMAZON.UserInput`)."""
    return any(seen.get("type") == "ASK_USER" for seen in _find_parts(trace, "observation"))


def show_call(call: Call) -> str:
    """A call in one line."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.get("arguments", {}).items())
    return f"{call['name']}({arguments})"


def list_steps(trace: Trace) -> list[dict[str, str]]:
    """The steps of a turn, each a `kind` and a `text`; prompts are left out, and long texts cut."""
    steps = (
        {"kind": kind, "text": text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}…"}
        for event in trace
        for kind, text in _read_steps(event)
        if text
    )
    return [step for _, step in zip(range(MOST_STEPS), steps, strict=False)]


def _read_steps(event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    trace = event.get("trace", event)
    for kind, part in trace.items():
        if kind == "failureTrace":
            yield "failure", str(part.get("failureReason", ""))
        elif kind == "guardrailTrace" and part.get("action") == "INTERVENED":
            yield "guardrail", "intervened"
        elif isinstance(part, Mapping):
            yield from _read_step(part)


def _read_step(part: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    usage = part.get("modelInvocationOutput", {}).get("metadata", {}).get("usage")
    if usage:
        read, written = usage.get("inputTokens", 0), usage.get("outputTokens", 0)
        yield "model", f"{read:,} tokens read, {written:,} written"
    yield "thought", part.get("rationale", {}).get("text", "")
    begun = part.get("invocationInput", {})
    if action := begun.get("actionGroupInvocationInput"):
        yield "call", show_call(read_call(action))
    yield "search", begun.get("knowledgeBaseLookupInput", {}).get("text", "")
    if collaborator := begun.get("agentCollaboratorInvocationInput"):
        name = collaborator.get("agentCollaboratorName", "")
        yield "collaborator", f"{name}: {collaborator.get('input', {}).get('text', '')}"
    if seen := part.get("observation"):
        for text in list_results([{"orchestrationTrace": {"observation": seen}}]):
            yield "result", text
        yield "format", seen.get("repromptResponse", {}).get("text", "")
        yield "answer", seen.get("finalResponse", {}).get("text", "")
