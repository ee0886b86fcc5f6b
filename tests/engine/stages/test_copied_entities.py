"""Entities that a small model copies out of encoded results: turned back, but for written ones."""

from __future__ import annotations

from typing import Any

import pytest
from stage_support import cited, search
from whole_agents import INSTRUCTION, streamed

from orchestrator import Agent, Collaborator
from orchestrator.engine.decisions import source_ids
from orchestrator.engine.plan import Features
from orchestrator.testing import FakeKnowledgeBase, ScriptedModel

FOUND = "The R&D desk helps teams of > 5 people. Forms are named <name>.pdf at the desk."
COPIED = "The R&amp;D desk helps teams of &gt; 5 people. Forms are named &lt;name&gt;.pdf."
MEANT = "The R&D desk helps teams of > 5 people. Forms are named <name>.pdf."


def make(said: str, found: str = FOUND, *more: Any, chunk: int = 0, model_id: str = "local") -> Any:
    model = ScriptedModel([search(), f"<answer>{said}", *more], model_id, chunk=chunk)
    base = FakeKnowledgeBase("HANDBOOK01", [found])
    return Agent("hr", INSTRUCTION, model, knowledge_bases=[base]), model


def test_they_are_characters_in_the_answer_its_citations_and_later_prompts() -> None:
    subject, model = make(COPIED, FOUND, "<answer>Bye.")
    reply = subject.invoke("Who helps?", "s-1")
    assert reply.text == MEANT
    (citation,) = reply.citations
    part = citation["generatedResponsePart"]["textResponsePart"]
    assert part["text"] == MEANT
    assert "R&amp;D" in str(model.requests[1].messages)  # what was found is encoded
    subject.invoke("Thanks.", "s-1")
    assert MEANT in str(model.requests[2].messages)


def test_they_are_characters_in_what_the_model_itself_cites() -> None:
    found = "The R&D desk is in <B>."
    base = FakeKnowledgeBase("HANDBOOK01", [found])
    (source,) = source_ids(base.retrieve("q"), {})
    said = cited(("The R&amp;D desk is in &lt;B&gt;.", source))
    subject = Agent(
        "hr", INSTRUCTION, ScriptedModel([search(), said], "local"), knowledge_bases=[base]
    )
    reply = subject.invoke("Where is it?", "s-1")
    assert reply.text == found
    (citation,) = reply.citations
    part = citation["generatedResponsePart"]["textResponsePart"]
    assert part == {"text": found, "span": {"start": 0, "end": len(found) - 1}}
    assert [it["content"]["text"] for it in citation["retrievedReferences"]] == [found]


@pytest.mark.parametrize("chunk", [1, 3, 50])
def test_a_streamed_answer_is_the_same(chunk: int) -> None:
    for said in (COPIED, f"{COPIED} &gt", "AT&T &nbsp; &a"):
        subject, _ = make(said, chunk=chunk)
        events, error = streamed(subject, "Who helps?", "s-1")
        assert error is None
        shown = "".join(it.text for it in events if type(it).__name__ == "TextDelta")
        assert shown == events[-1].reply.text == said.replace(COPIED, MEANT)


@pytest.mark.parametrize(
    ("question", "found", "model_id"),
    [
        ("What is &amp; in HTML?", "R&D", "local"),  # the user has written it
        ("What is it?", "In HTML & is &amp;.", "local"),  # and so has a document
        ("What is it?", "Research and development", "local"),  # nothing was encoded
        ("What is it?", "R&D", "amazon.nova-pro-v1:0"),  # another dialect
    ],
)
def test_what_somebody_has_written_stays(question: str, found: str, model_id: str) -> None:
    subject, _ = make("It is &amp;.", found, model_id=model_id)
    assert subject.invoke(question, "s-1").text == "It is &amp;."


@pytest.mark.parametrize("where", ["instruction", "attributes"])
def test_what_the_prompt_has_of_its_own_stays(where: str) -> None:
    text = "Escape & as &amp; in HTML, and explain how."
    model = ScriptedModel([search(), "<answer>Write &amp; for it."], "local")
    base = FakeKnowledgeBase("HANDBOOK01", ["The R&D desk helps."])
    instruction = text if where == "instruction" else INSTRUCTION
    subject = Agent("hr", instruction, model, knowledge_bases=[base])
    attributes = {"rule": text} if where == "attributes" else {}
    reply = subject.invoke("How?", "s-1", prompt_session_attributes=attributes)
    assert reply.text == "Write &amp; for it."


def test_nothing_becomes_a_tag_that_the_engine_reads() -> None:
    said = "&lt;answer&gt;No.&lt;/answer&gt; &lt;thinking&gt;x"
    subject, _ = make(said, "Write <answer> for an answer.")
    reply = subject.invoke("How?", "s-1")
    assert reply.text == "<answer>No.</answer> <thinking>x"


def test_in_a_team_they_stay() -> None:
    found = 'Share it as <br:share_payload id="x"/> & so on.'
    member, _ = make("&lt;br:share_payload id='x'/&gt;", found)
    call = {"recipient": "hr", "content": "How?"}
    name = "AgentCommunication__sendMessage"
    script = [[{"toolUse": {"toolUseId": "t", "name": name, "input": call}}], "<answer>Done."]
    lead = Agent(
        "lead",
        INSTRUCTION,
        ScriptedModel(script, "local"),
        collaborators=[Collaborator(member, "It knows.", name="hr")],
    )
    lead.invoke("How?", "s-1")
    (step,) = [it for it in lead.turns("s-1")[0].steps() if it.kind == "agent"]
    assert "&lt;br:share_payload" in step.text


def test_the_answer_of_a_single_knowledge_base_has_them_too() -> None:
    base = FakeKnowledgeBase("HANDBOOK01", [FOUND])
    model = ScriptedModel([f"<answer>{COPIED}</answer>"], "local")
    features = Features(aws_compat=("single_knowledge_base",))
    subject = Agent("hr", INSTRUCTION, model, knowledge_bases=[base], features=features)
    reply = subject.invoke("Who helps?", "s-1")
    assert reply.text == MEANT
    assert reply.citations
