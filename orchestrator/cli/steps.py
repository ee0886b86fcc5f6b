"""A trace as steps that read aloud: "1. thinks … 2. calls claims::getClaim(claimId=claim-857)".

Fed with Bedrock's trace parts only, so that any recorded trace can be read: one of this engine, or
one of the service (AWS: `InvokeAgent`, `TracePart`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.cli.terminal import format_count, shorten
from orchestrator.support.logs import escape
from orchestrator.support.redaction import redact

Json = Mapping[str, Any]


@dataclass(slots=True)
class Step:
    """One thing that the agent did."""

    verb: str  # what it did: `thinks`, `calls`, `answers`, …
    subject: str = ""  # with whom or what, such as a call
    text: str = ""  # the result
    # Model, tokens, time, files.
    facts: list[str] = field(default_factory=list)
    agent: str = ""  # the collaborator that did it; empty for the agent itself


class Steps:
    """Makes steps of trace parts as they come."""

    def __init__(self) -> None:
        self.model_calls = 0
        self.tokens = [0, 0]  # of input and of output
        self.milliseconds: int | None = None  # of the whole turn
        # Those of a team may work at the same time.
        self._agents: dict[str, _AgentSteps] = {}
        self._answers: dict[str, str] = {}

    def feed(self, part: Json) -> Iterator[Step]:
        """The steps that are known with the next part."""
        who = part.get("collaboratorName") or ""
        if who not in self._agents:
            self._agents[who] = _AgentSteps()
        trace = part.get("trace") or {}
        self._count_usage(who, trace)
        for step in self._agents[who].feed(trace):
            step.agent = who
            if step.verb in _ANSWERS:
                self._answers[who] = step.text
            elif step.verb == _HEARS and step.text == self._answers.pop(step.subject, None):
                # The collaborator's own step has just shown this text.
                step.text = ""
            yield step

    def flush(self) -> Iterator[Step]:
        """What had no outcome: calls that wait for the caller, or that never came back."""
        for who, agent in self._agents.items():
            for step in agent.flush():
                step.agent = who
                yield step

    def _count_usage(self, who: str, trace: Json) -> None:
        for member in trace.values():
            if not isinstance(member, Mapping):
                continue
            if "modelInvocationOutput" in member:
                self.model_calls += 1
                used = _get_usage(member["modelInvocationOutput"]) or (0, 0)
                self.tokens = [total + one for total, one in zip(self.tokens, used, strict=True)]
            final = (member.get("observation") or {}).get("finalResponse") or {}
            spent = (final.get("metadata") or {}).get("operationTotalTimeMs")
            if spent is not None and not who:
                self.milliseconds = spent


class _AgentSteps:
    # The steps of one agent of a team, of its own parts.

    def __init__(self) -> None:
        self._model = ""
        self._new_model = ""
        self._kind = ""
        self._thought: Step | None = None
        self._waiting: list[tuple[Json, Step]] = []

    def feed(self, trace: Json) -> Iterator[Step]:
        for kind, part in trace.items():
            if kind == "guardrailTrace":
                yield from self._take_thought()
                yield _make_guardrail_step(part)
            elif kind == "failureTrace":
                yield from self._take_thought()
                yield Step("fails", text=part.get("failureReason", ""))
            elif isinstance(part, Mapping):
                for member, value in part.items():
                    yield from self._handle_member(kind, member, value)

    def flush(self) -> Iterator[Step]:
        yield from self._take_thought()
        waiting, self._waiting = self._waiting, []
        for call, step in waiting:
            if call.get("executionType") == "RETURN_CONTROL":
                step.verb, step.text = "hands over", "waits for the caller"
            else:
                step.text = step.text or "no result"
            yield step

    def _handle_member(self, kind: str, member: str, value: Any) -> Iterator[Step]:
        if member == "modelInvocationOutput":
            self._thought = self._make_reply_step(kind, value)
            return
        if member == "rationale" and self._thought is not None:
            self._thought.text = value.get("text", "")
        if member in _MEMBERS:
            yield from self._take_thought()
        if member == "modelInvocationInput":
            self._kind = value.get("type") or kind
            self._name_model(value.get("foundationModel", ""))
        elif member == "invocationInput":
            call, step = _parse_invocation(value)
            # Other calls wait for their outcome, to be shown in one step. The steps of a
            # collaborator come between its question and its outcome: that is shown at once.
            if call["kind"] == _AGENT:
                yield step
            else:
                self._waiting.append((call, step))
        elif member == "observation":
            yield self._make_observation_step(value)
        elif member == "event":
            yield Step("notes", text=value.get("text", ""))

    def _take_thought(self) -> Iterator[Step]:
        thought, self._thought = self._thought, None
        if thought is not None:
            yield thought

    def _name_model(self, name: str) -> None:
        # Bedrock names an inference profile by its ARN; the model is the last part of it.
        name = name.rsplit("/", 1)[-1]
        self._new_model = name if name != self._model else ""
        self._model = name

    def _make_reply_step(self, kind: str, value: Json) -> Step:
        facts = [self._new_model] if self._new_model else []
        if used := _get_usage(value):
            facts.append(f"{used[0]:,} → {used[1]:,} tokens")
        facts += format_duration((value.get("metadata") or {}).get("totalTimeMs"))
        return _make_thought_step(kind, self._kind, value, facts)

    def _make_observation_step(self, value: Json) -> Step:
        kind = value.get("type", "")
        if kind in ("FINISH", "ASK_USER"):
            verb = "answers" if kind == "FINISH" else "asks the user"
            return Step(verb, text=(value.get("finalResponse") or {}).get("text", ""))
        if kind == "REPROMPT":
            reprompt = value.get("repromptResponse") or {}
            return Step("is told to try again", text=reprompt.get("text", ""))
        return self._make_outcome_step(value)

    def _make_outcome_step(self, value: Json) -> Step:
        member = next((name for name in _OUTPUTS if name in value), "")
        output = value.get(member) or {}
        kind, read = _OUTPUTS.get(member, ("", lambda _: ""))
        found = next((it for it in self._waiting if it[0]["kind"] == kind), None)
        step = Step("is given")
        if found is not None:
            self._waiting.remove(found)
            step = found[1]
        elif kind == _AGENT:
            step = Step(_HEARS, output.get("agentCollaboratorName", ""))
        step.text = read(output)
        step.facts += format_duration((output.get("metadata") or {}).get("totalTimeMs"))
        step.facts += output.get("files") or ()
        # With RETURN_CONTROL the caller has carried the call out, or has only confirmed it.
        if found is not None and found[0].get("executionType") == "RETURN_CONTROL":
            _name_confirmation(step)
        return step


def list_steps(parts: Iterable[Json]) -> list[Step]:
    """All steps of a whole trace."""
    steps = Steps()
    listed = [step for part in parts for step in steps.feed(part)]
    return [*listed, *steps.flush()]


def describe_activity(part: Json) -> str:
    """What the agent is doing now that it has sent this part; empty when it has just stopped.

    Such as `calling GET /orders/{orderId} with orderId=1042`. Values are cut, and without what has
    the form of a credential: the line is on the screen whatever the user asked to see.
    """
    doing = ""
    for kind, trace in (part.get("trace") or {}).items():
        if "modelInvocationInput" in trace:
            doing = _STAGES.get(kind, "reading and thinking")
        elif "invocationInput" in trace:
            doing = _describe_invocation(trace["invocationInput"])
    who = part.get("collaboratorName")
    return f"{who}: {doing}" if who and doing else doing


def describe_running_call(part: Json) -> str:
    """The call that is carried out now that the agent has sent this part; empty without one.

    Asking a collaborator is none: it has no effect by itself, only its actions have.
    """
    for trace in (part.get("trace") or {}).values():
        if "invocationInput" in trace:
            call, step = _parse_invocation(trace["invocationInput"])
            if call["kind"] != _AGENT and call.get("executionType") != "RETURN_CONTROL":
                return step.subject
    return ""


def describe_hand_over(part: Json, agent: str) -> str:
    """That an agent hands over to one that it leads, with its words; empty where none does.

    Args:
        part: A trace part.
        agent: The name of the agent that was invoked.
    """
    for trace in (part.get("trace") or {}).values():
        value = trace.get("invocationInput") if isinstance(trace, Mapping) else None
        if value and "agentCollaboratorInvocationInput" in value:
            _, step = _parse_invocation(value)
            said = f": {shorten(step.text, _SAID)}" if step.text else ""
            return f"{part.get('collaboratorName') or agent} hands over to {step.subject}{said}"
    return ""


def _describe_invocation(value: Json) -> str:
    call, step = _parse_invocation(value)
    if call.get("executionType") == "RETURN_CONTROL":
        return ""
    if call["kind"] == _ACTION:
        values = [
            redact(f"{name}={shorten(shown, _SHOWN)}", most=2 * _SHOWN)
            for name, shown in _list_values(call)
        ]
        given = f" with {escape(', '.join(values))}" if values else ""
        return f"calling {escape(_name_operation(call))}{given}"
    if call["kind"] == _SEARCH:
        return f"searching the knowledge base {redact(escape(step.subject))}"
    if call["kind"] == _AGENT:
        return f"asking the agent {step.subject}"
    return f"running {redact(escape(step.subject))}"


def format_call(call: Json) -> str:
    """A call of an action on one line: `hr::request_vacation(start_date=2027-06-14)`.

    Args:
        call: `actionGroupInvocationInput` of a trace, or a member of `invocationInputs`.
    """
    # The values are a model's, and users confirm calls by this line: what would hide in it, or turn
    # it around, is written as an escape sequence.
    listed = ", ".join(f"{name}={escape(shorten(value, 80))}" for name, value in _list_values(call))
    group = call.get("actionGroupName") or call.get("actionGroup", "")
    operation = f"{group}::{_name_operation(call)}"
    if call.get("function"):
        return f"{operation}({listed})"
    return operation + (f" ({listed})" if listed else "")


def _name_operation(call: Json) -> str:
    if name := call.get("function"):
        return str(name)
    verb = str(call.get("verb") or call.get("httpMethod", "")).upper()
    return f"{verb} {call.get('apiPath', '')}"


def _list_values(call: Json) -> list[tuple[str, str]]:
    parameters = (*call.get("parameters", ()), *_iter_body_properties(call))
    return [(str(it.get("name")), str(it.get("value"))) for it in parameters]


def _iter_body_properties(call: Json) -> Iterator[Json]:
    for properties in ((call.get("requestBody") or {}).get("content") or {}).values():
        yield from properties.get("properties", ()) if isinstance(properties, dict) else properties


# How much of a value, and of a message to a collaborator, a line of what happens now has.
_SHOWN, _SAID = 60, 200

# Members of a trace part that come after a model's thought.
_MEMBERS = ("rationale", "modelInvocationInput", "invocationInput", "observation", "event")
_STAGES = {
    "preProcessingTrace": "checking the input",
    "postProcessingTrace": "rewriting the answer",
    "routingClassifierTrace": "choosing an agent",
}
_ACTION, _AGENT, _CODE, _SEARCH = "action", "agent", "code", "search"
_HEARS = "hears from"
_ANSWERS = frozenset({"answers", "asks the user"})


def _get_usage(output: Json) -> tuple[int, int] | None:
    usage = (output.get("metadata") or {}).get("usage")
    return (usage.get("inputTokens", 0), usage.get("outputTokens", 0)) if usage else None


def _format_collaborator_output(invocation: Json) -> str:
    output = invocation.get("output") or {}
    if output.get("type") == "RETURN_CONTROL":
        return "its calls wait for the caller"
    return output.get("text") or ""


def _format_code_output(output: Json) -> str:
    texts = [str(output.get("executionOutput") or "").strip()]
    if error := str(output.get("executionError") or "").strip():
        texts.append(f"fails: {error.splitlines()[-1]}")
    if output.get("executionTimeout"):
        texts.append("its time was up")
    return "; ".join(filter(None, texts))


def _format_references(output: Json) -> str:
    found = output.get("retrievedReferences") or ()
    texts = [shorten((it.get("content") or {}).get("text", ""), 160) for it in found]
    count = format_count(len(texts), "passage")
    return f"{count}: {' | '.join(texts)}" if texts else count


_OUTPUTS: dict[str, tuple[str, Callable[[Json], str]]] = {
    "actionGroupInvocationOutput": (_ACTION, lambda output: output.get("text", "")),
    "agentCollaboratorInvocationOutput": (_AGENT, _format_collaborator_output),
    "codeInterpreterInvocationOutput": (_CODE, _format_code_output),
    "knowledgeBaseLookupOutput": (_SEARCH, _format_references),
}


def _parse_invocation(value: Json) -> tuple[Json, Step]:
    if call := value.get("actionGroupInvocationInput"):
        return {**call, "kind": _ACTION}, Step("calls", format_call(call))
    if search := value.get("knowledgeBaseLookupInput"):
        base = f"{search.get('knowledgeBaseId', '')} for {shorten(search.get('text', ''), 200)!r}"
        return {"kind": _SEARCH}, Step("searches", base)
    if asked := value.get("agentCollaboratorInvocationInput"):
        message = asked.get("input") or {}
        text = message.get("text") or ""
        if message.get("type") == "RETURN_CONTROL":
            text = "the results of its calls"
        return {"kind": _AGENT}, Step(
            "asks the agent", asked.get("agentCollaboratorName", ""), text
        )
    code = (value.get("codeInterpreterInvocationInput") or {}).get("code", "")
    return {"kind": _CODE}, Step("runs code", shorten(" ⏎ ".join(code.split("\n")), 200))


def _make_thought_step(trace: str, kind: str, value: Json, facts: list[str]) -> Step:
    parsed = value.get("parsedResponse") or {}
    if trace == "preProcessingTrace":
        verb = "accepts the input" if parsed.get("isValid", True) else "refuses the input"
        return Step(verb, text=parsed.get("rationale") or "", facts=facts)
    if trace == "postProcessingTrace":
        return Step("rewrites the answer", text=parsed.get("text") or "", facts=facts)
    if trace == "routingClassifierTrace":
        return _make_choice_step((value.get("rawResponse") or {}).get("content") or "", facts)
    if kind == "KNOWLEDGE_BASE_RESPONSE_GENERATION":
        return Step("reads what was found", facts=facts)
    reasoning = ((value.get("reasoningContent") or {}).get("reasoningText") or {}).get("text", "")
    return Step("thinks", text=reasoning, facts=facts)


_CHOICE = re.compile(r"<a>([^<]*)</a>")
# Names that the classifier gives in place of an agent (Bedrock: ROUTING_CLASSIFIER).
_NO_AGENT = {
    "undecidable": "chooses no agent",
    "keep_previous_agent": "keeps the previous agent",
}


def _make_choice_step(reply: str, facts: list[str]) -> Step:
    found = _CHOICE.search(reply)
    if found is None:
        return Step("chooses no agent", text=reply, facts=facts)
    choice = found[1].strip()
    verb = _NO_AGENT.get(choice)
    return Step(verb or "chooses an agent", "" if verb else choice, facts=facts)


def _name_confirmation(step: Step) -> None:
    # A call that the caller only had to confirm has no result yet, or `DENY` (recorded).
    if step.text == "DENY":
        step.verb, step.text = "may not call", ""
    elif not step.text:
        step.verb = "may call"


def _make_guardrail_step(trace: Json) -> Step:
    if trace.get("action") == "NONE":
        return Step("passes the guardrail")
    found, blocked = describe_policies(trace)
    verb = "is stopped by the guardrail" if blocked else "is masked by the guardrail"
    return Step(verb, found)


def format_duration(milliseconds: Any) -> list[str]:
    """A time as a fact, if it is known: `[]`, or `["640 ms"]`, or `["4.3 s"]`."""
    if not isinstance(milliseconds, (int, float)):
        return []
    if milliseconds < 1000:
        return [f"{milliseconds:.0f} ms"]
    return [f"{milliseconds / 1000:.1f} s"]


def describe_policies(trace: Json) -> tuple[str, bool]:
    """What a guardrail found, and whether it blocked the text or only masked it.

    Values that it found, which may be secret, are not among it.

    Returns:
        Such as `in the input: EMAIL, topic 'wages'`, and whether the text was blocked.
    """
    texts, actions = [], set()
    for member, where in (("inputAssessments", "input"), ("outputAssessments", "output")):
        findings = [
            it
            for assessment in trace.get(member) or ()
            for it in _findings(assessment)
            if it[1].get("action", "BLOCKED") != "NONE"
        ]
        actions |= {one.get("action", "BLOCKED") for _, one in findings}
        if names := dict.fromkeys(_name(kind, one) for kind, one in findings):
            texts.append(f"in the {where}: {', '.join(names)}")
    return "; ".join(texts), actions != {"ANONYMIZED"}


def _findings(assessment: Json) -> Iterator[tuple[str, Json]]:
    for policy in assessment.values():
        if isinstance(policy, Mapping):
            for kind, found in policy.items():
                if isinstance(found, list):
                    yield from ((kind, one) for one in found if isinstance(one, Mapping))


def _name(kind: str, one: Json) -> str:
    if kind == "topics":
        return f"topic {one.get('name', '')!r}"
    if kind == "customWords":
        return f"word {one.get('match', '')!r}"
    if kind == "regexes":
        return f"expression {one.get('name', '')!r}"
    name = str(one.get("type") or kind)
    confidence = one.get("confidence")
    return f"{name} ({confidence})" if confidence else name
