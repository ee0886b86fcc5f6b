"""A turn that its process leaves: open in its journal, for any process to go on with at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crashes import ANSWER, CALL, Store, bank
from engine_turns import roc_agent
from forking import forked
from test_crash import SCRIPT, effects, journal
from whole_agents import NATIVE, answer

from orchestrator import ActionGroup, Agent, SessionConflict, Sessions, TracePart, TurnLeft, action
from orchestrator.engine.results import ControlReturn
from orchestrator.errors import ActionOutcomeUnknown
from orchestrator.models import ModelReply, ModelRequest
from orchestrator.testing import ScriptedModel

QUESTION = "Pay Ann."


def is_outcome(event: Any) -> bool:
    trace = event.part["trace"].get("orchestrationTrace", {}) if _is_part(event) else {}
    return "actionGroupInvocationOutput" in trace.get("observation", {})


def _is_part(event: Any) -> bool:
    return isinstance(event, TracePart)


def leave(agent: Agent, upto: Callable[[Any], bool], question: str = QUESTION) -> None:
    events = agent.stream(question, "s-1")
    assert any(map(upto, events))
    with pytest.raises(TurnLeft):
        events.throw(TurnLeft())


async def aleave(agent: Agent, upto: Callable[[Any], bool]) -> None:
    events = agent.astream(QUESTION, "s-1")
    async for event in events:
        if upto(event):
            break
    with pytest.raises(TurnLeft):
        await events.athrow(TurnLeft())


def leaves(agent: Agent, upto: Callable[[Any], bool]) -> None:
    asyncio.run(aleave(agent, upto))


WAYS = pytest.mark.parametrize("way", [leave, leaves])


def other_process(folder: Path, question: str) -> str:
    done = forked(SCRIPT, folder, "no point", question, "goes on")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@WAYS
@pytest.mark.parametrize("question", ["", QUESTION])
def test_another_process_goes_on_at_once_and_carries_out_nothing_again(
    way: Any, question: str, tmp_path: Path
) -> None:
    agent = bank(tmp_path, NATIVE.model([CALL, ANSWER]))
    way(agent, is_outcome)
    assert len(effects(tmp_path)) == 1
    assert other_process(tmp_path, question) == "Paid."  # while this one still runs
    assert len(effects(tmp_path)) == 1
    kinds = journal(agent)
    assert kinds == ["turn", "model", "intent", "action", "claim", "claim", "model", "end"]


@WAYS
def test_this_process_can_go_on_too(way: Any, tmp_path: Path) -> None:
    agent = bank(tmp_path, NATIVE.model([CALL, ANSWER]))
    way(agent, is_outcome)
    assert agent.invoke(QUESTION, "s-1").text == "Paid."
    assert len(effects(tmp_path)) == 1
    assert [turn.question for turn in agent.turns("s-1")] == [QUESTION]


@WAYS
def test_sessions_in_memory_are_left_alike(way: Any, tmp_path: Path) -> None:
    agent = bank(tmp_path, NATIVE.model([CALL, ANSWER]))
    agent.sessions = Sessions()
    way(agent, is_outcome)
    assert agent.invoke(session_id="s-1").text == "Paid."
    assert len(effects(tmp_path)) == 1


@WAYS
def test_before_anything_was_done_it_is_as_if_it_had_not_begun(way: Any, tmp_path: Path) -> None:
    agent = bank(tmp_path, NATIVE.model([CALL, ANSWER]))
    way(agent, lambda event: True)
    reply = bank(tmp_path, NATIVE.model([CALL, ANSWER])).invoke(QUESTION, "s-1")
    assert reply.text == "Paid."
    assert len(effects(tmp_path)) == 1


def test_another_question_gives_it_up(tmp_path: Path) -> None:
    agent = bank(tmp_path, NATIVE.model([CALL, answer("Yes.")]))
    leave(agent, is_outcome)
    assert agent.invoke("Did you pay?", "s-1").text == "Yes."
    assert [turn.stop_reason for turn in agent.turns("s-1")] == ["cancelled", "end_turn"]


def test_a_stream_that_is_only_closed_is_cancelled(tmp_path: Path) -> None:
    agent = bank(tmp_path, NATIVE.model([CALL, ANSWER]))
    events = agent.stream(QUESTION, "s-1")
    assert any(map(is_outcome, events))
    events.close()
    assert [turn.stop_reason for turn in agent.turns("s-1")] == ["cancelled"]


class Waiting(ScriptedModel):
    """A model that never answers an event loop."""

    def __init__(self) -> None:
        super().__init__([], NATIVE.model_id)
        self.asked = asyncio.Event()

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("durable", [True, False])
def test_a_process_that_is_leaving_cancels_no_turn(durable: bool, tmp_path: Path) -> None:
    async def stop() -> Agent:
        model = Waiting()
        agent = bank(tmp_path, model)
        if not durable:
            agent.sessions = Sessions()
        task = asyncio.create_task(agent.ainvoke(QUESTION, "s-1"))
        await model.asked.wait()
        with pytest.raises(SessionConflict):
            await agent.ainvoke(QUESTION, "s-1")
        agent.sessions.leaving = True
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return agent

    agent = asyncio.run(stop())
    assert [turn.stop_reason for turn in agent.turns("s-1")] == ["interrupted"]
    if durable:
        again = bank(tmp_path, NATIVE.model([CALL, ANSWER]))
        assert again.invoke(session_id="s-1").text == "Paid."
        assert [turn.stop_reason for turn in again.turns("s-1")] == ["end_turn"]


def test_an_action_that_was_running_is_not_run_again(tmp_path: Path) -> None:
    started: list[str] = []

    async def stop() -> Agent:
        running = asyncio.Event()

        @action
        async def pay(to: str) -> str:
            """Pays somebody."""
            started.append(to)
            running.set()
            await asyncio.Event().wait()
            return "paid"

        agent = Agent(
            "bank",
            "You pay.",
            NATIVE.model([CALL, answer("I do not know.")]),
            action_groups=[ActionGroup("bank", [pay])],
            sessions=Store(tmp_path / "sessions.db"),
        )
        task = asyncio.create_task(agent.ainvoke(QUESTION, "s-1"))
        await running.wait()
        agent.sessions.leaving = True
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return agent

    agent = asyncio.run(stop())
    with pytest.raises(ActionOutcomeUnknown):
        agent.invoke(QUESTION, "s-1")
    assert started == ["ann"]


def test_a_hand_over_that_was_being_told_still_waits_for_its_results() -> None:
    asked = roc_agent(
        NATIVE.model([NATIVE.calls(("house::open_door", {"door": "front"})), answer("It is open.")])
    )
    events = asked.stream("Open the front door", "s-1")
    control = next(event for event in events if isinstance(event, ControlReturn))
    with pytest.raises(TurnLeft):
        events.throw(TurnLeft())
    reply = asked.invoke(session_id="s-1", results=control.answer({"open_door": "done"}))
    assert reply.text == "It is open."
