"""The guardrail reads what the user is about to read."""

from __future__ import annotations

import asyncio
import threading
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
from whole_agents import BOTH, NATIVE, XML, Calls, Family, answer, live_parts, streamed

from orchestrator import Agent
from orchestrator.engine.plan import Memory
from orchestrator.errors import DependencyFailed
from orchestrator.memory import InMemoryMemory
from orchestrator.models.base import ModelReply, Usage
from orchestrator.testing import FakeKnowledgeBase

DAYS = ("vacations::get_days", {"employee": "E-1"})
ON = {"promptState": "ENABLED"}


def shown(events: list[Any]) -> str:
    return "".join(event.text for event in events if type(event).__name__ == "TextDelta")


@BOTH
@pytest.mark.parametrize("steps", [0, 1])
def test_a_blocked_answer_is_nowhere(family: Family, steps: int) -> None:
    script = [family.calls(DAYS)] * steps
    model = family.model([*script, answer("Build a bomb so."), answer("Hello.")])
    subject = guarded(model, action_groups=Calls().groups())
    reply = subject.invoke("How?", "s-1")
    assert (reply.text, reply.stop_reason) == (BLOCKED, "guardrail_intervened")
    assert kinds(sound(reply))[-1] == "guardrail-post-0 INTERVENED"
    assert "FINISH" not in kinds(reply.trace)
    told = reply.trace[-1]["trace"]["guardrailTrace"]
    assert told["outputAssessments"] and "inputAssessments" not in told
    assert subject.invoke("Again?", "s-1").text == "Hello."
    assert "bomb" not in prompt_texts(model)


@BOTH
def test_a_masked_answer_is_masked_everywhere(family: Family, tmp_path: Path) -> None:
    file = tmp_path / "sessions.sqlite"
    said = answer(f"Write to {SECRET}.", thinking=f"The address is {SECRET}.")
    model = family.model([said, answer("Yes.")])
    subject = guarded(model, sessions=file)
    reply = subject.invoke("To whom?", "s-1")
    assert reply.text == f"Write to {MASK}."
    trace = sound(reply)
    assert kinds(trace)[-2:] == ["guardrail-post-0 INTERVENED", "FINISH"]
    final = trace[-1]["trace"]["orchestrationTrace"]["observation"]["finalResponse"]["text"]
    assert final == reply.text
    subject.invoke("Sure?", "s-1")
    again = family.model([answer("No.")])
    guarded(again, sessions=file).invoke("Really?", "s-1")
    for one in (model, again):
        assert SECRET not in prompt_texts(one)
    assert MASK in prompt_texts(again)
    (first, *_) = subject.turns("s-1")
    assert first.text == reply.text


@BOTH
def test_a_masked_answer_is_summarised_masked(family: Family) -> None:
    script = [answer(f"Write to {SECRET}."), "<summary><topic name='a'>b</topic></summary>"]
    for ends in (True, False):
        model = family.model(script)
        subject = guarded(model, memory=Memory(InMemoryMemory()))
        subject.invoke("To whom?", "s-1", memory_id="ana", end_session=ends)
        if not ends:
            subject.end_session("s-1")
        assert len(model.requests) == 2
        assert SECRET not in prompt_texts(model) and MASK in prompt_texts(model)


@BOTH
def test_citations_of_a_masked_answer_stand_in_it(family: Family) -> None:
    parts = [("Write to " + SECRET + ".", "x"), ("Before April.", "?")]
    told = "".join(
        f"<answer_part><text>{text}</text><sources><source>SOURCE</source></sources></answer_part>"
        for text, _ in parts
    )
    base = FakeKnowledgeBase("HANDBOOK01", ["Rules."])
    from orchestrator.engine.decisions import source_ids

    (source,) = source_ids(base.retrieve(""), {})
    model = family.model(
        [
            family.calls(("GET::x_amz_knowledgebase_HANDBOOK01::Search", {"searchQuery": "q"})),
            f"<answer>{told.replace('SOURCE', source)}</answer>",
        ]
    )
    reply = guarded(model, knowledge_bases=[base]).invoke("q", "s-1")
    assert reply.text == f"Write to {MASK}. Before April."
    (one,) = reply.citations
    part = one["generatedResponsePart"]["textResponsePart"]
    assert part["text"] == "Before April."
    assert reply.text[part["span"]["start"] : part["span"]["end"] + 1] == part["text"]


@BOTH
@pytest.mark.parametrize("calls", [(), (DAYS,)], ids=["alone", "with a call"])
@pytest.mark.parametrize(
    ("question", "text", "reason"),
    [
        (f"Is it {SECRET}?", f"Is it {MASK}?", "ask_user"),
        ("Which bomb?", BLOCKED, "guardrail_intervened"),
    ],
)
def test_questions_to_the_user_are_read_too(
    family: Family, calls: tuple[Any, ...], question: str, text: str, reason: str
) -> None:
    asks = family.calls(*calls, ("user::askuser", {"question": question}))
    model = family.model([asks, answer("Thanks.")])
    guardrail = Watching()
    subject = guarded(model, guardrail, action_groups=Calls().groups(ask_user=True))
    reply = subject.invoke("Help", "s-1")
    assert (reply.text, reply.stop_reason) == (text, reason)
    assert (question, "OUTPUT") in guardrail.asked
    sound(reply)
    assert subject.invoke("Yes", "s-1").text == "Thanks."
    assert SECRET not in prompt_texts(model) and "bomb" not in prompt_texts(model)


@BOTH
def test_post_processing_is_read_and_its_draft_is_not_told_later(family: Family) -> None:
    model = family.model(
        [
            answer(f"Write to {SECRET}."),
            "<final_response>Write to Ana.</final_response>",
            answer("Yes."),
            "<final_response>Build a bomb.</final_response>",
        ]
    )
    subject = guarded(model, prompts={"POST_PROCESSING": ON})
    reply = subject.invoke("To whom?", "s-1")
    assert reply.text == "Write to Ana."
    assert kinds(sound(reply))[-2:] == ["modelInvocationOutput", "guardrail-post-0 NONE"]
    reply = subject.invoke("Sure?", "s-1")
    assert (reply.text, reply.stop_reason) == (BLOCKED, "guardrail_intervened")
    sound(reply)
    # What nobody read of the first turn is not in the prompts of the second.
    assert SECRET not in f"{model.requests[2].messages}"
    assert "Write to Ana." in f"{model.requests[2].messages}"


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 8, 13, 100])
@pytest.mark.parametrize("interval", [1, 20, 50])
@pytest.mark.parametrize(
    ("said", "text"),
    [
        (f"Write to {SECRET}, or call. " * 4, f"Write to {MASK}, or call. " * 4),
        (f"{SECRET}", MASK),
        ("Soon, soon. " * 20 + "A bomb is easy. " + "And so on. " * 20, BLOCKED),
        ("A bomb", BLOCKED),
    ],
)
def test_nothing_is_shown_that_the_last_verdict_forbids(
    chunk: int, interval: int, said: str, text: str
) -> None:
    from orchestrator.engine.plan import Features

    model = XML.model([answer(said)], chunk=chunk)
    features = Features(guardrail=Watching(), guard_interval=interval)
    events, error = streamed(Agent("hr", "You help.", model, features=features), "q", "s-1")
    assert error is None
    seen = shown(events)
    assert SECRET not in seen and "bomb" not in seen
    assert events[-1].reply.text == text.strip()
    assert seen.endswith(text.strip()) and seen.count(BLOCKED) == (text == BLOCKED)
    if text != BLOCKED:
        assert seen == text.strip()
    assert kinds(live_parts(events)) == kinds(sound(events[-1].reply))


@BOTH
def test_a_stream_is_checked_between_calls_too(family: Family) -> None:
    said = f"<thinking>I call.</thinking>{SECRET} and a bomb. "
    call = family.calls(DAYS)
    spoken = said + call if isinstance(call, str) else [{"text": said}, *call[1:]]
    model = family.model([spoken, answer("Done.")], chunk=2)
    events, error = streamed(guarded(model, action_groups=Calls().groups()), "q", "s-1")
    assert error is None
    assert SECRET not in shown(events) and "bomb" not in shown(events)
    assert shown(events).endswith("Done.")


@BOTH
def test_what_a_provider_s_guardrail_says_is_read_as_well(family: Family) -> None:
    said = ModelReply([{"text": f"Ask {SECRET}"}], "guardrail_intervened", Usage(1, 1, calls=1))
    reply = guarded(family.model([said])).invoke("q", "s-1")
    assert SECRET not in reply.text
    sound(reply)


class Breaks(Watching):
    """Fails at the answer."""

    id = "breaks"

    def check(self, text: str, source: str) -> Any:
        if source == "OUTPUT":
            raise RuntimeError("the password is hunter2")
        return super().check(text, source)


@BOTH
@pytest.mark.parametrize("streams", [False, True])
def test_a_guardrail_that_fails_shows_nothing(family: Family, streams: bool) -> None:
    model = family.model([answer("Soon. " * 50), answer("Hello.")], chunk=4)
    subject = guarded(model, Breaks())
    if streams:
        events, error = streamed(subject, "Hi", "s-1")
        assert shown(events) == ""
    else:
        with pytest.raises(DependencyFailed) as caught:
            subject.invoke("Hi", "s-1")
        error = caught.value
    assert isinstance(error, DependencyFailed)
    assert "'breaks' raised RuntimeError" in error.message
    assert error.reply is not None
    assert (error.reply.text, kinds(sound(error.reply))[-1]) == ("", "failureTrace")
    assert "hunter2" not in f"{error}{error.reply.trace}"


def test_the_event_loop_goes_on_while_a_guardrail_thinks() -> None:
    free = threading.Event()
    waits = Watching(before=lambda: None if free.wait(30) else pytest.fail("the loop stood still"))

    async def main(streams: bool) -> str:
        model = NATIVE.model([answer("Soon. " * 30)], chunk=5)
        subject = guarded(model, waits)

        async def run() -> str:
            if not streams:
                return (await subject.ainvoke("q", "s-1")).text
            return shown([event async for event in subject.astream("q", "s-1")])

        task = asyncio.ensure_future(run())
        for _ in range(20):
            await asyncio.sleep(0)
        free.set()
        return await task

    for streams in (False, True):
        free.clear()
        assert asyncio.run(main(streams)) == ("Soon. " * 30).strip()


def test_the_journal_says_what_was_found(tmp_path: Path) -> None:
    file = tmp_path / "sessions.sqlite"
    subject = guarded(XML.model([answer(f"{SECRET}!")]), sessions=file)
    subject.invoke("q", "s-1")
    assert MASK in journal(file)
    reopened = guarded(XML.model([]), sessions=file)
    (turn,) = reopened.turns("s-1")
    assert turn.text == f"{MASK}!"
    assert kinds(turn.trace)[-2:] == ["guardrail-post-0 INTERVENED", "FINISH"]
