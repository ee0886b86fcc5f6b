"""Reads recordings of the real service, and makes traces comparable with them, raw replies too."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator.guardrails import Source, Verdict
from orchestrator.message import Block
from orchestrator.models.base import ModelReply, Usage

GOLDEN = Path(__file__).resolve().parents[2] / ".." / "shared" / "golden"

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SOURCE = re.compile(r"(<source>\s*)\w+")  # of a passage: a random id
_TIMES = frozenset({"eventTime", "startTime", "endTime"})
_DURATIONS = frozenset({"totalTimeMs", "operationTotalTimeMs", "latencyMs"})
_CALLER = ("agentId", "agentAliasId", "agentVersion", "sessionId")


def recording(name: str) -> dict[str, Any]:
    """A recording; skips the test where there are none."""
    path = GOLDEN / f"{name}.json"
    if not path.exists():
        pytest.skip("the recordings are not here")
    recorded: dict[str, Any] = json.loads(path.read_text())
    return recorded


def payloads(recorded: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """What the events of a kind hold."""
    return [event["payload"] for event in recorded["events"] if event["type"] == kind]


def traces(recorded: dict[str, Any]) -> list[dict[str, Any]]:
    """The trace parts."""
    return payloads(recorded, "trace")


def members(part: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """A part's kind, its one member, and what that holds."""
    ((kind, trace),) = part["trace"].items()
    ((member, value),) = trace.items()
    return kind, member, value


def final_text(recorded: dict[str, Any]) -> str:
    """What the user reads."""
    chunks = payloads(recorded, "chunk")
    return "".join(base64.b64decode(chunk["bytes"]).decode() for chunk in chunks)


def replies(recorded: dict[str, Any]) -> list[ModelReply]:
    """What the models answered, as a scripted model answers it."""
    found = []
    for part in traces(recorded):
        for trace in part["trace"].values():
            if output := trace.get("modelInvocationOutput"):
                found.append(_reply(json.loads(output["rawResponse"]["content"])))
    return found


def _reply(raw: dict[str, Any]) -> ModelReply:
    if "output" in raw:
        blocks = map(_converse, raw["output"]["message"]["content"])
        usage = Usage(raw["usage"]["inputTokens"], raw["usage"]["outputTokens"], calls=1)
        return ModelReply(list(blocks), raw["stopReason"], usage)
    usage = Usage(raw["usage"]["input_tokens"], raw["usage"]["output_tokens"], calls=1)
    blocks = map(_messages, raw["content"])
    return ModelReply(list(blocks), raw["stop_reason"], usage, raw["stop_sequence"])


def _converse(block: dict[str, Any]) -> Block:
    if use := block["toolUse"]:
        return {"toolUse": {name: use[name] for name in ("toolUseId", "name", "input")}}
    return {"text": block["text"]}


def _messages(block: dict[str, Any]) -> Block:
    if block["type"] == "text":
        return {"text": block["text"]}
    return {"toolUse": {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}}


def raw_reply(output: dict[str, Any]) -> Any:
    """A model's raw reply without its id, its times and the members that are not set."""
    raw = _plain(json.loads(output["rawResponse"]["content"]))
    raw.pop("id", None)
    return _drop_unset(raw)


def _drop_unset(value: Any) -> Any:
    if isinstance(value, list):
        return [*map(_drop_unset, value)]
    if not isinstance(value, dict):
        return value
    return {name: _drop_unset(one) for name, one in value.items() if one is not None}


def comparable(part: dict[str, Any]) -> dict[str, Any]:
    """A whole part without what is random, what is of a time, and what names an AWS account.

    Prompts are the templates' own words: only what the turn put into them is compared, which is
    the messages of ORCHESTRATION.
    """
    plain: dict[str, Any] = _plain(part)
    for name in _CALLER:
        if name in plain:
            plain[name] = "<caller>"
    plain["callerChain"] = len(plain["callerChain"])
    ((kind, trace),) = plain["trace"].items()
    if kind == "guardrailTrace":
        return plain
    ((member, value),) = trace.items()
    if member == "modelInvocationInput":
        stage, text = value["type"], value["text"]
        value["text"] = json.loads(text)["messages"] if stage == "ORCHESTRATION" else bool(text)
    if member == "modelInvocationOutput":
        raw = json.loads(value["rawResponse"]["content"])
        raw.pop("id", None)  # of the message
        value["rawResponse"]["content"] = _plain(raw)
        if value.get("reasoningContent") == {"reasoningText": {}}:  # a stray member
            del value["reasoningContent"]
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, str):
        return _SOURCE.sub(r"\1<id>", _UUID.sub("<uuid>", value))
    if not isinstance(value, dict):
        return value
    shown = {}
    for name, one in value.items():
        if name == "__type":  # a stray member
            continue
        shown[name] = "<time>" if name in _TIMES else 0 if name in _DURATIONS else _plain(one)
    return shown


class RecordedBase:
    """A knowledge base that finds what was recorded."""

    id = "SSGLURQ9A5"
    description = "Articles about agents."

    def __init__(self, references: list[dict[str, Any]]) -> None:
        self.references = references

    def retrieve(self, query: str, configuration: Any = None) -> list[dict[str, Any]]:
        return self.references


class RecordedGuardrail:
    """A guardrail that says what was recorded."""

    id = "recorded"

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict

    def check(self, text: str, source: Source) -> Verdict:
        return self.verdict
