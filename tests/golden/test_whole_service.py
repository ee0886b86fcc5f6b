"""Recordings of what is around the loop: knowledge bases, guardrails and routing, replayed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from golden_recordings import (
    RecordedBase,
    RecordedGuardrail,
    final_text,
    payloads,
    raw_reply,
    recording,
    replies,
)

from orchestrator import Agent, Collaborator
from orchestrator.engine.plan import Features
from orchestrator.guardrails import Verdict
from orchestrator.models.base import Model, ModelReply, ModelRequest
from orchestrator.testing import ScriptedModel

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
INSTRUCTION = "You answer the questions of customers with what you find for them."


def told(part: dict[str, Any]) -> dict[str, Any]:
    """A trace part without times, random ids and prompts."""
    ((kind, trace),) = part["trace"].items()
    if kind == "guardrailTrace":
        kept = {key: value for key, value in trace.items() if key != "metadata"}
        return {**kept, "kind": kind, "traceId": re.sub(UUID, "<uuid>", trace["traceId"])}
    ((member, value),) = trace.items()
    made = {"kind": kind, "member": member, "id": re.sub(UUID, "<uuid>", value["traceId"])}
    for key in ("type", "invocationType", "knowledgeBaseLookupInput"):
        if key in value:
            made[key] = value[key]
    if member == "modelInvocationInput":
        given = value["inferenceConfiguration"].items()
        made["inference"] = {name: it for name, it in given if name != "__type"}  # a stray member
    if member == "modelInvocationOutput":
        made["raw"] = raw_reply(value)
    if member == "rationale":
        made["text"] = value["text"]
    if "finalResponse" in value:
        made["finalResponse"] = value["finalResponse"]["text"]
    if "knowledgeBaseLookupOutput" in value:
        made["retrieved"] = value["knowledgeBaseLookupOutput"]["retrievedReferences"]
    return made


def test_one_knowledge_base_and_nothing_else() -> None:
    recorded = recording("knowledge_base_results")
    parts = payloads(recorded, "trace")
    seen = parts[1]["trace"]["orchestrationTrace"]["observation"]["knowledgeBaseLookupOutput"]
    base = RecordedBase(seen["retrievedReferences"])
    cited = payloads(recorded, "chunk")[0]["attribution"]["citations"]
    agent = Agent(
        "kb",
        INSTRUCTION,
        Citing(replies(recorded)[0], cited),
        knowledge_bases=[base],
        features=Features(aws_compat=("single_knowledge_base",)),
    )
    reply = agent.invoke(recorded["request"]["inputText"], "default_session_id")
    assert [told(part) for part in reply.trace] == [told(part) for part in parts]
    assert reply.text == final_text(recorded)
    assert reply.citations == cited


class Citing(Model):
    """Replies as recorded, but cites by the ids in its own prompt: the service had its own."""

    model_id = "anthropic.claude-3-5-sonnet-20240620-v1:0"

    def __init__(self, reply: ModelReply, cited: list[dict[str, Any]]) -> None:
        self.reply = reply
        self.cited = cited

    def complete(self, request: ModelRequest) -> ModelReply:
        content = _renamed(self.reply.content, request, self.cited)
        return replace(self.reply, content=content)


def _renamed(blocks: list[dict[str, Any]], request: Any, cited: Any) -> list[dict[str, Any]]:
    prompt = json.dumps([request.system, *(message["content"] for message in request.messages)])
    (reference,) = cited[0]["retrievedReferences"]
    words = json.dumps(reference["content"]["text"][:60])[1:-1]
    after = prompt[prompt.index(words) :]
    source = re.search(r"<source>\s*(?:\\n)?\s*([0-9a-z]+)", after)
    assert source is not None
    (block,) = blocks
    return [{"text": re.sub(r"(<source>)\w+", rf"\g<1>{source[1]}", block["text"])}]


def test_a_guardrail_that_intervenes() -> None:
    recorded = recording("guardrail_intervention")
    (part,) = payloads(recorded, "trace")
    assessments = part["trace"]["guardrailTrace"]["inputAssessments"]
    guardrail = RecordedGuardrail(Verdict("INTERVENED", final_text(recorded), True, assessments))
    model = ScriptedModel([], model_id="anthropic.claude-3-5-sonnet-20240620-v1:0")
    agent = Agent("guarded", INSTRUCTION, model, guardrail=guardrail)
    reply = agent.invoke(recorded["request"]["inputText"], "12345680")
    assert [told(one) for one in reply.trace] == [told(part)]
    assert set(reply.trace[0]["trace"]["guardrailTrace"]) == set(part["trace"]["guardrailTrace"])
    assert reply.text == final_text(recorded)
    assert model.requests == []


@pytest.mark.parametrize("streamed", [False, True])
def test_a_router_that_cannot_decide(streamed: bool) -> None:
    recorded = recording("routing_classifier_trace")
    parts = payloads(recorded, "trace")
    model = ScriptedModel(replies(recorded), model_id="amazon.nova-pro-v1:0")
    other = Agent("agentaws", INSTRUCTION, ScriptedModel([], model_id="amazon.nova-pro-v1:0"))
    supervisor = Agent(
        "supervisor",
        INSTRUCTION,
        model,
        collaborators=[Collaborator(other, "Use agentaws to test function call tracing.")],
        collaboration="SUPERVISOR_ROUTER",
    )
    question = recorded["request"]["inputText"]
    if streamed:
        events = list(supervisor.stream(question, "12345680"))
        trace = [event.part for event in events if type(event).__name__ == "TracePart"]
        text = "".join(event.text for event in events if type(event).__name__ == "TextDelta")
    else:
        reply = supervisor.invoke(question, "12345680")
        trace, text = reply.trace, reply.text
    assert [told(part) for part in trace] == [told(part) for part in parts]
    assert text == final_text(recorded)
    assert '<agent id="agentaws">' in json.dumps(model.requests[0].messages).replace('\\"', '"')
    assert [message["role"] for message in model.requests[1].messages][-1] == "assistant"
