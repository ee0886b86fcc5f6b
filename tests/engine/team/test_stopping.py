"""A team's turn is stopped by its caller, or runs out of time, while a collaborator works."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from teams import agent
from trace_lines import find_problems, trace_lines
from whole_agents import NATIVE

from orchestrator import ActionGroup, Agent, LimitExceeded, Limits, Sessions, SQLiteStore, TracePart
from orchestrator.actions import ActionResult, Call
from orchestrator.engine.run import threads
from orchestrator.testing import FakeClock, InMemoryStore

DO = [{"name": "do", "description": "Does it."}]
ORDERS = [("left", "Do it."), ("right", "Do it.")]


class Counting:
    """An executor that counts its calls, and may do something in each."""

    def __init__(self, then: Any = None) -> None:
        self.calls: list[str] = []
        self.then = then

    def call(self, call: Call, context: Any) -> ActionResult:
        self.calls.append(call.operation.group)
        if self.then is not None:
            self.then()
        return ActionResult(f"{call.operation.group} did")


def team(executor: Any, orders: Any = ORDERS, **options: Any) -> Agent:
    sides = [
        agent(
            name,
            {"Do it": [{f"{name}__do": {}}, {f"{name}__do": {}}, f"{name} is done."]},
            action_groups=[ActionGroup(name, functions=DO, executor=executor)],
        )
        for name in ("left", "right")
    ]
    plan = {"Go": [orders, "All done."], "What": ["Something was done."]}
    return agent("boss", plan, *sides, **options)


def stopped_at(events: Any, line: str) -> list[str]:
    """Reads a stream up to a trace part, and closes it."""
    seen = []
    for event in events:
        if isinstance(event, TracePart):
            seen += trace_lines([event.part])
            if seen[-1] == line:
                break
    events.close()
    return seen


MODEL = "2 left 1 modelInvocationInput ORCHESTRATION"
ACTION = "2 left 0 observation ACTION_GROUP left did"
ASKED = "2 left 0 modelInvocationInput ORCHESTRATION"


@pytest.mark.parametrize("kept", ["in memory", "in a file"])
@pytest.mark.parametrize(("line", "done"), [(ASKED, 0), (ACTION, 1), (MODEL, 1)])
def test_a_closed_stream_stops_the_collaborator(
    kept: str, line: str, done: int, tmp_path: Path
) -> None:
    counting = Counting()
    store = InMemoryStore() if kept == "in memory" else SQLiteStore(tmp_path / "s.db")
    options = {"sessions": store, "limits": Limits(parallel=1)}
    boss = team(counting, **options)
    seen = stopped_at(boss.stream("Go!", "s-1"), line)
    assert seen[-1] == line
    assert len(counting.calls) == done
    (turn,) = boss.turns("s-1")
    assert turn.stop_reason == "cancelled"
    assert find_problems(turn.trace) == []
    # What had ended is told; what was being done is not told as done.
    told_later = trace_lines(turn.trace)
    assert (ACTION in told_later) is (done == 1)
    assert not [it for it in told_later if "observation AGENT_COLLABORATOR" in it]
    # The session is free, and the turn is not gone on with.
    assert boss.invoke("What was that?", "s-1").text == "Something was done."
    assert len(counting.calls) == done


def test_a_closed_stream_stops_all_that_work_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would act a hundred times; after some actions it waits until all are stopped."""
    closing = Event()
    monkeypatch.setattr(threads, "Event", lambda: closing)
    counting = Counting(lambda: len(counting.calls) > 4 and closing.wait(30))
    many = Limits(iterations=200, model_calls=1000, actions=1000)
    sides = [
        agent(
            name,
            {"Do it": [{f"{name}__do": {}}] * 100},
            action_groups=[ActionGroup(name, functions=DO, executor=counting)],
            limits=many,
        )
        for name in ("left", "right")
    ]
    plan = {"Go": [ORDERS, "All done."], "What": ["Something was done."]}
    boss = agent("boss", plan, *sides, limits=many)
    events = boss.stream("Go!", "s-1")
    seen: set[str] = set()
    for event in events:
        if isinstance(event, TracePart):
            seen.add(event.part.get("collaboratorName", ""))
        if seen >= {"left", "right"}:
            break
    events.close()
    assert closing.is_set()
    done = len(counting.calls)
    assert done < 200
    assert boss.turns("s-1")[0].stop_reason == "cancelled"
    assert boss.invoke("What was that?", "s-1").text == "Something was done."
    assert len(counting.calls) == done


def test_a_cancelled_task_stops_the_collaborator() -> None:
    async def scenario() -> tuple[Agent, Counting]:
        begun, never = asyncio.Event(), asyncio.Event()

        class Waiting(Counting):
            async def acall(self, call: Call, context: Any) -> ActionResult:
                self.calls.append(call.operation.group)
                begun.set()
                await never.wait()
                raise AssertionError("it is cancelled")

        waiting = Waiting()
        boss = team(waiting, orders=ORDERS[:1])
        task = asyncio.create_task(boss.ainvoke("Go!", "s-1"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return boss, waiting

    boss, waiting = asyncio.run(scenario())
    assert waiting.calls == ["left"]
    assert boss.turns("s-1")[0].stop_reason == "cancelled"
    assert boss.invoke("What was that?", "s-1").text == "Something was done."
    assert waiting.calls == ["left"]


def test_an_async_stream_that_is_closed_stops_the_collaborators() -> None:
    counting = Counting()
    boss = team(counting, orders=ORDERS[:1])

    async def scenario() -> None:
        events = boss.astream("Go!", "s-1")
        async for event in events:
            if isinstance(event, TracePart) and trace_lines([event.part]) == [ACTION]:
                break
        await events.aclose()

    asyncio.run(scenario())
    assert counting.calls == ["left"]
    assert boss.turns("s-1")[0].stop_reason == "cancelled"
    assert boss.invoke("What was that?", "s-1").text == "Something was done."


@pytest.mark.parametrize("limited", ["boss", "left"])
def test_a_collaborator_has_no_more_time_than_there_is(limited: str) -> None:
    clock = FakeClock()
    counting = Counting(lambda: clock.advance(20))
    seconds = Limits(seconds=30, action_seconds=None)
    plain = Limits(seconds=500, action_seconds=None)
    left = agent(
        "left",
        {"Do it": [{"left__do": {}}] * 9},
        action_groups=[ActionGroup("left", functions=DO, executor=counting)],
        limits=seconds if limited == "left" else plain,
    )
    boss = agent(
        "boss",
        {"Go": [ORDERS[:1]]},
        left,
        sessions=Sessions(InMemoryStore(), clock=clock),
        limits=seconds if limited == "boss" else plain,
    )
    with pytest.raises(LimitExceeded) as stopped:
        boss.invoke("Go!", "s-1")
    assert stopped.value.limit == "seconds"
    assert "its limit of 30 seconds" in stopped.value.message
    assert len(counting.calls) == 2
    assert stopped.value.reply is not None
    lines = trace_lines(stopped.value.reply.trace)
    assert lines[-2:] == ["2 left failureTrace", "1 boss failureTrace"]
    assert find_problems(stopped.value.reply.trace) == []


def said_to(one: Agent, name: str = "") -> list[str]:
    """Texts and results in the last prompt of an agent, or of its collaborator."""
    plan = one.plan
    if name:
        member = plan.collaborators[name].agent
        assert member is not None
        plan = member
    found = []
    for message in plan.orchestration.model.requests[-1].messages:  # type: ignore[attr-defined]
        for block in message["content"]:
            if "text" in block:
                found.append(block["text"])
            if "toolResult" in block:
                found.append(block["toolResult"]["content"][0]["text"])
    return found


UNFINISHED = "This agent did not finish its work. What it had done before is not undone."


@pytest.mark.parametrize("restart", [False, True])
def test_the_next_turn_knows_what_a_stopped_one_has_done(restart: bool, tmp_path: Path) -> None:
    """Of two agents one had ended; the other had acted, and was stopped after it."""
    store = SQLiteStore(tmp_path / "s.db")
    options = {"sessions": store, "limits": Limits(parallel=1)}
    boss = team(Counting(), **options)
    stopped_at(boss.stream("Go!", "s-1"), MODEL.replace("left", "right"))
    if restart:
        boss = team(Counting(), **options)
    boss.invoke("What was that?", "s-1")
    told_boss = said_to(boss)
    assert told_boss[0] == "Go!" and told_boss[-1] == "What was that?"
    assert "left is done." in told_boss and UNFINISHED in told_boss
    boss.invoke("Go!", "s-1")
    left, right = said_to(boss, "left"), said_to(boss, "right")
    assert left.count("Do it.") == 2 and left.count("left did") == 4
    assert right.count("Do it.") == 2 and right.count("right did") == 3
    assert "<answer>(The turn failed.)</answer>" in right
    # Whoever reads the journal later is told the same.
    again = team(Counting(), **options)
    again.invoke("Go!", "s-1")
    assert said_to(again, "left").count("Do it.") == 3
    assert said_to(again, "right").count("right did") == 5


def test_a_collaborator_that_did_nothing_yet_is_told_nothing() -> None:
    boss = team(Counting(), orders=ORDERS[:1])
    stopped_at(boss.stream("Go!", "s-1"), ASKED)
    boss.invoke("What was that?", "s-1")
    assert said_to(boss) == ["What was that?"]
    boss.invoke("Go!", "s-1")
    assert said_to(boss, "left").count("Do it.") == 1


def test_a_trace_that_is_read_later_has_no_message_for_which_there_was_no_time() -> None:
    """The time is over after the call, before the message of the same reply."""
    clock = FakeClock()
    own = Counting(lambda: clock.advance(60))
    message = ("AgentCommunication::sendMessage", {"recipient": "left", "content": "Do it."})
    boss = team(
        Counting(),
        model=NATIVE.model([NATIVE.calls(("own::do", {}), message)]),
        action_groups=[ActionGroup("own", functions=DO, executor=own)],
        sessions=Sessions(clock=clock),
        limits=Limits(seconds=30, action_seconds=None),
    )
    with pytest.raises(LimitExceeded) as stopped:
        boss.invoke("Go!", "s-1")
    assert stopped.value.reply is not None
    (turn,) = boss.turns("s-1")
    assert turn.trace == stopped.value.reply.trace
    assert "AGENT_COLLABORATOR" not in str(turn.trace)
