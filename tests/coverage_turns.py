"""Turns of every feature, run once: what turns up in them is what COVERAGE.md says works."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from whole_agents import CLAUDE_35, NATIVE, agent, answer, streamed

from orchestrator import (
    ActionGroup,
    Agent,
    Collaborator,
    Memory,
    ReturnControl,
    TurnEnd,
    action,
)
from orchestrator.actions import ActionResult
from orchestrator.flows.custom import LambdaOrchestration
from orchestrator.guardrails import BedrockGuardrail
from orchestrator.testing import FakeKnowledgeBase, ScriptedModel

Path_ = tuple[str, ...]

CODE_FILE = {"name": "a.txt", "source": {"sourceType": "BYTE_CONTENT", "byteContent": {
    "mediaType": "text/plain", "data": b"1"}}, "useCase": "CODE_INTERPRETER"}  # fmt: skip
HISTORY = [
    {"role": "user", "content": [{"text": "I am Ana."}]},
    {"role": "assistant", "content": [{"text": "Hello, Ana."}]},
]
_EVENTS = {
    "TextDelta": "chunk",
    "TracePart": "trace",
    "ControlReturn": "returnControl",
    "Files": "files",
}


@dataclass
class Seen:
    """What turned up.

    Attributes:
        members: Paths of members of trace parts; those of a list's items end in `[]`.
        stages: Prompt types that a model was asked.
        events: Events of InvokeAgent's stream that were told.
    """

    members: set[Path_] = field(default_factory=set)
    stages: set[str] = field(default_factory=set)
    events: set[str] = field(default_factory=set)

    def take(self, events: list[Any], error: Any) -> Any:
        """Takes a streamed turn; its reply."""
        self.events |= {_EVENTS[type(it).__name__] for it in events if type(it) is not TurnEnd}
        reply = error.reply if error is not None else events[-1].reply
        for part in reply.trace:
            self.members |= set(paths_of(part))
        return reply


def paths_of(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    if path:
        yield path
    items = value if isinstance(value, list) else ()
    for item in items:
        yield from paths_of(item, (*path[:-1], f"{path[-1]}[]"))
    if isinstance(value, dict):
        for name, one in value.items():
            yield from paths_of(one, (*path, name))


@cache
def plain_turns() -> list[Any]:
    """The turns of the tests of traces."""
    sys.path.append(str(Path(__file__).parent / "engine"))
    from trace_turns import EACH_TURN

    return EACH_TURN


@cache
def seen() -> Seen:
    """Everything that turned up in turns of every kind."""
    found = Seen()
    for turn, family in plain_turns():
        model = family.model(turn.script(family))
        asked = agent(model, **turn.agent_options())
        _converse(found, asked, [model], turn.results)
    for feature in _FEATURES:
        asked, models, results = feature()
        _converse(found, asked, models, results)
    return found


def _converse(found: Seen, asked: Agent, models: list[ScriptedModel], results: Any = None) -> None:
    options: dict[str, Any] = {"files": [CODE_FILE]} if asked.plan.catalog.code_interpreter else {}
    if asked.plan.features.memory is not None:
        options = {"memory_id": "ana", "end_session": True}
    reply = found.take(*streamed(asked, "How many days?", "s-1", **options))
    if results is not None:
        control = reply.return_control
        given = results(control) if callable(results) else control.answer(results)
        found.take(*streamed(asked, session_id="s-1", results=given))
    found.stages |= {request.stage for model in models for request in model.requests}


Feature = tuple[Agent, list[ScriptedModel], Any]
_FEATURES: list[Callable[[], Feature]] = []
_ON = {"promptState": "ENABLED"}


def _feature(make: Callable[[], Feature]) -> Callable[[], Feature]:
    _FEATURES.append(make)
    return make


def _send(*messages: tuple[str, str]) -> Any:
    calls = [("AgentCommunication::sendMessage", {"recipient": to, "content": it})
             for to, it in messages]  # fmt: skip
    return NATIVE.calls(*calls)


@_feature
def _guarded_input() -> Feature:
    model = NATIVE.model([answer("Never.")])
    return agent(model, guardrail=_guardrail("BLOCKED")), [model], None


@_feature
def _guarded_answer() -> Feature:
    model = NATIVE.model([answer("Twelve.")])
    return agent(model, guardrail=_guardrail("ANONYMIZED", "OUTPUT")), [model], None


def _guardrail(action: str, source: str = "INPUT") -> BedrockGuardrail:
    """A guardrail of Bedrock's whose service finds something in all texts of one source."""
    found = {
        "topicPolicy": {"topics": [{"name": "t", "type": "DENY", "action": action}]},
        "contentPolicy": {"filters": [{"type": "HATE", "confidence": "HIGH", "action": action}]},
        "wordPolicy": {
            "customWords": [{"match": "w", "action": action}],
            "managedWordLists": [{"match": "w", "type": "PROFANITY", "action": action}],
        },
        "sensitiveInformationPolicy": {
            "piiEntities": [{"type": "AGE", "match": "w", "action": action}],
            "regexes": [{"name": "r", "match": "w", "regex": "w", "action": action}],
        },
    }

    class Client:
        def apply_guardrail(self, **asked: Any) -> dict[str, Any]:
            if asked["source"] != source:
                return {"action": "NONE", "outputs": [], "assessments": []}
            text = [{"text": "No."}]
            return {"action": "GUARDRAIL_INTERVENED", "outputs": text, "assessments": [found]}

    return BedrockGuardrail("gr1a2b3c4d5e", "3", client=Client())


@_feature
def _knowledge() -> Feature:
    search = ("GET::x_amz_knowledgebase_HANDBOOK01::Search", {"searchQuery": "when?"})
    model = NATIVE.model([NATIVE.calls(search), _generated, answer("Before April.")])
    base = FakeKnowledgeBase("HANDBOOK01", ["Before April."], "The handbook.")
    prompts = {"KNOWLEDGE_BASE_RESPONSE_GENERATION": _ON}
    return agent(model, knowledge_bases=[base], prompts=prompts), [model], None


_generated = (
    "<answer><answer_part><text>Before April.</text><sources><source>1</source></sources>"
    "</answer_part></answer>"
)


def _answered(control: Any) -> dict[str, Any]:
    """Results with every member that a caller may give."""
    results = []
    for told in control.invocation_inputs:
        ((kind, one),) = told.items()
        names = ("actionGroup", "function", "apiPath", "httpMethod", "agentId")
        known = {name: one[name] for name in names if name in one}
        known |= {"responseBody": {"TEXT": {"body": "done"}}, "confirmationState": "CONFIRM"}
        known["responseState"] = "REPROMPT"
        if kind == "apiInvocationInput":
            known["httpStatusCode"] = 200
        results.append({kind.replace("InvocationInput", "Result"): known})
    return {
        "invocationId": control.invocation_id,
        "returnControlInvocationResults": results,
    }


def _doors() -> list[ActionGroup]:
    """A function and an API whose calls go to the caller."""
    function = {"name": "open", "description": "O."}
    at = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    shut = {"operationId": "shut", "description": "Shuts.", "parameters": [at],
            "requestBody": {"content": {"application/json": {"schema": {
                "type": "object", "properties": {"why": {"type": "string"}}}}}},
            "responses": {}}  # fmt: skip
    api = {"openapi": "3.0.0", "info": {"title": "t", "version": "1"},
           "paths": {"/doors/{id}": {"post": shut}}}  # fmt: skip
    return [
        ActionGroup("d", functions=[function], executor=ReturnControl()),
        ActionGroup("api", api_schema=api, executor=ReturnControl()),
    ]


def _opened() -> Any:
    return NATIVE.calls(("d::open", {}), ("POST::api::shut", {"id": "1", "why": "w"}))


@_feature
def _team() -> Feature:
    model = NATIVE.model([_send(("days", "Ana's?"), ("doors", "Open.")), answer("Twelve.")])
    led = [NATIVE.model([answer("12")]), NATIVE.model([_opened(), answer("!")])]
    team = [
        Collaborator(Agent("days", "You count days.", led[0]), "Days."),
        Collaborator(Agent("doors", "You open.", led[1], action_groups=_doors()), "Doors."),
    ]
    return agent(model, collaborators=team), [model, *led], _answered


def _routed(model: ScriptedModel, led: ScriptedModel, **options: Any) -> Agent:
    one = Agent("doors", "You open.", led, action_groups=_doors())
    team = [Collaborator(one, "Doors.")]
    return agent(model, collaborators=team, collaboration="SUPERVISOR_ROUTER", **options)


@_feature
def _routing() -> Feature:
    model, led = NATIVE.model(["<a>doors</a>"]), NATIVE.model([answer("12")])
    return _routed(model, led), [model, led], None


@_feature
def _routing_with_return() -> Feature:
    model, led = NATIVE.model(["<a>doors</a>"]), NATIVE.model([_opened(), answer("Open.")])
    return _routed(model, led), [model, led], _answered


class _Programs:
    """Returns what the code interpreter does, whose sandbox is not on every machine."""

    def __init__(self, output: str, error: str = "") -> None:
        self._details = {
            "executionOutput": output,
            "executionError": error,
            "executionTimeout": bool(error),
        }

    def call(self, call: Any, context: Any) -> ActionResult:
        files = ({"name": "a.txt", "type": "text/plain", "bytes": b"2"},)
        return ActionResult("2", files=files, details=self._details)


def _run_program(programs: _Programs) -> Feature:
    run = ("get::codeinterpreteraction::execute", {"code": "print(1 + 1)"})
    model = NATIVE.model([NATIVE.calls(run), answer("Two.")])
    group = ActionGroup("code", signature="AMAZON.CodeInterpreter", executor=programs)
    return agent(model, [group]), [model], None


@_feature
def _code() -> Feature:
    return _run_program(_Programs("2"))


@_feature
def _slow_code() -> Feature:
    return _run_program(_Programs("", "TimeoutError"))


@_feature
def _remembering() -> Feature:
    summary = "<summary><topic name='days'>Asked.</topic></summary>"
    model = NATIVE.model([answer("Twelve."), summary])
    return agent(model, memory=Memory()), [model], None


@_feature
def _custom() -> Feature:
    def handler(event: dict[str, Any]) -> dict[str, Any]:
        told = {"text": "Twelve.", "trace": {"event": {"text": "I know it."}}}
        return {"version": "1.0", "actionEvent": "FINISH", "output": told, "context": {}}

    model = NATIVE.model([])
    return agent(model, orchestration=LambdaOrchestration(handler)), [model], None


PARSED: dict[str, Any] = {
    "PRE_PROCESSING": ("preProcessing", {"isValidInput": True, "rationale": "Fine."}),
    "ROUTING_CLASSIFIER": ("routingClassifier", {"responseDetails": {"type": "UNDECIDED"}}),
    "ORCHESTRATION": ("orchestration", {"rationale": "So.", "responseDetails": {
        "invocationType": "FINISH", "agentFinalResponse": {"responseText": "Twelve."}}}),
    "POST_PROCESSING": ("postProcessing", {"responseText": "Twelve."}),
    "KNOWLEDGE_BASE_RESPONSE_GENERATION": ("knowledgeBaseResponseGeneration", {
        "generatedResponse": {"generatedResponseParts": [{"text": "Before April."}]}}),
    "MEMORY_SUMMARIZATION": ("memorySummarization", {
        "topicwiseSummaries": [{"topic": "Days", "summary": "Asked."}]}),
}  # fmt: skip


@_feature
def _own_parsers() -> Feature:
    def parse(event: dict[str, Any]) -> dict[str, Any]:
        member, told = PARSED[event["promptType"]]
        return {"promptType": event["promptType"], f"{member}ParsedResponse": told}

    thought = {"reasoningText": {"text": "I think.", "signature": "c2ln"}}
    reply = [{"reasoningContent": thought}, {"text": "12"}]
    inference = {"temperature": 0, "topP": 1, "topK": 1, "maximumLength": 9, "stopSequences": ["x"]}
    changed = {**_ON, "parserMode": "OVERRIDDEN", "inferenceConfiguration": inference}
    model = NATIVE.model([reply] * 5)
    prompts = dict.fromkeys(PARSED, changed)
    led, options = NATIVE.model([]), {"prompts": prompts, "override_lambda": parse}
    return _routed(model, led, memory=Memory(), **options), [model], None


@_feature
def _inline() -> Feature:
    @action
    def days() -> int:
        """Counts days."""
        return 12

    model = ScriptedModel([NATIVE.calls(("g::days", {})), answer("Twelve.")], CLAUDE_35)
    asked = Agent.inline(
        model=model, instruction="You help.", actionGroups=[ActionGroup("g", actions=[days])]
    )
    return asked, [model], None
