"""A trace as steps that read aloud: "1. thinks … 2. calls claims::getClaim(claimId=claim-857)".

Fed with Bedrock's trace parts only, so that any recorded trace can be read: one of this engine, or
one of the service (AWS: `InvokeAgent`, `TracePart`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from orchestrator.cli.terminal import short

__all__ = ["Step", "Steps", "activity", "duration", "signature", "steps_of"]

Json = Mapping[str, Any]


@dataclass(slots=True)
class Step:
    """One thing that the agent did.

    Attributes:
        verb: What it did: `thinks`, `calls`, `answers`, …
        subject: Whom or what with, such as a call.
        text: What came of it.
        facts: Model, tokens, time.
    """

    verb: str
    subject: str = ""
    text: str = ""
    facts: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The step as JSON members."""
        return asdict(self)


class Steps:
    """Makes steps of trace parts as they come.

    Attributes:
        model_calls: How many model calls there were.
        tokens: Their input and output tokens.
        milliseconds: How long the whole turn took, once that is known.
    """

    def __init__(self) -> None:
        self.model_calls = 0
        self.tokens = [0, 0]
        self.milliseconds: int | None = None
        self._model = ""
        self._new_model = ""
        self._kind = ""
        self._thought: Step | None = None
        self._waiting: list[tuple[Json, Step]] = []

    def feed(self, part: Json) -> Iterator[Step]:
        """The steps that are known with the next part."""
        who = part.get("collaboratorName", "")
        for step in self._of(part.get("trace") or {}):
            if who:
                step.verb = f"{who} {step.verb}"
            yield step

    def rest(self) -> Iterator[Step]:
        """What had no outcome: calls that wait for the caller, or that never came back."""
        yield from self._take_thought()
        waiting, self._waiting = self._waiting, []
        for call, step in waiting:
            if call.get("executionType") == "RETURN_CONTROL":
                step.verb, step.text = "hands over", "waits for the caller"
            else:
                step.text = step.text or "no result"
            yield step

    def _of(self, trace: Json) -> Iterator[Step]:
        for kind, told in trace.items():
            if kind == "guardrailTrace":
                yield from self._take_thought()
                yield _guardrail(told)
            elif kind == "failureTrace":
                yield from self._take_thought()
                yield Step("fails", text=told.get("failureReason", ""))
            elif isinstance(told, Mapping):
                for member, value in told.items():
                    yield from self._member(kind, member, value)

    def _member(self, kind: str, member: str, value: Any) -> Iterator[Step]:
        if member == "rationale":
            if self._thought is not None:
                self._thought.text = value.get("text", "")
            yield from self._take_thought()
        elif member == "modelInvocationInput":
            yield from self._take_thought()
            self._kind = value.get("type") or kind
            self._name_model(value.get("foundationModel", ""))
        elif member == "modelInvocationOutput":
            self._thought = self._reply(kind, value)
        elif member == "invocationInput":
            yield from self._take_thought()
            self._waiting.append(_invocation(value))
        elif member == "observation":
            yield from self._take_thought()
            yield self._observation(value)

    def _take_thought(self) -> Iterator[Step]:
        thought, self._thought = self._thought, None
        if thought is not None:
            yield thought

    def _name_model(self, name: str) -> None:
        name = name.rsplit("/", 1)[-1]
        self._new_model = name if name != self._model else ""
        self._model = name

    def _reply(self, kind: str, value: Json) -> Step:
        metadata = value.get("metadata") or {}
        usage = metadata.get("usage") or {}
        facts = [self._new_model] if self._new_model else []
        self.model_calls += 1
        if usage:
            used = usage.get("inputTokens", 0), usage.get("outputTokens", 0)
            self.tokens = [total + one for total, one in zip(self.tokens, used, strict=True)]
            facts.append(f"{used[0]:,} → {used[1]:,} tokens")
        facts += duration(metadata.get("totalTimeMs"))
        return _thought(kind, self._kind, value, facts)

    def _observation(self, value: Json) -> Step:
        kind = value.get("type", "")
        if kind == "FINISH":
            final = value.get("finalResponse") or {}
            spent = (final.get("metadata") or {}).get("operationTotalTimeMs")
            self.milliseconds = spent if spent is not None else self.milliseconds
            return Step("answers", text=final.get("text", ""))
        if kind == "ASK_USER":
            return Step("asks the user", text=(value.get("finalResponse") or {}).get("text", ""))
        if kind == "REPROMPT":
            told = value.get("repromptResponse") or {}
            return Step("is told to try again", text=told.get("text", ""))
        return self._outcome(kind, value)

    def _outcome(self, kind: str, value: Json) -> Step:
        found = next((it for it in self._waiting if it[0].get("kind") == kind), None)
        step = Step("is given")
        if found is not None:
            self._waiting.remove(found)
            step = found[1]
        for member, read in _OUTPUTS.items():
            if member in value:
                step.text = read(value[member])
                step.facts += duration((value[member].get("metadata") or {}).get("totalTimeMs"))
        if found is not None and found[0].get("executionType") == "RETURN_CONTROL":
            _name_confirmation(step)
        return step


def steps_of(parts: Iterable[Json]) -> list[Step]:
    """All steps of a whole trace."""
    steps = Steps()
    made = [step for part in parts for step in steps.feed(part)]
    return [*made, *steps.rest()]


def activity(part: Json) -> str:
    """What the agent is doing now that it has sent this part; empty when it has just stopped."""
    for kind, told in (part.get("trace") or {}).items():
        if "modelInvocationInput" in told:
            return _STAGES.get(kind, "thinking")
        if "invocationInput" in told:
            call, step = _invocation(told["invocationInput"])
            return "" if call.get("executionType") == "RETURN_CONTROL" else step.subject
    return ""


def signature(call: Json) -> str:
    """A call of an action on one line: `hr::request_vacation(start_date=2027-06-14)`.

    Args:
        call: `actionGroupInvocationInput` of a trace, or a member of `invocationInputs`.
    """
    given = [*call.get("parameters", ()), *_body_of(call)]
    listed = ", ".join(f"{it.get('name')}={short(str(it.get('value')), 80)}" for it in given)
    group = call.get("actionGroupName") or call.get("actionGroup", "")
    if name := call.get("function"):
        return f"{group}::{name}({listed})"
    verb = str(call.get("verb") or call.get("httpMethod", "")).upper()
    return f"{group}::{verb} {call.get('apiPath', '')}" + (f" ({listed})" if listed else "")


def _body_of(call: Json) -> Iterator[Json]:
    for properties in ((call.get("requestBody") or {}).get("content") or {}).values():
        yield from properties.get("properties", ()) if isinstance(properties, dict) else properties


_STAGES = {
    "preProcessingTrace": "checking the input",
    "postProcessingTrace": "rewriting the answer",
}

_OUTPUTS: dict[str, Callable[[Json], str]] = {
    "actionGroupInvocationOutput": lambda it: it.get("text", ""),
    "agentCollaboratorInvocationOutput": lambda it: (it.get("output") or {}).get("text", ""),
    "codeInterpreterInvocationOutput": lambda it: it.get("executionOutput", ""),
    "knowledgeBaseLookupOutput": lambda it: _references(it.get("retrievedReferences") or ()),
}


def _references(found: Iterable[Json]) -> str:
    texts = [short((it.get("content") or {}).get("text", ""), 160) for it in found]
    count = f"{len(texts)} passage{'' if len(texts) == 1 else 's'}"
    return f"{count}: {' | '.join(texts)}" if texts else count


def _invocation(value: Json) -> tuple[Json, Step]:
    if call := value.get("actionGroupInvocationInput"):
        return {**call, "kind": "ACTION_GROUP"}, Step("calls", signature(call))
    if search := value.get("knowledgeBaseLookupInput"):
        base = f"{search.get('knowledgeBaseId', '')} for {short(search.get('text', ''), 200)!r}"
        return {"kind": "KNOWLEDGE_BASE"}, Step("searches", base)
    if asked := value.get("agentCollaboratorInvocationInput"):
        text = short((asked.get("input") or {}).get("text") or "", 200)
        name = f"{asked.get('agentCollaboratorName', '')}: {text}"
        return {"kind": "AGENT_COLLABORATOR"}, Step("asks the agent", name)
    code = (value.get("codeInterpreterInvocationInput") or {}).get("code", "")
    return {"kind": value.get("invocationType", "")}, Step("runs code", short(code, 200))


def _thought(trace: str, kind: str, value: Json, facts: list[str]) -> Step:
    parsed = value.get("parsedResponse") or {}
    if trace == "preProcessingTrace":
        verb = "accepts the input" if parsed.get("isValid", True) else "refuses the input"
        return Step(verb, text=parsed.get("rationale") or "", facts=facts)
    if trace == "postProcessingTrace":
        return Step("rewrites the answer", text=parsed.get("text") or "", facts=facts)
    if trace == "routingClassifierTrace":
        text = (value.get("rawResponse") or {}).get("content", "")
        return Step("chooses an agent", text=text, facts=facts)
    if kind == "KNOWLEDGE_BASE_RESPONSE_GENERATION":
        return Step("reads what was found", facts=facts)
    reasoning = ((value.get("reasoningContent") or {}).get("reasoningText") or {}).get("text", "")
    return Step("thinks", text=reasoning, facts=facts)


def _name_confirmation(step: Step) -> None:
    """A call that the caller only had to confirm has no result yet, or `DENY` (as recorded)."""
    if step.text == "DENY":
        step.verb, step.text = "may not call", ""
    elif not step.text:
        step.verb = "may call"


def _guardrail(told: Json) -> Step:
    passed = told.get("action") == "NONE"
    return Step("passes the guardrail" if passed else "is stopped by the guardrail")


def duration(milliseconds: Any) -> list[str]:
    """A time as a fact, if it is known: `[]`, or `["640 ms"]`, or `["4.3 s"]`."""
    if not isinstance(milliseconds, (int, float)):
        return []
    if milliseconds < 1000:
        return [f"{milliseconds:.0f} ms"]
    return [f"{milliseconds / 1000:.1f} s"]
