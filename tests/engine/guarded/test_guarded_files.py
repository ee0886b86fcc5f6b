"""The guardrail reads the files of a question, too, before any model does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from guarded_support import (
    BLOCKED,
    MASK,
    SECRET,
    Watching,
    checked_early,
    guarded,
    kinds,
    prompt_texts,
    sound,
)
from whole_agents import BOTH, INSTRUCTION, Calls, Family, answer, live_parts, streamed

from orchestrator import ActionGroup, Agent, Collaborator, ReturnControl
from orchestrator.testing import ScriptedModel

NOTES = {"name": "notes.md", "bytes": f"Written by {SECRET}.".encode()}
PLANS = {"name": "plans.txt", "bytes": b"How to build a bomb."}
TABLE = {"name": "table.csv", "bytes": b"a,b"}
PNG = {"name": "dot.png", "bytes": b"\x89PNG\r\n\x1a\n"}
PDF = {"name": "claim.pdf", "bytes": b"%PDF-1.4"}
LOOK = [{"name": "look", "description": "Looks.", "parameters": {}}]


@BOTH
def test_a_file_that_is_blocked_refuses_the_input(family: Family) -> None:
    model, guardrail = family.model([answer("Hello.")]), Watching()
    subject = guarded(model, guardrail)
    reply = subject.invoke("What is this?", "s-1", files=[TABLE, PLANS, NOTES])
    assert (reply.text, reply.stop_reason) == (BLOCKED, "guardrail_intervened")
    assert model.requests == []
    assert kinds(sound(reply)) == [
        "guardrail-pre-0 NONE",
        "guardrail-file-0 NONE",
        "guardrail-file-1 INTERVENED",
    ]
    assert "inputAssessments" in reply.trace[-1]["trace"]["guardrailTrace"]
    assert [text for text, _ in guardrail.asked] == ["What is this?", "a,b", "How to build a bomb."]
    # Nothing is left of it.
    assert subject.invoke("Hello", "s-1").text == "Hello."
    assert "plans" not in prompt_texts(model) and "What is this" not in prompt_texts(model)


def test_a_blocked_question_has_no_file_read() -> None:
    guardrail = Watching()
    guarded(ScriptedModel([]), guardrail).invoke("A bomb?", "s-1", files=[TABLE])
    assert guardrail.asked == [("A bomb?", "INPUT")]


@pytest.mark.parametrize(
    "model_id",
    [
        "anthropic.claude-3-5-sonnet-20240620-v1:0",
        "anthropic.claude-3-sonnet-20240229-v1:0",
        "anthropic.claude-v2",  # a raw text prompt
    ],
)
def test_what_is_masked_in_a_file_reaches_no_prompt(model_id: str) -> None:
    model = ScriptedModel([answer("A note."), answer("Yes.")], model_id)
    subject = guarded(model)
    reply = subject.invoke("What is this?", "s-1", files=[NOTES, TABLE])
    assert kinds(sound(reply))[:3] == [
        "guardrail-pre-0 NONE",
        "guardrail-file-0 INTERVENED",
        "guardrail-file-1 NONE",
    ]
    first = prompt_texts(model)
    assert f"Written by {MASK}." in first and "a,b" in first and "What is this?" in first
    subject.invoke("Was it good?", "s-1")
    assert SECRET not in prompt_texts(model)
    # The trace shows the prompt as it was; the masked text only as what was masked.
    shown = [one for one in reply.trace if "guardrailTrace" not in one["trace"]]
    assert SECRET not in str(shown)


@BOTH
def test_images_and_documents_go_through(family: Family) -> None:
    model, guardrail = family.model([answer("A dot.")]), Watching()
    guarded(model, guardrail).invoke("What?", "s-1", files=[PNG, PDF, TABLE])
    assert guardrail.asked == [("What?", "INPUT"), ("a,b", "INPUT"), ("A dot.", "OUTPUT")]
    blocks = model.requests[0].messages[-1]["content"]
    assert [next(iter(one)) for one in blocks[-3:]] == ["image", "document", "text"]


@BOTH
def test_a_blank_file_needs_no_check(family: Family) -> None:
    guardrail = Watching()
    subject = guarded(family.model([answer("Nothing.")]), guardrail)
    subject.invoke("What?", "s-1", files=[{"name": "blank.txt", "bytes": b" \n"}])
    assert [text for text, _ in guardrail.asked] == ["What?", "Nothing."]


@BOTH
@pytest.mark.parametrize("reopened", [False, True])
def test_a_turn_goes_on_with_the_masked_file(
    family: Family, reopened: bool, tmp_path: Path
) -> None:
    file, guardrail = tmp_path / "sessions.sqlite", Watching()
    group = ActionGroup("eyes", functions=LOOK, executor=ReturnControl())
    model = family.model([family.calls(("eyes::look", {})), answer("Seen.")])
    options: dict[str, Any] = {"action_groups": [group], "sessions": file}
    subject = guarded(model, guardrail, **options)
    control = subject.invoke("What?", "s-1", files=[NOTES]).return_control
    assert control is not None
    if reopened:
        subject = guarded(model, guardrail, **options)
    reply = subject.invoke(session_id="s-1", results=control.answer({"look": "a dog"}))
    assert reply.text == "Seen."
    assert [text for text, _ in guardrail.asked].count(NOTES["bytes"].decode()) == 1
    assert len(model.requests) == 2
    for request in model.requests:
        assert f"Written by {MASK}." in str(request.messages)
        assert SECRET not in str(request.messages)
    whole = subject.turns("s-1")[0].trace
    assert kinds(whole)[:2] == ["guardrail-pre-0 NONE", "guardrail-file-0 INTERVENED"]
    assert SECRET not in str([one for one in whole if "guardrailTrace" not in one["trace"]])


@BOTH
def test_a_routed_collaborator_reads_the_masked_file(family: Family) -> None:
    read, inner = family.model([answer("A note.")]), Watching()
    member = Agent("clerk", INSTRUCTION, read, guardrail=inner)
    subject = Agent(
        "boss",
        "You lead.",
        family.model(["<a>clerk</a>"]),
        collaborators=[Collaborator(member, "Reads.")],
        collaboration="SUPERVISOR_ROUTER",
        guardrail=Watching(),
    )
    reply = subject.invoke("What is this?", "s-1", files=[NOTES])
    assert reply.text == "A note."
    assert f"Written by {MASK}." in prompt_texts(read) and SECRET not in prompt_texts(read)
    assert inner.asked[:2] == [("What is this?", "INPUT"), (f"Written by {MASK}.", "INPUT")]


@BOTH
def test_a_routed_collaborator_s_own_guardrail_reads_the_file(family: Family) -> None:
    read = family.model([])
    member = Agent("clerk", INSTRUCTION, read, guardrail=Watching())
    subject = Agent(
        "boss",
        "You lead.",
        family.model(["<a>clerk</a>"]),
        collaborators=[Collaborator(member, "Reads.")],
        collaboration="SUPERVISOR_ROUTER",
    )
    assert subject.invoke("What is this?", "s-1", files=[PLANS]).text == BLOCKED
    assert read.requests == []


@BOTH
def test_all_drivers_have_files_read(family: Family) -> None:
    def subject() -> Agent:
        script = [family.calls(("vacations::get_days", {"employee": "E-1"})), answer("12.")]
        return guarded(family.model(script), action_groups=Calls().groups())

    expected = kinds(subject().invoke("What?", "s-1", files=[NOTES]).trace)
    assert expected[1] == "guardrail-file-0 INTERVENED"
    events, error = streamed(subject(), "What?", "s-1", files=[NOTES])
    assert error is None and checked_early(live_parts(events)) == expected
    reply = asyncio.run(subject().ainvoke("What?", "s-1", files=[NOTES]))
    assert kinds(reply.trace) == expected
