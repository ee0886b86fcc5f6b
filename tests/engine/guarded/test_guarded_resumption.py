"""A guarded turn goes on: after a crash, a return of control, a confirmation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from guarded_support import (
    BLOCKED,
    MASK,
    SECRET,
    Snapshots,
    Watching,
    guarded,
    kinds,
    prompt_texts,
    snapshot,
    sound,
)
from whole_agents import BOTH, Calls, Family, answer, live_parts

from orchestrator import ActionGroup, Agent, Collaborator, ReturnControl
from orchestrator.testing import ScriptedModel

DAYS = ("vacations::get_days", {"employee": "E-1"})
LOOK = [{"name": "look", "description": "Looks.", "parameters": {}}]
QUESTION = f"I am {SECRET}"


@BOTH
def test_what_was_read_before_a_crash_is_not_read_again(family: Family, tmp_path: Path) -> None:
    file = tmp_path / "sessions.sqlite"
    script = [family.calls(DAYS), answer("Done.")]
    model = Snapshots(script, family.model_id, file)
    whole = guarded(model, action_groups=Calls().groups(), sessions=file).invoke(QUESTION, "s-1")
    for number in (0, 1):
        guardrail, left = Watching(), family.model(script[number:])
        again = guarded(
            left,
            guardrail,
            action_groups=Calls().groups(),
            sessions=tmp_path / f"before-{number}.sqlite",
        )
        reply = again.invoke(question="" if number else QUESTION, session_id="s-1")
        assert guardrail.asked == [("Done.", "OUTPUT")]
        assert kinds(sound(reply)) == kinds(whole.trace)
        assert SECRET not in prompt_texts(left) and MASK in prompt_texts(left)


@BOTH
def test_a_crash_in_the_last_check_asks_no_model_again(family: Family, tmp_path: Path) -> None:
    file = tmp_path / "sessions.sqlite"
    first = Watching()
    first._before = lambda: snapshot(file, f"check-{len(first.asked)}.sqlite") and None
    guarded(family.model([answer("A bomb.")]), first, sessions=file).invoke("q", "s-1")
    guardrail, model = Watching(), family.model([])
    reply = guarded(model, guardrail, sessions=tmp_path / "check-1.sqlite").invoke("", "s-1")
    assert (reply.text, guardrail.asked) == (BLOCKED, [("A bomb.", "OUTPUT")])
    # A crash in the first check: nothing was known yet.
    guardrail, model = Watching(), family.model([answer("Hello.")])
    reply = guarded(model, guardrail, sessions=tmp_path / "check-0.sqlite").invoke("", "s-1")
    assert guardrail.asked == [("q", "INPUT"), ("Hello.", "OUTPUT")]


@BOTH
@pytest.mark.parametrize("reopened", [False, True])
def test_results_of_the_caller_go_on_with_the_masked_input(
    family: Family, reopened: bool, tmp_path: Path
) -> None:
    file, guardrail = tmp_path / "sessions.sqlite", Watching()
    groups = [ActionGroup("eyes", functions=LOOK, executor=ReturnControl())]
    model = family.model([family.calls(("eyes::look", {})), answer(f"{SECRET} it is.")])
    subject = guarded(model, guardrail, action_groups=groups, sessions=file)
    first = subject.invoke(QUESTION, "s-1")
    control = first.return_control
    assert control is not None
    assert kinds(sound(first))[0] == "guardrail-pre-0 INTERVENED"
    if reopened:
        model = family.model([answer(f"{SECRET} it is.")])
        subject = guarded(model, guardrail, action_groups=groups, sessions=file)
    reply = subject.invoke(session_id="s-1", results=control.answer("all dark"))
    assert reply.text == f"{MASK} it is."
    assert [source for _, source in guardrail.asked] == ["INPUT", "OUTPUT"]
    assert SECRET not in prompt_texts(model) and MASK in prompt_texts(model)
    assert [kind for kind in kinds(sound(reply)) if "guardrail" in kind] == [
        "guardrail-post-0 INTERVENED"
    ]
    # The same results again are answered from the journal.
    again = subject.invoke(session_id="s-1", results=control.answer("all dark"))
    assert again.text == reply.text
    assert len(guardrail.asked) == 2


@BOTH
def test_a_collaborator_has_its_own_guardrail(family: Family) -> None:
    inner = Watching()
    member = guarded(ScriptedModel([answer("A bomb.")], family.model_id), inner)
    sends = ("AgentCommunication::sendMessage", {"recipient": "hr", "content": SECRET})
    model = family.model([family.calls(sends), answer("They would not say.")])
    subject = Agent("boss", "You lead.", model, collaborators=[Collaborator(member, "All.")])
    reply = subject.invoke("q", "s-1")
    assert reply.text == "They would not say."
    assert inner.asked == [(SECRET, "INPUT"), ("A bomb.", "OUTPUT")]
    assert BLOCKED in prompt_texts(model) and "bomb" not in prompt_texts(model)
    sound(reply)


@BOTH
def test_a_stream_that_goes_on_tells_the_rest_of_the_trace(family: Family) -> None:
    groups = [ActionGroup("eyes", functions=LOOK, executor=ReturnControl())]

    def begun() -> tuple[Any, Any]:
        model = family.model([family.calls(("eyes::look", {})), answer(f"Ask {SECRET}.")], chunk=2)
        subject = guarded(model, action_groups=groups)
        control = subject.invoke(QUESTION, "s-1").return_control
        assert control is not None
        return subject, control.answer("all dark")

    subject, results = begun()
    events = list(subject.stream(session_id="s-1", results=results))
    text = "".join(event.text for event in events if type(event).__name__ == "TextDelta")
    assert text == f"Ask {MASK}."
    assert kinds(live_parts(events)) == kinds(sound(events[-1].reply))

    async def in_a_task() -> list[Any]:
        subject, results = begun()
        return [event async for event in subject.astream(session_id="s-1", results=results)]

    assert kinds(live_parts(asyncio.run(in_a_task()))) == kinds(live_parts(events))
