"""After a crash: turns that were left, calls of unknown outcome, and who waits for a session."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from left_turns import CALL, Bank, Knowing, Places
from whole_agents import answer

from orchestrator import Agent, Limits, SessionConflict
from orchestrator.actions import ActionResult, Call
from orchestrator.agent import invoke as invoke_module
from orchestrator.errors import ActionOutcomeUnknown


def test_turns_that_were_left_are_gone_on_with(places: Places) -> None:
    for session in ("s-1", "s-2"):
        places.leave_turn(session)
    other = places.agent(Bank(), answer("Hi."), name="other")
    other.invoke("Hello", "s-3")
    assert other.recover() == []
    bank = Knowing(ActionResult("paid before"))
    turns = places.agent(bank, answer("Paid."), answer("Paid.")).recover()
    assert {it.session_id: it.outcome for it in turns} == {"s-1": "answer", "s-2": "answer"}
    assert [it.reply.text for it in turns if it.reply] == ["Paid.", "Paid."]
    assert bank.keys == []
    assert places.agent(Bank()).recover() == []


def test_in_an_event_loop_too(places: Places) -> None:
    key = places.leave_turn("s-1")
    (turn,) = asyncio.run(places.agent(Bank()).arecover())
    assert turn.outcome == "undecided"
    assert isinstance(turn.error, ActionOutcomeUnknown) and key in str(turn.error)


def test_a_turn_that_waits_or_runs_is_left_alone(places: Places) -> None:
    running = places.agent(Bank(), answer("Hi."))
    stream = running.stream("Hello", "s-1")
    next(stream)
    assert places.agent(Bank()).recover() == []
    assert [type(it).__name__ for it in stream][-1] == "TurnEnd"


@pytest.mark.parametrize(
    ("outcome", "ends", "paid"),
    [
        (ActionResult("paid before"), "answer", 0),
        (False, "answer", 1),
        (None, "undecided", 0),
        (OSError("no answer"), "undecided", 0),
        (SystemExit("no answer"), "undecided", 0),
    ],
)
def test_an_executor_says_what_became_of_a_call(
    places: Places, outcome: Any, ends: str, paid: int
) -> None:
    key, bank = places.leave_turn("s-1"), Knowing(outcome)
    agent = places.agent(bank, answer("Paid."))
    (turn,) = agent.recover()
    assert (turn.outcome, bank.asked) == (ends, [key])
    assert bank.keys == [key] * paid
    if ends == "answer":
        result = agent.plan.stages["ORCHESTRATION"].model.requests[0].messages[-1]  # type: ignore[attr-defined]
        assert ("paid before" if not paid else "paid") in str(result)


def test_a_request_whose_process_has_stopped_goes_on_once(places: Places) -> None:
    request = "0f6d5c1e-54c8-4c1b-9d3f-0a4f2b8f6a11"
    key = places.leave_turn("s-1", request_id=request)
    bank = Bank()
    for _ in range(2):
        with pytest.raises(ActionOutcomeUnknown, match=key):
            places.agent(bank).invoke("Pay Ann", "s-1", request_id=request)
    assert bank.keys == []


class Gate(Bank):
    """A payment that lasts until it is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.through = threading.Event(), threading.Event()

    def call(self, call: Call, context: Any) -> ActionResult:
        self.begun.set()
        assert self.through.wait(60)
        return super().call(call, context)


def _with_limits(agent: Agent, limits: Limits) -> Agent:
    agent.plan = replace(agent.plan, limits=limits)
    return agent


def test_an_invocation_waits_for_the_session(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, waits = Gate(), threading.Event()
    agent = _with_limits(
        places.agent(gate, CALL, answer("One."), answer("Two.")),
        Limits(action_seconds=None, session_wait=60),
    )
    monkeypatch.setattr(invoke_module.time, "sleep", lambda seconds: waits.set())
    answers: list[str] = []
    first = threading.Thread(target=lambda: answers.append(agent.invoke("Pay", "s-1").text))
    first.start()
    assert gate.begun.wait(60)
    second = threading.Thread(target=lambda: answers.append(agent.invoke("Hello", "s-1").text))
    second.start()
    assert waits.wait(60)
    gate.through.set()
    first.join(60)
    second.join(60)
    assert sorted(answers) == ["One.", "Two."]
    assert [turn.question for turn in agent.turns("s-1")] == ["Pay", "Hello"]


def test_a_task_waits_too_and_not_for_longer_than_it_may(places: Places) -> None:
    gate = Gate()
    agent = places.agent(gate, CALL, answer("One."), answer("Two."))
    brief = _with_limits(agent.for_tenant(""), Limits(session_wait=0.02))
    patient = _with_limits(agent.for_tenant(""), Limits(session_wait=60))

    async def ask() -> list[str]:
        first = asyncio.create_task(agent.ainvoke("Pay", "s-1"))
        await asyncio.to_thread(gate.begun.wait, 60)
        with pytest.raises(SessionConflict, match="is busy"):
            await brief.ainvoke("Hello", "s-1")
        second = asyncio.create_task(patient.ainvoke("Hello", "s-1"))
        await asyncio.sleep(0)
        gate.through.set()
        return [(await first).text, (await second).text]

    assert asyncio.run(ask()) == ["One.", "Two."]


def test_a_request_that_was_left_in_a_session_that_expired_is_not_carried_out_again(
    places: Places,
) -> None:
    id = str(uuid4())
    key = places.leave_turn("s-1", request_id=id)
    bank = Bank()
    later = places.agent(bank, CALL, answer("Paid."))
    later.sessions.clock = lambda: time.time_ns() + 86_400 * 10**9
    for _ in range(2):
        with pytest.raises(ActionOutcomeUnknown, match=key):
            later.invoke("Pay Ann", "s-1", request_id=id)
    assert bank.keys == []


@pytest.mark.parametrize("asked", [False, True])
def test_a_turn_that_was_left_for_longer_than_the_time_out_is_gone_on_with(
    places: Places, asked: bool
) -> None:
    key = places.leave_turn("s-1")
    later = places.agent(Bank())
    later.sessions.clock = lambda: time.time_ns() + 86_400 * 10**9
    if asked:
        with pytest.raises(ActionOutcomeUnknown, match=key):
            later.invoke("Pay Ann", "s-1")
    else:
        (turn,) = later.recover()
        assert turn.outcome == "undecided"
    assert [it.calls[0].key for it in later.find_undecided()] == [key]


def test_another_question_after_the_time_out_gives_it_up(places: Places) -> None:
    places.leave_turn("s-1")
    later = places.agent(bank := Bank(), answer("Look at the bank."))
    later.sessions.clock = lambda: time.time_ns() + 86_400 * 10**9
    assert later.invoke("Is it paid?", "s-1").text == "Look at the bank."
    assert [it.question for it in later.turns("s-1")] == ["Pay Ann", "Is it paid?"]
    # The session goes on: the model is to say what became of the payment.
    assert not any(it.new for it in later.turns("s-1")[1:])
    assert bank.keys == []


def test_after_the_time_out_a_turn_that_had_done_nothing_is_forgotten(places: Places) -> None:
    before = places.agent(Bank(), answer("You are Ben."), answer("Ben."))
    before.invoke("I am Ben", "s-1")
    stream = before.stream("Who am I?", "s-1")
    next(stream)
    stream.close()
    assert before.turns("s-1")[1].stop_reason == "interrupted"
    later = places.agent(Bank(), answer("I do not know."))
    later.sessions.clock = lambda: time.time_ns() + 86_400 * 10**9
    assert later.invoke("Who is it?", "s-1").text == "I do not know."
    (request,) = later.plan.orchestration.model.requests  # type: ignore[attr-defined]
    assert "Ben" not in str(request)
    assert [it.new for it in later.turns("s-1")] == [False, False, True]
