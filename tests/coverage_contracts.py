"""Which members of the Lambda contracts of parsers and orchestrations work, by trying each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from coverage_turns import PARSED
from coverage_wire import Row, code, state
from whole_agents import NATIVE, Calls

from orchestrator import Agent
from orchestrator.flows.custom import LambdaOrchestration
from orchestrator.guardrails import Verdict
from orchestrator.parsers import STAGES
from orchestrator.parsers.parser_response import read_response
from orchestrator.testing import FakeKnowledgeBase

# The parser's Lambda function

_PARSER_EVENT = ("messageVersion", "agent", "invokeModelRawResponse", "promptType", "overrideType")
_KINDS: Mapping[str, tuple[str, Any]] = {
    "ACTION_GROUP": (
        "actionGroupInvocation",
        {"actionGroupName": "vacations", "functionName": "get_days",
         "actionGroupInput": {"employee": {"value": "e"}}},
    ),
    "KNOWLEDGE_BASE": (
        "agentKnowledgeBase",
        {"knowledgeBaseId": "HANDBOOK01", "searchQuery": {"value": "when?"}},
    ),
    "ASK_USER": ("agentAskUser", {"responseText": "Whose?"}),
    "FINISH": ("agentFinalResponse", {"responseText": "Twelve."}),
}  # fmt: skip
_LISTS = ("ACTION_GROUP", "KNOWLEDGE_BASE")


def parser_events() -> Iterator[Row]:
    """Members of the event that a parser of one's own gets."""
    events: list[dict[str, Any]] = []

    def parse(event: dict[str, Any]) -> dict[str, Any]:
        events.append(event)
        return _parsed_as("FINISH", "1.0")

    _parsing(parse)
    for name in _PARSER_EVENT:
        yield code(name), state(events[0].get(name))


def parser_responses() -> Iterator[Row]:
    """What a parser of one's own may return: versions, kinds of decision, stages."""
    for kind, (member, _) in _KINDS.items():
        for version in ("1.0", "2.0"):
            name = f"{member}s" if version == "2.0" and kind in _LISTS else member
            replies = [_parsed_as(kind, version), _parsed_as("FINISH", "1.0")]
            reply = _parsing(_giving(replies))
            ends = {"ASK_USER": ("ask_user", 1), "FINISH": ("end_turn", 1)}
            works = (reply.stop_reason, len(replies)) == ends.get(kind, ("end_turn", 0))
            path = f"orchestrationParsedResponse.responseDetails.{name}"
            yield version, code(path), state(works), code(kind)
    again = {"rationale": "", "parsingErrorDetails": {"repromptResponse": "Write JSON."}}
    replies = [{"orchestrationParsedResponse": again}, _parsed_as("FINISH", "1.0")]
    works = _parsing(_giving(replies)).text == "Twelve." and not replies
    path = "orchestrationParsedResponse.parsingErrorDetails.repromptResponse"
    yield "1.0", code(path), state(works), "the model reads it"
    for stage in STAGES:
        if stage != "ORCHESTRATION":
            yield (
                "1.0",
                code(f"{PARSED[stage][0]}ParsedResponse"),
                state(_reads(stage)),
                code(stage),
            )


def _reads(stage: str) -> bool:
    member, value = PARSED[stage]
    name = f"{member}ParsedResponse"
    return bool(read_response({"promptType": stage, name: value}, stage).response[name])


def _giving(replies: list[Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda event: replies.pop(0)


def _parsed_as(kind: str, version: str) -> dict[str, Any]:
    member, value = _KINDS[kind]
    several = version == "2.0" and kind in _LISTS
    details = {f"{member}s": [value]} if several else {member: value}
    told = {"rationale": "So.", "responseDetails": {"invocationType": kind, **details}}
    return {"messageVersion": version, "promptType": "ORCHESTRATION",
            "orchestrationParsedResponse": told}  # fmt: skip


def _parsing(parse: Callable[[dict[str, Any]], Any]) -> Any:
    agent = Agent(
        "hr",
        "You help.",
        NATIVE.model(["12", "12"]),
        action_groups=Calls().groups(ask_user=True),
        knowledge_bases=[FakeKnowledgeBase("HANDBOOK01", ["Before April."])],
        prompts={"ORCHESTRATION": {"parserMode": "OVERRIDDEN"}},
        override_lambda=parse,
    )
    return agent.invoke("Hi", "s-1")


# The orchestration's Lambda function

_EVENT = (
    *("version", "state", "input.text", "context.requestId", "context.sessionId"),
    *(f"context.agentConfiguration.{name}" for name in ("instruction", "defaultModelId", "tools")),
    *("context.agentConfiguration.guardrails", "context.session", "context.sessionAttributes"),
    *("context.promptSessionAttributes",),
)
_ASK = {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}
_CALL = {"toolUse": {"toolUseId": "t-1", "name": "vacations__get_days", "input": {"employee": "e"}}}
_CHECK = {"source": "INPUT", "content": [{"text": {"text": "Hi"}}]}


def orchestration_events() -> Iterator[Row]:
    """Members of the event that an orchestration's Lambda gets, and its states."""
    events = _orchestrated()
    for path in _EVENT:
        yield code(path), state(any(_at(event, path) for event in events))
    for name in ("START", "MODEL_INVOKED", "TOOL_INVOKED", "APPLY_GUARDRAIL_INVOKED"):
        yield code(f"state: {name}"), state(name in [event["state"] for event in events])


def orchestration_replies() -> Iterator[Row]:
    """What an orchestration's Lambda may return."""
    states = [event["state"] for event in _orchestrated()]
    for event, then in (
        ("INVOKE_MODEL", "MODEL_INVOKED"),
        ("INVOKE_TOOL", "TOOL_INVOKED"),
        ("APPLY_GUARDRAIL", "APPLY_GUARDRAIL_INVOKED"),
        ("FINISH", "START"),
    ):
        yield code(f"actionEvent: {event}"), state(then in states)


def _orchestrated() -> list[dict[str, Any]]:
    class Allows:
        id = "g-1"

        def check(self, text: str, source: str) -> Any:
            return Verdict(text=text)

    events: list[dict[str, Any]] = []
    does = [("INVOKE_MODEL", json.dumps(_ASK)), ("INVOKE_TOOL", json.dumps(_CALL)),
            ("APPLY_GUARDRAIL", json.dumps(_CHECK)), ("FINISH", "Twelve."),
            ("FINISH", "Again.")]  # fmt: skip

    def handler(event: dict[str, Any]) -> dict[str, Any]:
        events.append(event)
        name, text = does[len(events) - 1]
        return {"version": "1.0", "actionEvent": name, "output": {"text": text}}

    agent = Agent(
        "hr",
        "You help.",
        NATIVE.model(["12"]),
        action_groups=Calls().groups(),
        orchestration=LambdaOrchestration(handler),
        guardrail=Allows(),
    )
    given = {"session_attributes": {"a": "b"}, "prompt_session_attributes": {"c": "d"}}
    assert agent.invoke("Hi", "s-1", **given).text == "Twelve."
    assert agent.invoke("And?", "s-1").text == "Again."
    return events


def _at(event: Any, path: str) -> Any:
    for name in path.split("."):
        event = event.get(name) if isinstance(event, dict) else None
    return event
