"""The service's own replies, and what it made of them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from parser_helpers import cut, details, member, streamed

from orchestrator import parsers

GOLDEN = Path(__file__).resolve().parents[2] / "../shared/golden"
pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the recordings are not here")

LOOPS = [
    "tool_calls_with_input_params",
    "tool_calls_without_input_params",
    "preprocessing_trace",
    "post_processing_trace",
    "invoke_inline_agent",
]


def traces(name: str) -> list[tuple[str, dict[str, Any]]]:
    """(stage member, trace part) of every trace event."""
    events = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))["events"]
    found = []
    for event in events:
        for stage, part in event["payload"].get("trace", {}).items():
            found.append((stage, part))
    return found


def chunk(name: str) -> str:
    events = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))["events"]
    (data,) = [event["payload"]["bytes"] for event in events if event["type"] == "chunk"]
    return base64.b64decode(data).decode()


def blocks_of(raw: str) -> list[dict[str, Any]]:
    """The recorded reply's content as Converse blocks."""
    reply = json.loads(raw)
    if "output" in reply:  # Converse, with `null` for every absent member
        return reply["output"]["message"]["content"]
    made: list[dict[str, Any]] = []
    for block in reply["content"]:
        if block["type"] == "text":
            made.append({"text": block["text"]})
        else:
            use = {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}
            made.append({"toolUse": use})
    return made


def replies(name: str, stage: str) -> list[list[dict[str, Any]]]:
    outputs = [
        part["modelInvocationOutput"]
        for found, part in traces(name)
        if found == stage and "modelInvocationOutput" in part
    ]
    return [blocks_of(output["rawResponse"]["content"]) for output in outputs]


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("parser", ["tool_use", "auto"])
def test_every_step_of_the_loop_gives_the_recorded_rationale(name: str, parser: str) -> None:
    parsed = [
        parsers.parse(blocks, "ORCHESTRATION", parser)
        for blocks in replies(name, "orchestrationTrace")
    ]
    recorded = [part["rationale"]["text"] for _, part in traces(name) if "rationale" in part]
    assert [member(one)["rationale"] for one in parsed] == recorded
    assert [one.notes for one in parsed] == [()] * len(parsed)


@pytest.mark.parametrize("name", LOOPS)
def test_the_last_reply_is_the_recorded_final_response(name: str) -> None:
    blocks = replies(name, "orchestrationTrace")[-1]
    (recorded,) = [
        part["observation"]["finalResponse"]["text"]
        for _, part in traces(name)
        if part.get("observation", {}).get("type") == "FINISH"
    ]
    found = details(parsers.parse(blocks))
    assert found == {
        "invocationType": "FINISH",
        "agentFinalResponse": {"responseText": recorded},
    }


@pytest.mark.parametrize("name", LOOPS)
def test_the_answer_streams_as_the_recorded_final_response(name: str) -> None:
    text = "".join(block["text"] for block in replies(name, "orchestrationTrace")[-1])
    for seed in range(5):
        told, parsed = streamed(cut(text, seed), "ORCHESTRATION", "tool_use")
        answer = "".join(piece for kind, piece in told if kind == parsers.ANSWER)
        assert answer == details(parsed)["agentFinalResponse"]["responseText"]


@pytest.mark.parametrize("name", LOOPS[:2])
def test_the_recorded_tool_call_is_found(name: str) -> None:
    (action,) = details(parsers.parse(replies(name, "orchestrationTrace")[0]))[
        "actionGroupInvocations"
    ]
    (recorded,) = [
        part["invocationInput"]["actionGroupInvocationInput"]
        for _, part in traces(name)
        if "invocationInput" in part
    ]
    assert action["actionGroupName"] == recorded["actionGroupName"]
    assert action["functionName"] == recorded["function"]
    assert action["id"].startswith("toolu_bdrk_")
    values = {key: str(value["value"]) for key, value in action["actionGroupInput"].items()}
    assert values == {one["name"]: one["value"] for one in recorded.get("parameters", [])}


def test_the_recorded_input_is_classified_as_valid() -> None:
    (blocks,) = replies("preprocessing_trace", "preProcessingTrace")
    (recorded,) = [
        part["modelInvocationOutput"]["parsedResponse"]
        for stage, part in traces("preprocessing_trace")
        if stage == "preProcessingTrace" and "modelInvocationOutput" in part
    ]
    found = parsers.parse(blocks, "PRE_PROCESSING").response["preProcessingParsedResponse"]
    assert found["isValidInput"] is recorded["isValid"] is True
    # The recording escapes newlines once more than its other texts.
    assert found["rationale"] == recorded["rationale"].replace("\\n", "\n")


def test_the_recorded_post_processing_gives_the_chunk() -> None:
    (blocks,) = replies("post_processing_trace", "postProcessingTrace")
    parsed = parsers.parse(blocks, "POST_PROCESSING")
    text = parsed.response["postProcessingParsedResponse"]["responseText"]
    assert text == chunk("post_processing_trace")


def test_the_recorded_knowledge_base_answer_gives_text_and_source() -> None:
    (blocks,) = replies("knowledge_base_results", "orchestrationTrace")
    parsed = parsers.parse(blocks, "KNOWLEDGE_BASE_RESPONSE_GENERATION")
    generated = parsed.response["knowledgeBaseResponseGenerationParsedResponse"]
    assert generated["generatedResponse"]["generatedResponseParts"] == [
        {"text": chunk("knowledge_base_results"), "references": [{"sourceId": "lhln"}]}
    ]


def test_a_reply_that_begins_in_the_middle_of_prefilled_thinking() -> None:
    (blocks,) = replies("routing_classifier_trace", "orchestrationTrace")
    (recorded,) = [
        part["rationale"]["text"]
        for _, part in traces("routing_classifier_trace")
        if "rationale" in part
    ]
    parsed = parsers.parse(blocks, "ORCHESTRATION", "tool_use")
    assert member(parsed)["rationale"] == recorded
    # The message to the user is the answer.
    assert details(parsed) == {
        "invocationType": "FINISH",
        "agentFinalResponse": {"responseText": chunk("routing_classifier_trace")},
    }


def test_the_recorded_routing_is_undecided() -> None:
    (blocks,) = replies("routing_classifier_trace", "routingClassifierTrace")
    parsed = parsers.parse(blocks, "ROUTING_CLASSIFIER")
    found = parsed.response["routingClassifierParsedResponse"]["responseDetails"]
    assert (found, parsed.code) == ({"type": "UNDECIDED"}, "")
