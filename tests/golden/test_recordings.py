"""Recordings of the real service, replayed: its models' replies in, its trace out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from golden_recordings import final_text, members, raw_reply, recording, replies, traces

from orchestrator import ActionGroup, Agent
from orchestrator.actions import ActionResult, Call, CallContext
from orchestrator.testing import ScriptedModel

FUNCTIONS = [
    {
        "name": "add_two_numbers",
        "description": "Adds two numbers.",
        "parameters": {
            "n1": {"type": "number", "description": "One number.", "required": True},
            "n2": {"type": "number", "description": "The other.", "required": True},
        },
    },
    {"name": "get_time", "description": "The time of day.", "parameters": {}},
]
INFERENCE = {
    "maximumLength": 2048,
    "temperature": 0.0,
    "topP": 1.0,
    "topK": 250,
    "stopSequences": ["</invoke>", "</answer>", "</error>"],
}
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


class Recorded:
    """An executor that returns the recorded outputs."""

    def __init__(self, *recordings: dict[str, Any]) -> None:
        self.outputs = [
            value["actionGroupInvocationOutput"]["text"]
            for recorded in recordings
            for part in traces(recorded)
            for _, member, value in [members(part)]
            if member == "observation" and "actionGroupInvocationOutput" in value
        ]

    def call(self, call: Call, context: CallContext) -> ActionResult:
        return ActionResult(self.outputs.pop(0))


def told(part: dict[str, Any]) -> dict[str, Any]:
    """What a trace part says, without times, random ids and prompts."""
    kind, member, value = members(part)
    kept = {"kind": kind, "member": member, "id": re.sub(UUID, "<uuid>", value["traceId"])}
    for key in ("text", "type", "invocationType", "actionGroupInvocationInput", "parsedResponse"):
        if key in value and member != "modelInvocationInput":
            kept[key] = value[key]
    if member == "modelInvocationInput":
        kept["type"] = value["type"]
        kept["foundationModel"] = value["foundationModel"]
        kept["inferenceConfiguration"] = plain(value.get("inferenceConfiguration"))
    for key in ("actionGroupInvocationOutput", "finalResponse"):
        if key in value:
            kept[key] = value[key]["text"]
    if member == "modelInvocationOutput":
        kept["raw"] = raw_reply(value)
        kept["usage"] = sorted(plain(value["metadata"]["usage"]))
    for output in (value, *value.values()):
        if isinstance(output, dict) and "metadata" in output:
            kept["metadata"] = sorted(plain(output["metadata"]))
    return kept


def plain(value: Any) -> Any:
    """An object without the stray member that names its type (recorded)."""
    return {name: it for name, it in (value or {}).items() if name != "__type"}


def expected(recorded: dict[str, Any]) -> list[dict[str, Any]]:
    found = [told(part) for part in traces(recorded)]
    for part in found:
        if "rationale" in part.get("parsedResponse", {}):
            # The recording shows line breaks as backslash and n.
            text = part["parsedResponse"]["rationale"]
            part["parsedResponse"]["rationale"] = text.replace("\\n", "\n")
        if part.get("inferenceConfiguration") == {}:  # the service does not tell an inline agent's
            part["inferenceConfiguration"] = INFERENCE
    return found


def agent(model: ScriptedModel, *recordings: dict[str, Any], **options: Any) -> Agent:
    groups = []
    if recordings:
        groups = [
            ActionGroup(
                "action_group_quick_start_6gq19",
                functions=FUNCTIONS,
                executor=Recorded(*recordings),
            )
        ]
    return Agent(
        "golden",
        "You answer the questions of customers with the help of action groups.",
        model,
        action_groups=groups,
        **options,
    )


def scripted(*recordings: dict[str, Any]) -> ScriptedModel:
    script = [reply for recorded in recordings for reply in replies(recorded)]
    return ScriptedModel(script, model_id="anthropic.claude-3-5-sonnet-20240620-v1:0")


def ask(agent: Agent, recorded: dict[str, Any]) -> Any:
    return agent.invoke(recorded["request"]["inputText"], session_id="default_session_id")


def test_a_tool_call_with_parameters() -> None:
    recorded = recording("tool_calls_with_input_params")
    reply = ask(agent(scripted(recorded), recorded), recorded)
    assert [told(part) for part in reply.trace] == expected(recorded)
    assert reply.text == final_text(recorded)


def test_a_tool_call_without_parameters_in_the_same_session() -> None:
    first = recording("tool_calls_with_input_params")
    second = recording("tool_calls_without_input_params")
    model = scripted(first, second)
    calculator = agent(model, first, second)
    ask(calculator, first)
    reply = ask(calculator, second)
    assert [told(part) for part in reply.trace] == expected(second)
    assert reply.text == final_text(second)
    # The first turn is replayed with its steps, as recorded.
    told_again = json.dumps(model.requests[2].messages)
    assert "<answer>The sum of 10 and 20 is 30.</answer>" in told_again
    roles = [message["role"] for message in model.requests[2].messages]
    assert roles == ["user", "assistant", "user", "assistant", "user"]


def test_pre_processing() -> None:
    recorded = recording("preprocessing_trace")
    asked = agent(scripted(recorded), prompts={"PRE_PROCESSING": {"promptState": "ENABLED"}})
    reply = ask(asked, recorded)
    assert [told(part) for part in reply.trace] == expected(recorded)
    assert reply.text == final_text(recorded)


def test_post_processing() -> None:
    recorded = recording("post_processing_trace")
    asked = agent(scripted(recorded), prompts={"POST_PROCESSING": {"promptState": "ENABLED"}})
    reply = ask(asked, recorded)
    assert [told(part) for part in reply.trace] == expected(recorded)
    assert reply.text == final_text(recorded)


def test_an_inline_agent() -> None:
    recorded = recording("invoke_inline_agent")
    request = recorded["request"]
    definition = {key: request[key] for key in ("foundationModel", "instruction")}
    inline = Agent.inline(model=scripted(recorded), **definition)
    reply = inline.invoke(request["inputText"], recorded["path"].rpartition("/")[2])
    assert [told(part) for part in reply.trace] == expected(recorded)
    assert reply.text == final_text(recorded)
    for ours, theirs in zip(reply.trace, traces(recorded), strict=True):
        assert ours.keys() == theirs.keys()  # without agentId, agentAliasId and agentVersion
        assert ours["sessionId"] == theirs["sessionId"]
        (caller,), (recorded_caller,) = ours["callerChain"], theirs["callerChain"]
        alias = recorded_caller["agentAliasArn"].partition(":agent-alias/")[2]
        assert caller["agentAliasArn"].partition(":agent-alias/")[2] == alias


@pytest.mark.parametrize(
    "name",
    [
        "tool_calls_with_input_params",
        "tool_calls_without_input_params",
        "preprocessing_trace",
        "post_processing_trace",
        "invoke_inline_agent",
    ],
)
def test_streaming_tells_the_same(name: str) -> None:
    recorded = recording(name)
    stages = {"preprocessing_trace": "PRE_PROCESSING", "post_processing_trace": "POST_PROCESSING"}
    prompts = {stages[name]: {"promptState": "ENABLED"}} if name in stages else {}
    model = scripted(recorded)
    model._chunk = 7
    events = list(
        agent(model, recorded, prompts=prompts).stream(recorded["request"]["inputText"], "s-1")
    )
    parts = [event.part for event in events if type(event).__name__ == "TracePart"]
    text = "".join(event.text for event in events if type(event).__name__ == "TextDelta")
    assert [told(part) for part in parts] == expected(recorded)
    assert text == final_text(recorded) == events[-1].reply.text
    assert [told(part) for part in events[-1].reply.trace] == expected(recorded)
