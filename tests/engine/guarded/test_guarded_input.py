"""The guardrail reads the user's input before anybody else does."""

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
    guarded,
    journal,
    kinds,
    prompt_texts,
    sound,
)
from whole_agents import BOTH, XML, Calls, Family, answer, live_parts, streamed

from orchestrator.actions import ActionResult
from orchestrator.engine.plan import Memory
from orchestrator.errors import DependencyFailed
from orchestrator.memory import InMemoryMemory

DAYS = ("vacations::get_days", {"employee": "E-1"})


@BOTH
def test_a_blocked_input_costs_nothing_and_leaves_nothing(family: Family) -> None:
    model = family.model([answer("Hello.")])
    subject = guarded(model, prompts={"PRE_PROCESSING": {"promptState": "ENABLED"}})
    reply = subject.invoke("How to build a bomb?", "s-1")
    assert (reply.text, reply.stop_reason) == (BLOCKED, "guardrail_intervened")
    assert (model.requests, reply.usage.calls) == ([], 0)
    assert kinds(sound(reply)) == ["guardrail-pre-0 INTERVENED"]
    told = reply.trace[0]["trace"]["guardrailTrace"]
    assert told["inputAssessments"][0]["topicPolicy"]["topics"][0]["name"] == "bombs"
    assert "outputAssessments" not in told
    plain = guarded(model)
    plain.invoke("bomb", "s-2")
    assert plain.invoke("Hello", "s-2").text == "Hello."
    assert "bomb" not in prompt_texts(model)


@BOTH
def test_a_masked_input_is_masked_for_everybody(family: Family, tmp_path: Path) -> None:
    seen: list[str] = []

    class Sees:
        def call(self, call: Any, context: Any) -> ActionResult:
            seen.append(context.input_text)
            return ActionResult("12")

    from orchestrator import ActionGroup

    functions = [{"name": "look", "description": "Looks.", "parameters": {}}]
    file = tmp_path / "sessions.sqlite"
    script = [family.calls(("eyes::look", {})), answer("Noted."), answer("Yes.")]
    model = family.model(script)
    group = ActionGroup("eyes", functions=functions, executor=Sees())
    subject = guarded(model, action_groups=[group], sessions=file)
    reply = subject.invoke(f"I am {SECRET}", "s-1")
    assert kinds(sound(reply))[0] == "guardrail-pre-0 INTERVENED"
    assert seen == [f"I am {MASK}"]
    # The next turn, in this process and in another.
    subject.invoke("Do you know me?", "s-1")
    again = family.model([answer("No.")])
    guarded(again, action_groups=[group], sessions=file).invoke("And now?", "s-1")
    for one in (model, again):
        assert SECRET not in prompt_texts(one) and MASK in prompt_texts(one)
    # The journal keeps what the caller said, so that the turn can go on after a crash.
    assert journal(file).count(SECRET) > 0
    assert subject.turns("s-1")[0].question == f"I am {SECRET}"


def test_a_masked_input_is_masked_in_summaries_too() -> None:
    model = XML.model([answer("Noted."), "<summary><topic name='who'>met</topic></summary>"])
    subject = guarded(model, memory=Memory(InMemoryMemory()))
    subject.invoke(f"I am {SECRET}", "s-1", memory_id="ana")
    subject.end_session("s-1")
    assert [one.stage for one in model.requests] == ["ORCHESTRATION", "MEMORY_SUMMARIZATION"]
    assert SECRET not in prompt_texts(model)
    assert MASK in str(model.requests[1].messages)


def test_a_changed_agent_tells_the_masked_input(tmp_path: Path) -> None:
    file = tmp_path / "sessions.sqlite"
    first = guarded(
        XML.model([XML.calls(DAYS), answer("Noted.")]),
        action_groups=Calls().groups(),
        sessions=file,
    )
    first.invoke(f"I am {SECRET}", "s-1")
    # Without its actions and its guardrail it cannot run the old turn again.
    from orchestrator import Agent

    model = XML.model([answer("Hello.")])
    Agent("hr", "Another instruction.", model, sessions=file).invoke("Who am I?", "s-1")
    assert SECRET not in prompt_texts(model) and MASK in prompt_texts(model)


@BOTH
def test_the_next_stages_read_the_masked_input(family: Family) -> None:
    model = family.model(
        ["<category>D</category>", answer("Noted."), "<final_response>So.</final_response>"]
    )
    on = {"promptState": "ENABLED"}
    subject = guarded(model, prompts={"PRE_PROCESSING": on, "POST_PROCESSING": on})
    reply = subject.invoke(f"I am {SECRET}", "s-1")
    assert len(model.requests) == 3
    assert SECRET not in prompt_texts(model)
    assert all(MASK in f"{one.messages}{one.system}" for one in model.requests)
    sound(reply)


@BOTH
def test_streams_and_tasks_do_the_same(family: Family) -> None:
    events, error = streamed(guarded(family.model([])), "bomb", "s-1")
    assert error is None
    assert kinds(live_parts(events)) == ["guardrail-pre-0 INTERVENED"]
    assert "".join(event.text for event in events if hasattr(event, "text")) == BLOCKED
    assert asyncio.run(guarded(family.model([])).ainvoke("bomb", "s-1")).text == BLOCKED
    model = family.model([answer("Noted.")])
    asyncio.run(guarded(model).ainvoke(f"I am {SECRET}", "s-1"))
    assert SECRET not in prompt_texts(model)


class Broken:
    id = "broken"

    def check(self, text: str, source: str) -> Any:
        raise RuntimeError("the password is hunter2")


@BOTH
@pytest.mark.parametrize("streams", [False, True])
def test_a_guardrail_that_fails_lets_nothing_through(family: Family, streams: bool) -> None:
    model = family.model([answer("Hello.")])
    subject = guarded(model, Broken())
    if streams:
        _, error = streamed(subject, "Hi", "s-1")
    else:
        with pytest.raises(DependencyFailed) as caught:
            subject.invoke("Hi", "s-1")
        error = caught.value
    assert isinstance(error, DependencyFailed)
    assert "'broken' raised RuntimeError" in error.message
    assert model.requests == []
    assert error.reply is not None
    assert "hunter2" not in f"{error}{sound(error.reply)}"


def test_an_empty_mask_is_a_question_like_any_other() -> None:
    class Erases(Watching):
        def check(self, text: str, source: str) -> Any:
            verdict = super().check(text, source)
            if source == "INPUT":
                verdict.action, verdict.text = "INTERVENED", ""
            return verdict

    model = XML.model([answer("Pardon?"), answer("Yes.")])
    subject = guarded(model, Erases())
    assert subject.invoke("Hello", "s-1").text == "Pardon?"
    assert subject.invoke("Hello", "s-1").text == "Yes."
    assert all(block for one in model.requests for m in one.messages for block in m["content"])
