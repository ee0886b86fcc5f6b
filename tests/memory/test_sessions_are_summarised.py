"""Sessions are summarised when they end, when they have been idle, and when that failed before."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import botocore_shapes
import pytest
from memory_support import DAY, TTL, Talker, remembered, remembering, told
from whole_agents import BOTH, XML, Family, answer

from orchestrator import ActionGroup, Agent, Limits, ReturnControl, Sessions, SQLiteStore
from orchestrator.errors import ThrottlingError, ValidationError
from orchestrator.memory import InMemoryMemory, SessionSummary, SqliteMemory
from orchestrator.models.base import ModelReply, Usage
from orchestrator.testing import FakeClock

SUMMARY = "MEMORY_SUMMARIZATION"


def test_with_the_last_turn() -> None:
    model = Talker()
    subject = remembering(model)
    subject.invoke("topic-first", "s-1", memory_id="ana")
    assert remembered(subject, "ana") == []
    reply = subject.invoke("topic-last", "s-1", end_session=True)
    assert reply.text == "Noted."
    assert remembered(subject, "ana") == [("s-1", "first: said first\nlast: said last")]
    (asked,) = model.prompts(SUMMARY)
    assert asked.count("Noted.") == 2  # what both said to each other, the last turn included
    for part in reply.trace:  # the service does not tell this stage
        assert botocore_shapes.problems(part) == []
    subject.invoke("topic-new", "s-1", memory_id="ana")
    assert len(model.requests["ORCHESTRATION"][-1].messages) == 1  # the session began anew


def test_by_ending_the_session() -> None:
    model = Talker()
    subject = remembering(model)
    subject.invoke("topic-a", "s-1", memory_id="ana")
    subject.end_session("s-1")
    assert remembered(subject, "ana") == [("s-1", "a: said a")]
    subject.end_session("s-1")  # there is nothing more to it
    subject.end_session("s-2")
    assert len(model.requests[SUMMARY]) == 1


def test_without_a_memory_id_nothing_is_remembered() -> None:
    model = Talker()
    subject = remembering(model)
    subject.invoke("topic-a", "s-1")
    subject.end_session("s-1")
    subject.invoke("topic-b", "s-2", end_session=True)
    assert SUMMARY not in model.requests
    plain = Agent("hr", "You help.", model)
    plain.invoke("topic-a", "s-1", memory_id="ana", end_session=True)
    assert SUMMARY not in model.requests
    assert plain.memories("ana") == []


def test_not_when_the_stage_is_off() -> None:
    model, clock = Talker(), FakeClock()
    off = {SUMMARY: {"promptState": "DISABLED"}}
    subject = remembering(model, clock=clock, prompts=off)
    subject.invoke("topic-a", "s-1", memory_id="ana", end_session=True)
    subject.invoke("topic-b", "s-2", memory_id="ana")
    subject.end_session("s-2")
    clock.advance(TTL + 1)
    subject.remember()
    assert SUMMARY not in model.requests
    assert remembered(subject, "ana") == []


@pytest.mark.parametrize("how", ["next session", "same session", "nameless", "by hand", "other"])
def test_when_it_has_been_idle(how: str) -> None:
    model, clock = Talker(), FakeClock()
    subject = remembering(model, clock=clock)
    subject.invoke("topic-a", "s-1", memory_id="ana")
    clock.advance(TTL - 1)
    assert subject.remember() == []
    clock.advance(2)
    if how == "next session":
        subject.invoke("topic-b", "s-2", memory_id="ana")
        assert "said a" in model.prompts()[-1]  # it knows already
    elif how == "same session":
        subject.invoke("topic-b", "s-1", memory_id="ana")
        assert "said a" in model.prompts()[-1]
        assert "topic-a" not in model.prompts()[-1]  # and nothing else of the old one
    elif how == "nameless":
        subject.invoke("topic-b", "s-1")
        assert "said a" not in model.prompts()[-1] and "topic-a" not in model.prompts()[-1]
    elif how == "by hand":
        assert (subject.remember("bob"), subject.remember()) == ([], ["s-1"])
    else:
        subject.invoke("topic-b", "s-1", memory_id="bob")
        assert "said a" not in model.prompts()[-1]
        subject.end_session("s-1")
        assert remembered(subject, "bob") == [("s-1", "b: said b")]
    assert remembered(subject, "ana") == [("s-1", "a: said a")]
    assert subject.remember() == []


def test_idle_is_counted_from_what_happened_last() -> None:
    model, clock = Talker(), FakeClock()
    functions = [{"name": "look", "description": "Looks.", "parameters": {}}]
    group = ActionGroup("eyes", functions=functions, executor=ReturnControl())
    calls = XML.calls(("eyes::look", {}))

    class Looks(Talker):
        def complete(self, request: Any) -> ModelReply:
            reply = super().complete(request)
            if request.stage == "ORCHESTRATION" and len(self.requests["ORCHESTRATION"]) == 1:
                return ModelReply([{"text": calls}], "end_turn", Usage(1, 1, calls=1))
            return reply

    model = Looks(XML.model_id)
    subject = remembering(model, clock=clock, action_groups=[group])
    control = subject.invoke("topic-a", "s-1", memory_id="ana").return_control
    assert control is not None
    clock.advance(TTL - 10)
    subject.invoke(session_id="s-1", results=control.answer("dark"))
    clock.advance(TTL - 10)  # long after the turn began, and not after it ended
    assert subject.remember() == []
    subject.invoke("topic-b", "s-1", memory_id="ana")
    assert "topic-a" in model.prompts()[-1]
    assert SUMMARY not in model.requests


@pytest.mark.parametrize("streams", [False, True])
def test_a_summary_that_fails_is_made_later(streams: bool) -> None:
    model, clock = Talker(), FakeClock()
    subject = remembering(model, clock=clock)
    model.broken = ThrottlingError("slow down", resource="m")
    if streams:
        events = list(subject.stream("topic-a", "s-1", memory_id="ana", end_session=True))
        reply = events[-1].reply
    else:
        reply = subject.invoke("topic-a", "s-1", memory_id="ana", end_session=True)
    assert reply.text == "Noted."  # the user has the answer all the same
    subject.invoke("topic-b", "s-1")
    assert "topic-a" in model.prompts()[-1]  # the session is still open
    with pytest.raises(ThrottlingError):
        subject.end_session("s-1")
    clock.advance(TTL + 1)
    assert subject.invoke("Hello", "s-2", memory_id="ana").text == "Noted."
    with pytest.raises(ThrottlingError):
        subject.remember()
    model.broken = None
    subject.end_session("s-2")
    assert subject.remember("ana") == ["s-1"]
    assert dict(remembered(subject, "ana"))["s-1"] == "a: said a\nb: said b"


def test_one_that_cannot_be_summarised_does_not_keep_the_others(tmp_path: Path) -> None:
    class Picky(Talker):
        def complete(self, request: Any) -> ModelReply:
            bad = request.stage == SUMMARY and "topic-bad" in told(request)
            self.broken = ThrottlingError("no", resource="m") if bad else None
            return super().complete(request)

    clock = FakeClock()
    subject = remembering(Picky(), clock=clock)
    for name in ("bad", "good", "fine"):
        subject.invoke(f"topic-{name}", f"s-{name}", memory_id="ana")
        clock.advance(1)
    clock.advance(TTL)
    with pytest.raises(ThrottlingError):
        subject.remember()
    assert [session for session, _ in remembered(subject, "ana")] == ["s-fine", "s-good"]


@pytest.mark.parametrize(
    "reply",
    ["<summary></summary>", "", "<thinking>Hm.</thinking>",
     ModelReply([{"text": "No."}], "content_filtered", Usage(1, 1, calls=1))],
    ids=["none", "empty", "thinking", "refused"],
)  # fmt: skip
def test_where_there_is_nothing_to_remember_the_session_just_ends(reply: Any) -> None:
    clock = FakeClock()
    model = XML.model([answer("Noted."), reply, answer("Hello.")])
    subject = remembering(model, clock=clock)
    subject.invoke("Hi", "s-1", memory_id="ana")
    subject.end_session("s-1")
    assert remembered(subject, "ana") == []
    clock.advance(TTL + 1)
    assert subject.remember() == []
    assert subject.invoke("Hi", "s-1", memory_id="ana").text == "Hello."


def test_a_turn_that_waits_is_given_up_and_summarised() -> None:
    functions = [{"name": "look", "description": "Looks.", "parameters": {}}]
    group = ActionGroup("eyes", functions=functions, executor=ReturnControl())
    script = [
        answer("Noted."),
        XML.calls(("eyes::look", {})),
        "<summary><topic name='a'>b</topic></summary>",
    ]
    subject = remembering(XML.model(script), action_groups=[group])
    subject.invoke("topic-a", "s-1", memory_id="ana")
    assert subject.invoke("Look!", "s-1", end_session=True).return_control is not None
    subject.end_session("s-1")
    assert remembered(subject, "ana") == [("s-1", "a: b")]


def test_a_question_that_ends_a_waiting_session_has_it_summarised_first() -> None:
    functions = [{"name": "look", "description": "Looks.", "parameters": {}}]
    group = ActionGroup("eyes", functions=functions, executor=ReturnControl())
    summary = "<summary><topic name='a'>b</topic></summary>"
    script = [answer("Noted."), XML.calls(("eyes::look", {})), summary, answer("New.")]
    model = XML.model(script)
    subject = remembering(model, action_groups=[group])
    subject.invoke("topic-a", "s-1", memory_id="ana")
    assert subject.invoke("Look!", "s-1", end_session=True).return_control is not None
    assert subject.invoke("Something else", "s-1", memory_id="ana").text == "New."
    assert remembered(subject, "ana") == [("s-1", "a: b")]
    assert "topic-a" not in told(model.requests[-1])


@BOTH
def test_in_a_task(family: Family) -> None:
    async def main() -> None:
        model, clock = Talker(family.model_id), FakeClock()
        subject = remembering(model, clock=clock)
        await subject.ainvoke("topic-a", "s-1", memory_id="ana", end_session=True)
        await subject.ainvoke("topic-b", "s-2", memory_id="ana")
        clock.advance(TTL + 1)
        async for _ in subject.astream("topic-c", "s-3", memory_id="ana"):
            pass
        assert "said a" in model.prompts()[-1] and "said b" in model.prompts()[-1]
        clock.advance(TTL + 1)
        await subject.ainvoke("Hello", "s-3")
        assert [session for session, _ in remembered(subject, "ana")] == ["s-3", "s-2", "s-1"]

    asyncio.run(main())


class Dying(InMemoryMemory):
    """Copies the sessions' file when a summary was first kept: as a crash would leave it then."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def add(self, owner: str, summary: SessionSummary) -> None:
        super().add(owner, summary)
        copy = self.file.with_name("crashed.sqlite")
        if copy.exists():
            return
        with closing(sqlite3.connect(self.file)) as old, closing(sqlite3.connect(copy)) as new:
            old.backup(new)


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_crash_between_the_summary_and_the_end(by_hand: bool, tmp_path: Path) -> None:
    file = tmp_path / "sessions.sqlite"
    store = Dying(file)
    first = remembering(Talker(), store=store, sessions=file)
    first.invoke("topic-a", "s-1", memory_id="ana", end_session=not by_hand)
    if by_hand:
        first.end_session("s-1")
    kept = remembered(first, "ana")
    model = Talker()
    again = remembering(model, store=store, sessions=tmp_path / "crashed.sqlite")
    if by_hand:
        again.end_session("s-1")
    else:
        assert again.invoke("", "s-1").text == "Noted."
    assert model.requests == {}  # nothing is asked twice
    assert remembered(again, "ana") == kept
    again.invoke("topic-b", "s-1", memory_id="ana")
    assert "topic-a" not in model.prompts()[-1]


def test_a_turn_that_a_crash_left_is_not_run_by_its_summary(tmp_path: Path) -> None:
    file, store, clock = tmp_path / "sessions.sqlite", InMemoryMemory(), FakeClock()

    class Crashes(Talker):
        def complete(self, request: Any) -> ModelReply:
            if "topic-late" in told(request):
                with closing(sqlite3.connect(file)) as old:
                    with closing(sqlite3.connect(tmp_path / "crashed.sqlite")) as new:
                        old.backup(new)
            return super().complete(request)

    first = remembering(Crashes(), store=store, sessions=Sessions(SQLiteStore(file), clock=clock))
    first.invoke("topic-a", "s-1", memory_id="ana")
    first.invoke("topic-late", "s-1")
    clock.advance(TTL + 1)
    model, left = Talker(), SQLiteStore(tmp_path / "crashed.sqlite")
    again = remembering(model, store=store, sessions=Sessions(left, clock=clock))
    assert again.remember() == ["s-1"]
    assert list(model.requests) == [SUMMARY]
    assert remembered(again, "ana") == [("s-1", "a: said a")]


def test_two_processes_share_a_memory(tmp_path: Path) -> None:
    clock = FakeClock()

    def one(model: Talker) -> Agent:
        return remembering(
            model,
            store=SqliteMemory(tmp_path / "memory.sqlite"),
            sessions=Sessions(SQLiteStore(tmp_path / "sessions.sqlite"), clock=clock),
        )

    one(Talker()).invoke("topic-a", "s-1", memory_id="ana")
    clock.advance(TTL + 1)
    model = Talker()
    other = one(model)
    other.invoke("topic-b", "s-2", memory_id="ana")
    assert "said a" in model.prompts()[-1]
    assert remembered(other, "ana") == [("s-1", "a: said a")]
    with closing(sqlite3.connect(tmp_path / "memory.sqlite")) as db:
        assert db.execute("SELECT memory_id, session_id, text FROM summary").fetchall() == [
            ("ana", "s-1", "a: said a")
        ]


@pytest.mark.parametrize("wrong", ["", "x", "a/b", 5, ["ana"], None])
def test_ids_are_checked_before_anything_happens(wrong: Any) -> None:
    model, clock = Talker(), FakeClock()
    subject = remembering(model, clock=clock)
    subject.invoke("topic-a", "s-1", memory_id="ana")
    clock.advance(TTL + 1)
    if wrong in ("", None):  # as if it were not there: nobody else's sessions are touched
        subject.invoke("Hi", "s-2", memory_id=wrong)
    else:
        with pytest.raises(ValidationError, match="memory_id"):
            subject.invoke("Hi", "s-2", memory_id=wrong)
    assert SUMMARY not in model.requests


def test_a_session_belongs_to_one_memory() -> None:
    model = Talker()
    subject = remembering(model)
    subject.invoke("topic-a", "s-1", memory_id="ana")
    with pytest.raises(ValidationError, match="belongs to another memory"):
        subject.invoke("topic-b", "s-1", memory_id="bob")
    subject.end_session("s-1")
    subject.invoke("topic-b", "s-1", memory_id="bob", end_session=True)
    assert remembered(subject, "bob") == [("s-1", "b: said b")]
    assert remembered(subject, "ana") == [("s-1", "a: said a")]


def test_what_expires_is_not_told() -> None:
    model, clock = Talker(), FakeClock()
    subject = remembering(model, clock=clock, memory={"storage_days": 2})
    subject.invoke("topic-a", "s-1", memory_id="ana", end_session=True)
    clock.advance(2 * DAY - 1)
    subject.invoke("Hi", "s-2", memory_id="ana")
    assert "said a" in model.prompts()[-1]
    clock.advance(1)
    subject.invoke("Hi", "s-3", memory_id="ana")
    assert "said a" not in model.prompts()[-1]
    assert ("s-1", "a: said a") not in remembered(subject, "ana")


def test_the_limits_hold_for_summaries() -> None:
    model = Talker()
    subject = remembering(model, limits=Limits(model_calls=1))
    assert subject.invoke("topic-a", "s-1", memory_id="ana", end_session=True).text == "Noted."
    assert remembered(subject, "ana") == []  # the turn had no call left; it is done later
    subject.end_session("s-1")
    assert remembered(subject, "ana") == [("s-1", "a: said a")]
