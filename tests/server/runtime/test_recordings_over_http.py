"""Recordings of the real service, replayed through the server: what boto3 makes of both is equal.

The models' recorded replies are the script; the actions return what was recorded.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from botocore_shapes import parsed_by_botocore
from runtime_servers import CLAUDE

from orchestrator.testing import ScriptedModel

GOLDEN = Path(__file__).resolve().parents[3] / ".." / "shared" / "golden"
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
GROUP = "action_group_quick_start_6gq19"
LAMBDA = "arn:aws:lambda:us-east-1:000000000000:function:quick-start"
PARAMETERS = {
    "n1": {"type": "number", "description": "One number.", "required": True},
    "n2": {"type": "number", "description": "The other.", "required": True},
}
FUNCTIONS = [
    {"name": "add_two_numbers", "description": "Adds two numbers.", "parameters": PARAMETERS},
    {"name": "get_time", "description": "The time of day.", "parameters": {}},
]
# What is one's own or another one's: ids, times, prompts, raw replies.
VARIES = frozenset(
    (
        *("agentId", "agentAliasId", "agentVersion", "sessionId", "callerChain", "eventTime"),
        *("metadata", "rawResponse", "inferenceConfiguration", "ResponseMetadata", "executionType"),
        *("promptCreationMode", "parserMode", "reasoningContent"),
    )
)


def recording(name: str) -> dict[str, Any]:
    path = GOLDEN / f"{name}.json"
    if not path.exists():
        pytest.skip("the recordings are not here")
    recorded: dict[str, Any] = json.loads(path.read_text())
    return recorded


def parts(recorded: dict[str, Any]) -> list[dict[str, Any]]:
    return [it["payload"]["trace"] for it in recorded["events"] if it["type"] == "trace"]


def steps(recorded: dict[str, Any], member: str) -> list[dict[str, Any]]:
    """What is told under a member of the orchestration's or another stage's trace."""
    found = []
    for part in parts(recorded):
        for trace in part.values():
            if member in trace:
                found.append(trace[member])
    return found


def script(recorded: dict[str, Any]) -> list[Any]:
    """The model's raw replies, as Converse content blocks."""
    replies = []
    for output in steps(recorded, "modelInvocationOutput"):
        raw = json.loads(output["rawResponse"]["content"])
        replies.append([converse(block) for block in raw["content"]])
    return replies


def converse(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "text":
        return {"text": block["text"]}
    called = {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}
    return {"toolUse": called}


def decoded(recorded: dict[str, Any]) -> list[dict[str, Any]]:
    """The recorded events, as boto3 decodes them."""
    return [
        {it["type"]: parsed_by_botocore(it["payload"], it["type"])} for it in recorded["events"]
    ]


def plain(value: Any) -> Any:
    """A value without what varies."""
    if isinstance(value, dict):
        kept = {name: it for name, it in value.items() if name not in VARIES}
        if {"text", "type", "foundationModel"} <= kept.keys():  # a prompt: the texts are our own
            del kept["text"]
        return {name: plain(it) for name, it in kept.items()}
    if isinstance(value, list):
        return [plain(it) for it in value]
    return re.sub(UUID, "<uuid>", value) if isinstance(value, str) else value


class Recorded:
    """A Lambda function that returns what the recorded one did."""

    def __init__(self, recorded: dict[str, Any]) -> None:
        told = steps(recorded, "observation")
        outputs = [it.get("actionGroupInvocationOutput") for it in told]
        self.outputs = [it["text"] for it in outputs if it]

    def __call__(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        body = {"TEXT": {"body": self.outputs.pop(0)}}
        function = {"function": event["function"], "functionResponse": {"responseBody": body}}
        return {
            "messageVersion": "1.0",
            "response": {"actionGroup": event["actionGroup"], **function},
        }


ACTIONS = {
    "actionGroups": [
        {
            "actionGroupName": GROUP,
            "actionGroupExecutor": {"lambda": LAMBDA},
            "functionSchema": {"functions": FUNCTIONS},
        }
    ]
}


@pytest.mark.parametrize(
    "name", ["tool_calls_with_input_params", "tool_calls_without_input_params"]
)
def test_a_tool_call(start: Any, name: str) -> None:
    recorded = recording(name)
    model = ScriptedModel(script(recorded), CLAUDE)
    server = start(model, ACTIONS, lambdas={LAMBDA: Recorded(recorded)})
    answer = server.invoke(recorded["request"]["inputText"], enableTrace=True)
    assert plain(answer["events"]) == plain(decoded(recorded))


@pytest.mark.usefixtures("inline_arns")
def test_an_inline_agent(start: Any) -> None:
    recorded = recording("invoke_inline_agent")
    request = recorded["request"]
    server = start(ScriptedModel(script(recorded), request["foundationModel"]))
    answer = server.inline(
        request["inputText"],
        "default_session_id2",
        foundationModel=request["foundationModel"],
        instruction=request["instruction"],
        enableTrace=True,
    )
    assert plain(answer["events"]) == plain(decoded(recorded))
    ours = [it["trace"].keys() for it in answer["events"] if "trace" in it]
    theirs = [it["trace"].keys() for it in decoded(recorded) if "trace" in it]
    assert ours == theirs


def test_pre_processing(start: Any) -> None:
    recorded = recording("preprocessing_trace")
    on = {"promptType": "PRE_PROCESSING", "promptState": "ENABLED"}
    overrides = {"promptOverrideConfiguration": {"promptConfigurations": [on]}}
    server = start(ScriptedModel(script(recorded), CLAUDE), overrides)
    answer = server.invoke(recorded["request"]["inputText"], enableTrace=True)
    ours, theirs = plain(answer["events"]), plain(decoded(recorded))
    assert [list(it) for it in ours] == [list(it) for it in theirs]
    assert ours[2:] == theirs[2:]
    told = [it[1]["trace"]["trace"]["preProcessingTrace"] for it in (ours, theirs)]
    valid = [it["modelInvocationOutput"]["parsedResponse"]["isValid"] for it in told]
    assert valid == [True, True]


def test_a_retrieval(start: Any, handbook: Any) -> None:
    recorded = recording("retrieve")
    (ours, *_) = start([], handbook).client.retrieve(
        knowledgeBaseId="HANDBOOK01", retrievalQuery={"text": "vacation days"}
    )["retrievalResults"]
    (theirs, *_) = recorded["body"]["retrievalResults"]
    assert ours.keys() == theirs.keys()
    assert ours["content"].keys() == theirs["content"].keys()
    assert ours["location"].keys() == theirs["location"].keys()
