"""The service's short way for an agent that has one knowledge base and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from stage_support import KB_STAGE, ON, Handbook, agent, asked, cited, sound, stages
from whole_agents import (
    BOTH,
    INSTRUCTION,
    XML,
    Calls,
    Family,
    answer,
    live_parts,
    members,
    streamed,
)

from orchestrator import ActionGroup, Agent
from orchestrator.actions import USER_INPUT
from orchestrator.engine.plan import Features, Member
from orchestrator.errors import DefinitionError, ModelOutputError
from orchestrator.guardrails import LocalGuardrail, Pii
from orchestrator.models.base import ModelReply, Usage
from orchestrator.testing import ScriptedModel

SHORT = Features(aws_compat=("single_knowledge_base",))
ORDER = [
    "invocationInput",
    "observation KNOWLEDGE_BASE",
    "modelInvocationInput",
    "modelInvocationOutput",
    "observation FINISH",
]


def short(model: Any, base: Any, **options: Any) -> Agent:
    return agent(model, knowledge_bases=[base], **{"features": SHORT, **options})


def two_parts(base: Handbook, query: str) -> str:
    return cited(("Twelve days.", base.source(query)), ("Not more.", base.source(query)))


@BOTH
def test_the_input_is_searched_for_and_answered_from_what_is_found(family: Family) -> None:
    base = Handbook()
    model = family.model([two_parts(base, "How many?")])
    reply = short(model, base).invoke("How many?", "s-1")
    assert base.asked == [("How many?", None)]
    assert stages(model) == [KB_STAGE]
    assert INSTRUCTION not in asked(model.requests[0])
    assert (reply.text, reply.stop_reason) == ("Twelve days. Not more.", "end_turn")
    for one in reply.citations:
        part = one["generatedResponsePart"]["textResponsePart"]
        span = part["span"]
        assert reply.text[span["start"] : span["end"] + 1] == part["text"]
        assert one["retrievedReferences"] == [base.found("How many?")]
    assert members(sound(reply)) == ORDER


@BOTH
@pytest.mark.parametrize("chunk", [1, 7, 0])
def test_it_streams(family: Family, chunk: int) -> None:
    base = Handbook()
    model = family.model([two_parts(base, "q")], chunk=chunk)
    events, error = streamed(short(model, base), "q", "s-1")
    assert error is None
    text = "".join(event.text for event in events if type(event).__name__ == "TextDelta")
    assert text == events[-1].reply.text == "Twelve days. Not more."
    assert members(live_parts(events)) == ORDER
    if chunk == 1:
        deltas = [event for event in events if type(event).__name__ == "TextDelta"]
        assert len(deltas) > 5  # while the model wrote, and not at the end


def test_the_next_turn_knows_nothing_of_the_shape_of_the_first() -> None:
    base = Handbook()
    model = XML.model([two_parts(base, "q"), "Again."])
    subject = short(model, base)
    subject.invoke("q", "s-1")
    assert subject.invoke("And then?", "s-1").text == "Again."
    (start, *_), _ = (request.messages for request in model.requests)
    assert start["content"][0]["text"].endswith("q")


def _actions() -> dict[str, Any]:
    return {"action_groups": Calls().groups()}


def _asking() -> dict[str, Any]:
    return {"action_groups": [ActionGroup("UserInput", signature=USER_INPUT)]}


def _second() -> dict[str, Any]:
    return {"knowledge_bases": [Handbook(), Handbook("RULES00001")]}


def _team() -> dict[str, Any]:
    other = Agent("other", INSTRUCTION, ScriptedModel([], XML.model_id))
    member = Member("other", "For the rest.", other.plan)
    return {"features": Features(aws_compat=SHORT.aws_compat, collaborators=[member])}


def _not_asked_for() -> dict[str, Any]:
    return {"features": Features()}


@pytest.mark.parametrize("more", [_actions, _asking, _second, _team, _not_asked_for])
def test_with_anything_else_the_loop_runs(more: Callable[[], dict[str, Any]]) -> None:
    model = XML.model([answer("Hello.")])
    options = {"knowledge_bases": [Handbook()], "features": SHORT, **more()}
    reply = agent(model, **options).invoke("q", "s-1")
    assert stages(model) == ["ORCHESTRATION"]
    assert reply.text == "Hello."


def test_an_option_that_is_not_there_is_refused() -> None:
    with pytest.raises(DefinitionError, match="single_knowledge_base"):
        agent(XML.model([]), features=Features(aws_compat=("single_kb",)))


def test_pre_and_post_processing_run_around_it() -> None:
    base = Handbook()
    script = [
        "<category>D</category>",
        two_parts(base, "q"),
        "<final_response>12.</final_response>",
    ]
    model = XML.model(script)
    subject = short(model, base, prompts={"PRE_PROCESSING": ON, "POST_PROCESSING": ON})
    reply = subject.invoke("q", "s-1")
    assert stages(model) == ["PRE_PROCESSING", KB_STAGE, "POST_PROCESSING"]
    assert reply.text == "12."
    sound(reply)


def test_a_refused_a_cut_and_an_empty_generation() -> None:
    refused = ModelReply([{"text": "No."}], "content_filtered", Usage(1, 1, calls=1))
    reply = short(XML.model([refused]), Handbook()).invoke("q", "s-1")
    assert (reply.text, reply.stop_reason) == ("No.", "content_filtered")
    sound(reply)
    cut = ModelReply([{"text": "<answer>Twel"}], "max_tokens", Usage(1, 1, calls=1))
    with pytest.raises(ModelOutputError, match="maximumLength"):
        short(XML.model([cut]), Handbook()).invoke("q", "s-1")
    reply = short(XML.model(["<answer></answer>"]), Handbook()).invoke("q", "s-1")
    assert reply.text == "Sorry, I am unable to assist you with this request."


@pytest.mark.parametrize("check", [True, False])
def test_a_guardrail_reads_the_results_first_when_it_is_asked_to(check: bool) -> None:
    base = Handbook(text="Write to ana@example.com about {}.")
    guardrail = LocalGuardrail(pii=[Pii("EMAIL", "NONE", "ANONYMIZE")])
    features = Features(
        guardrail=guardrail, guard_results=check, aws_compat=("single_knowledge_base",)
    )
    model = XML.model([cited(("Write to ana@example.com.", base.source("q")))])
    reply = short(model, base, features=features).invoke("q", "s-1")
    assert ("ana@example.com" in asked(model.requests[0])) is not check
    assert reply.text == "Write to {EMAIL}."
    sound(reply)


def test_the_engine_cites_for_a_model_that_did_not() -> None:
    base = Handbook(text="Everybody has twelve days of {}.")
    model = ScriptedModel(["<answer>Everybody has twelve days of leave.</answer>"], "local")
    reply = short(model, base).invoke("leave", "s-1")
    (one,) = reply.citations
    assert one["retrievedReferences"] == [base.found("leave")]
