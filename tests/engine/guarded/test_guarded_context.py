"""The guardrail reads what a caller tells beside the question, and what is remembered."""

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
    snapshot,
    sound,
)
from whole_agents import BOTH, INSTRUCTION, Family, answer, live_parts, streamed

from orchestrator import ActionGroup, Agent, ReturnControl
from orchestrator.actions import ActionResult
from orchestrator.engine.plan import Memory
from orchestrator.errors import DependencyFailed
from orchestrator.memory import InMemoryMemory

LOOK = [{"name": "look", "description": "Looks.", "parameters": {}}]
LOOKS = ("eyes::look", {})


def told(*texts: str) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [
        {"role": roles[place % 2], "content": [{"text": text}]} for place, text in enumerate(texts)
    ]


HISTORY = told(f"I am {SECRET}.", f"Hello, {SECRET}!", "How are you?", "Well.")


@BOTH
def test_a_history_is_masked_in_every_prompt(family: Family, tmp_path: Path) -> None:
    file = tmp_path / "sessions.sqlite"
    model, guardrail = family.model([answer("Ana."), answer("Yes.")]), Watching()
    subject = guarded(model, guardrail, sessions=file)
    reply = subject.invoke("Who am I?", "s-1", conversation_history=HISTORY)
    assert kinds(sound(reply))[:5] == [
        "guardrail-pre-0 NONE",
        "guardrail-history-0 INTERVENED",
        "guardrail-history-1 INTERVENED",
        "guardrail-history-2 NONE",
        "guardrail-history-3 NONE",
    ]
    subject.invoke("Sure?", "s-1")
    again = family.model([answer("No.")])
    guarded(again, sessions=file).invoke("Really?", "s-1")
    for request in (*model.requests, *again.requests):
        text = f"{request.messages}"
        assert f"I am {MASK}." in text and f"Hello, {MASK}!" in text and "Well." in text
        assert SECRET not in text
    shown = [one for one in subject.turns("s-1")[0].trace if "guardrailTrace" not in one["trace"]]
    assert SECRET not in f"{shown}"


@BOTH
def test_a_history_that_is_blocked_refuses_the_input_and_leaves_nothing(
    family: Family, tmp_path: Path
) -> None:
    file = tmp_path / "sessions.sqlite"
    for reopened in (False, True):
        session = f"s-{reopened}"
        model = family.model([answer("Hello.")])
        subject = guarded(model, sessions=file)
        history = told("Hi.", "A bomb, so.", SECRET, "Well.")
        reply = subject.invoke("How?", session, conversation_history=history)
        assert (reply.text, reply.stop_reason) == (BLOCKED, "guardrail_intervened")
        assert kinds(sound(reply))[-1] == "guardrail-history-1 INTERVENED"
        assert model.requests == []
        if reopened:
            subject = guarded(model, sessions=file)
        assert subject.invoke("Hello", session).text == "Hello."
        assert not any(one in prompt_texts(model) for one in ("bomb", "Hi.", SECRET, "Well."))


@BOTH
@pytest.mark.parametrize("reopened", [False, True])
def test_a_history_that_nobody_read_is_not_told_later(
    family: Family, reopened: bool, tmp_path: Path
) -> None:
    class Fails(Watching):
        def check(self, text: str, source: str) -> Any:
            if "Well" in text:
                raise RuntimeError("no")
            return super().check(text, source)

    file, model = tmp_path / "sessions.sqlite", family.model([answer("Hello.")])
    subject = guarded(model, Fails(), sessions=file)
    with pytest.raises(DependencyFailed):
        subject.invoke("Who am I?", "s-1", conversation_history=HISTORY)
    if reopened:
        subject = guarded(model, sessions=file)
    assert subject.invoke("Hello", "s-1").text == "Hello."
    text = prompt_texts(model)
    assert SECRET not in text and "How are you?" not in text


@BOTH
def test_a_blocked_question_leaves_no_history_either(family: Family) -> None:
    model = family.model([answer("Hello.")])
    subject = guarded(model)
    assert subject.invoke("A bomb?", "s-1", conversation_history=HISTORY).text == BLOCKED
    subject.invoke("Hello", "s-1")
    assert SECRET not in prompt_texts(model) and "Well." not in prompt_texts(model)


@BOTH
def test_a_masked_history_is_masked_after_a_crash_and_a_hand_over(
    family: Family, tmp_path: Path
) -> None:
    file, guardrail = tmp_path / "sessions.sqlite", Watching()
    guardrail._before = lambda: snapshot(file, f"at-{len(guardrail.asked)}.sqlite") and None
    groups = [ActionGroup("eyes", functions=LOOK, executor=ReturnControl())]
    model = family.model([family.calls(LOOKS)])
    subject = guarded(model, guardrail, sessions=file, action_groups=groups)
    control = subject.invoke("Who am I?", "s-1", conversation_history=HISTORY).return_control
    assert control is not None
    for left in (file, tmp_path / "at-3.sqlite"):
        again, script = Watching(), [answer("Ana.")]
        model = family.model(script if left == file else [family.calls(LOOKS)])
        reopened = guarded(model, again, sessions=left, action_groups=groups)
        if left == file:
            reopened.invoke(session_id="s-1", results=control.answer("dark"))
            assert [source for _, source in again.asked] == ["OUTPUT"]
        else:
            reopened.invoke("", "s-1")
            assert [text for text, _ in again.asked] == ["How are you?", "Well."]
        assert SECRET not in prompt_texts(model) and f"Hello, {MASK}!" in prompt_texts(model)


@BOTH
def test_attributes_are_masked_for_prompts_and_actions(family: Family) -> None:
    seen: list[dict[str, str]] = []

    class Echo:
        def call(self, call: Any, context: Any) -> ActionResult:
            seen.append(dict(context.prompt_session_attributes))
            return ActionResult("ok", prompt_session_attributes=context.prompt_session_attributes)

    model, guardrail = family.model([family.calls(LOOKS), answer("Done.")]), Watching()
    groups = [ActionGroup("eyes", functions=LOOK, executor=Echo())]
    given = {"note": f"Ask {SECRET}.", "city": "Rome", "blank": " "}
    subject = guarded(model, guardrail, action_groups=groups)
    reply = subject.invoke("q", "s-1", prompt_session_attributes=given)
    assert seen == [{"note": f"Ask {MASK}.", "city": "Rome", "blank": " "}]
    assert len(model.requests) == 2 and SECRET not in prompt_texts(model)
    # What comes back is the same, and is not read again.
    assert kinds(sound(reply))[1:3] == [
        "guardrail-attribute-0-0 INTERVENED",
        "guardrail-attribute-0-1 NONE",
    ]
    assert [text for text, _ in guardrail.asked] == ["q", f"Ask {SECRET}.", "Rome", "Done."]


@BOTH
def test_an_attribute_that_is_blocked_refuses_the_input(family: Family) -> None:
    model = family.model([])
    reply = guarded(model).invoke("q", "s-1", prompt_session_attributes={"note": "a bomb"})
    assert (reply.text, reply.stop_reason, model.requests) == (BLOCKED, "guardrail_intervened", [])


@BOTH
@pytest.mark.parametrize("by_caller", [False, True])
def test_attributes_that_change_are_read_before_the_next_prompt(
    family: Family, by_caller: bool
) -> None:
    class Notes:
        def call(self, call: Any, context: Any) -> ActionResult:
            return ActionResult("ok", prompt_session_attributes={"a": next(notes)})

    notes = iter([f"Ask {SECRET}.", "A bomb."])
    model = family.model([family.calls(LOOKS), family.calls(LOOKS), answer("Hello.")])
    executor: Any = ReturnControl() if by_caller else Notes()
    groups = [ActionGroup("eyes", functions=LOOK, executor=executor)]
    subject = guarded(model, action_groups=groups)
    reply = subject.invoke("q", "s-1")
    while reply.return_control is not None:
        reply = subject.invoke(
            session_id="s-1",
            results=reply.return_control.answer("ok"),
            prompt_session_attributes={"a": next(notes)},
        )
    assert (reply.text, reply.stop_reason) == (BLOCKED, "guardrail_intervened")
    assert len(model.requests) == 2
    assert subject.invoke("Hello", "s-1").text == "Hello."
    assert SECRET not in prompt_texts(model) and "bomb" not in prompt_texts(model)


def summary(*topics: tuple[str, str]) -> str:
    made = "".join(f"<topic name='{name}'>{text}</topic>" for name, text in topics)
    return f"<summary>{made}</summary>"


@BOTH
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize(
    ("topics", "kept"),
    [
        ([("mail", f"It is {SECRET}."), ("city", "Rome.")], f"mail: It is {MASK}.\ncity: Rome."),
        ([(SECRET, "Rome.")], f"{MASK}: Rome."),
        ([("city", "Rome."), ("x", "A bomb.")], None),
    ],
)
def test_a_summary_is_read_before_it_is_kept(
    family: Family, ends: bool, topics: list[tuple[str, str]], kept: str | None
) -> None:
    store, guardrail = InMemoryMemory(), Watching()
    model = family.model([answer("Hello."), summary(*topics), answer("Yes.")])
    subject = guarded(model, guardrail, memory=Memory(store))
    reply = subject.invoke("Hi", "s-1", memory_id="ana", end_session=ends)
    if not ends:
        subject.end_session("s-1")
    assert guardrail.asked[2:] == [(f"{name}: {text}", "OUTPUT") for name, text in topics]
    found = subject.memories("ana")
    assert [one["sessionSummary"]["summaryText"] for one in found] == (
        [] if kept is None else [kept]
    )
    assert not any("memory" in kind for kind in kinds(sound(reply)))
    subject.invoke("And now?", "s-2", memory_id="ana")
    last = f"{model.requests[-1].system}{model.requests[-1].messages}"
    assert SECRET not in last and "bomb" not in last
    assert ("Rome." in last) == (kept is not None)


@BOTH
def test_a_summary_that_cannot_be_read_is_not_kept(family: Family) -> None:
    class Fails(Watching):
        def check(self, text: str, source: str) -> Any:
            if "Rome" in text:
                raise RuntimeError("no")
            return super().check(text, source)

    model = family.model([answer("Hello."), summary(("city", "Rome."))])
    subject = guarded(model, Fails(), memory=Memory(InMemoryMemory()))
    assert subject.invoke("Hi", "s-1", memory_id="ana", end_session=True).text == "Hello."
    assert list(subject.memories("ana")) == []


@BOTH
def test_all_drivers_read_the_same(family: Family) -> None:
    def subject() -> Agent:
        return guarded(family.model([answer("Ana.")]))

    options: dict[str, Any] = {
        "conversation_history": HISTORY,
        "prompt_session_attributes": {"note": SECRET},
    }
    expected = kinds(subject().invoke("q", "s-1", **options).trace)
    assert expected[1] == "guardrail-attribute-0-0 INTERVENED"
    events, error = streamed(subject(), "q", "s-1", **options)
    assert error is None and checked_early(live_parts(events)) == expected
    reply = asyncio.run(subject().ainvoke("q", "s-1", **options))
    assert kinds(reply.trace) == expected


def test_without_a_guardrail_nothing_changes() -> None:
    from whole_agents import NATIVE

    model = NATIVE.model([answer("Ana.")])
    reply = Agent("hr", INSTRUCTION, model).invoke(
        "q", "s-1", conversation_history=HISTORY, prompt_session_attributes={"note": SECRET}
    )
    assert f"I am {SECRET}." in prompt_texts(model)
    assert not any("guardrail" in kind for kind in kinds(reply.trace))
