"""Bedrock's trace parts as steps: what a page shows of a turn whose journal is elsewhere."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from orchestrator.models.base import Usage
from orchestrator.support.safe_json import json_or

Json = Mapping[str, Any]
_PREVIEW = 200  # characters of a row's text
_MOST_READ = 100_000  # characters of a reply that is read for its texts
_TIME = re.compile(r"(?P<second>[0-9T:-]{19})(?:\.(?P<part>[0-9]{1,9}))?(?:Z|\+00:00)")

# What is asked, what answers it, and what the step is called.
_CALLS = {
    "actionGroupInvocationInput": ("actionGroupInvocationOutput", "action"),
    "knowledgeBaseLookupInput": ("knowledgeBaseLookupOutput", "search"),
    "agentCollaboratorInvocationInput": ("agentCollaboratorInvocationOutput", "agent"),
    "codeInterpreterInvocationInput": ("codeInterpreterInvocationOutput", "action"),
}
_STAGES = {
    "preProcessingTrace": "PRE_PROCESSING",
    "postProcessingTrace": "POST_PROCESSING",
    "routingClassifierTrace": "ROUTING_CLASSIFIER",
}


@dataclass(slots=True)
class TraceStep:
    """One step, with the members that a step of a journal has, and its `parts`.

    Attributes:
        branch: The collaborator's name; empty for the agent itself.
        prompt: What a model call was asked, as the trace has it.
    """

    index: int
    kind: str
    branch: str = ""
    stage: str = ""
    name: str = ""
    began: int = 0
    ended: int = 0
    usage: Usage | None = None
    state: str = ""
    text: str = ""
    prompt: str = ""
    thought: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    parts: list[Json] = field(default_factory=list)
    awaits: str = ""  # the member that answers it

    @property
    def agent(self) -> str:
        """The name of the collaborator whose step it is."""
        return self.branch

    @property
    def record(self) -> dict[str, Any]:
        """Nothing: the journal is the server's."""
        return {}

    @property
    def reply_text(self) -> str:
        """The texts of a reply, which the trace has as its provider's JSON; else the whole text."""
        data = _object(json_or(self.text, None)) if len(self.text) <= _MOST_READ else {}
        message = _object(_object(data.get("output")).get("message")) or data
        blocks = message.get("content")
        if self.kind != "model" or not isinstance(blocks, list):
            return self.text
        return " ".join(filter(None, (_text(_object(it).get("text")) for it in blocks)))

    def as_dict(self) -> dict[str, Any]:
        """The step as a small JSON row."""
        return {
            "index": self.index,
            "kind": self.kind,
            "stage": self.stage,
            "name": self.name,
            "branch": self.branch,
            "began": self.began,
            "ended": self.ended,
            "usage": None if self.usage is None else self.usage._asdict(),
            "state": self.state,
            "text": self.text[:_PREVIEW],
        }


def list_trace_steps(parts: Iterable[Json]) -> list[TraceStep]:
    """The steps of a turn. Never raises, whatever a server calls a trace."""
    reader = _Reader()
    for part in parts:
        reader.take(part)
    return reader.steps


class _Reader:
    def __init__(self) -> None:
        self.steps: list[TraceStep] = []
        self._last: dict[str, TraceStep] = {}  # by collaborator
        self._models: dict[str, TraceStep] = {}  # the last one of each collaborator
        # Calls without an observation, by collaborator and the member that it will have.
        self._open = defaultdict[tuple[str, str], deque[TraceStep]](deque)

    def take(self, part: Json) -> None:
        who, trace = _text(part.get("collaboratorName")), part.get("trace")
        before = len(self.steps)
        at = _read_time(part.get("eventTime"))
        for kind, members in trace.items() if isinstance(trace, Mapping) else ():
            if kind in ("guardrailTrace", "failureTrace"):
                self._take_single(who, kind, _object(members), at)
                continue
            for member, value in _object(members).items():
                self._take_member(who, kind, member, _object(value), at)
        owner = self._last.get(who)
        if len(self.steps) == before and owner is None:
            owner = self._add(who, "trace", at)
        if owner is not None:
            owner.parts.append(part)

    def _add(self, who: str, kind: str, at: int, **members: Any) -> TraceStep:
        step = TraceStep(len(self.steps) + 1, kind, who, began=at, ended=at, **members)
        self.steps.append(step)
        self._last[who] = step
        if kind == "model":
            self._models[who] = step
        if step.awaits:
            self._open[who, step.awaits].append(step)
        return step

    def _take_single(self, who: str, kind: str, value: Json, at: int) -> None:
        if kind == "failureTrace":
            text = _text(value.get("failureReason"))
            self._add(who, "failure", at, state="FAILURE", text=text)
            return
        action = _text(value.get("action"))
        step = self._add(who, "guardrail", at, text=action.lower().replace("_", " "))
        step.state = "INTERVENED" if "INTERVENED" in action else ""
        _measure(step, value)

    def _take_member(self, who: str, kind: str, member: str, value: Json, at: int) -> None:
        if member == "modelInvocationInput":
            stage = _text(value.get("type")) or _STAGES.get(kind, "ORCHESTRATION")
            step = self._add(who, "model", at, stage=stage)
            step.name = _text(value.get("foundationModel")).rpartition("/")[2]
            step.prompt = _text(value.get("text"))
        elif member == "modelInvocationOutput":
            self._take_reply(who, kind, value, at)
        elif member == "rationale":
            if (model := self._models.get(who)) is not None:
                model.thought = _text(value.get("text"))
        elif member == "invocationInput":
            self._take_call(who, value, at)
        elif member == "observation":
            self._take_observation(who, value, at)
        elif member == "event":
            self._add(who, "orchestration", at, text=_text(value.get("text")))

    def _take_reply(self, who: str, kind: str, value: Json, at: int) -> None:
        step = self._last.get(who)
        if step is None or step.kind != "model" or step.usage is not None:
            step = self._add(who, "model", at, stage=_STAGES.get(kind, "ORCHESTRATION"))
        step.ended = max(step.ended, at)
        step.text = _text(_object(value.get("rawResponse")).get("content"))
        usage = _object(_object(value.get("metadata")).get("usage"))
        step.usage = Usage(_number(usage.get("inputTokens")), _number(usage.get("outputTokens")))
        _measure(step, value)

    def _take_call(self, who: str, value: Json, at: int) -> None:
        for member, (output, kind) in _CALLS.items():
            call = value.get(member)
            if isinstance(call, Mapping):
                hands_over = call.get("executionType") == "RETURN_CONTROL"
                step = self._add(who, "return_control" if hands_over else kind, at, awaits=output)
                step.name, step.arguments = _describe_call(member, call)
                return

    def _take_observation(self, who: str, value: Json, at: int) -> None:
        output = next((one for one, _ in _CALLS.values() if one in value), "")
        if output:
            waiting = self._open.get((who, output))
            step = waiting.popleft() if waiting else self._add(who, "results", at)
            step.awaits, step.ended = "", max(step.ended, at)
            step.text = _read_output(_object(value[output]))
            _measure(step, _object(value[output]))
            self._last[who] = step
        elif value.get("type") == "REPROMPT" and (model := self._models.get(who)) is not None:
            model.state = "REPROMPT"


def _describe_call(member: str, call: Json) -> tuple[str, dict[str, Any]]:
    if member == "actionGroupInvocationInput":
        verb = f"{_text(call.get('verb')).upper()} {_text(call.get('apiPath'))}".strip()
        name = f"{_text(call.get('actionGroupName'))}::{_text(call.get('function')) or verb}"
        given = list(call.get("parameters") or ())
        for properties in _object(_object(call.get("requestBody")).get("content")).values():
            given += properties if isinstance(properties, list) else ()
        pairs = [(_text(_object(it).get("name")), _object(it).get("value")) for it in given]
        return name, dict(pairs)
    if member == "knowledgeBaseLookupInput":
        return _text(call.get("knowledgeBaseId")), {"query": _text(call.get("text"))}
    if member == "agentCollaboratorInvocationInput":
        message = _text(_object(call.get("input")).get("text"))
        return _text(call.get("agentCollaboratorName")), {"message": message}
    return "code interpreter", {"code": _text(call.get("code"))}


def _read_output(output: Json) -> str:
    references = output.get("retrievedReferences")
    if isinstance(references, list):
        return f"{len(references)} result{'' if len(references) == 1 else 's'}"
    inner = _text(_object(output.get("output")).get("text"))
    error = _text(output.get("executionError"))
    return _text(output.get("text")) or inner or _text(output.get("executionOutput")) or error


def _measure(step: TraceStep, value: Json) -> None:
    # The metadata's times are exact; a part's own is that of its sending.
    metadata = _object(value.get("metadata"))
    began, ended = _read_time(metadata.get("startTime")), _read_time(metadata.get("endTime"))
    if began and ended >= began:
        step.began, step.ended = began, ended


def _read_time(value: Any) -> int:
    """A time in nanoseconds since 1970; 0 for what is none."""
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return 0
    try:
        seconds = datetime.fromisoformat(f"{found['second']}+00:00").timestamp()
    except ValueError:
        return 0
    return int(seconds) * 1_000_000_000 + int((found["part"] or "0").ljust(9, "0"))


def _object(value: Any) -> Json:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 53 else 0
