"""`Agent.astart(listen=False)`: a turn of which only the end is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from whole_agents import BOTH, Calls, Family, agent, answer

from orchestrator import Agent, SessionConflict, TextDelta, TurnEnd, ValidationError
from orchestrator.errors import DependencyFailed
from orchestrator.models import Model, ModelReply, ModelRequest


def ending(agent: Agent, *args: Any) -> list[Any]:
    async def drained() -> list[Any]:
        return [event async for event in await agent.astart(*args, listen=False)]

    return asyncio.run(drained())


@BOTH
def test_only_the_end_is_told(family: Family) -> None:
    calls = Calls()
    script = [family.calls(("vacations::get_days", {"employee": "e7"})), answer("Twelve.")]
    one = agent(family.model(script), calls.groups())
    text, end = ending(one, "How many?", "s-1")
    assert text == TextDelta("Twelve.")
    assert isinstance(end, TurnEnd)
    assert end.reply.text == "Twelve."
    assert len(calls.made) == 1
    listened = agent(family.model(script), Calls().groups()).invoke("How many?", "s-1")
    assert len(end.reply.trace) == len(listened.trace)


@BOTH
def test_what_goes_wrong(family: Family) -> None:
    one = agent(family.model([DependencyFailed("down")]))
    with pytest.raises(ValidationError):
        ending(one, "", "s-1")
    with pytest.raises(DependencyFailed) as caught:
        ending(one, "Hi", "s-1")
    assert caught.value.reply is not None


class Slow(Model):
    model_id = "anthropic.claude-3-5-sonnet-20240620-v1:0"

    def __init__(self) -> None:
        self.calls = 0

    def complete(self, request: ModelRequest) -> ModelReply:
        raise AssertionError("it is asked in a loop")

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        self.calls += 1
        await asyncio.Event().wait()
        raise AssertionError("it never answers")


def test_the_session_is_taken_until_the_events_are_closed() -> None:
    model = Slow()
    one = Agent("hr", "You help employees.", model)

    async def turns() -> None:
        first = await one.astart("Hi", "s-1", listen=False)
        assert model.calls == 0
        with pytest.raises(SessionConflict):
            await one.astart("Meanwhile", "s-1", listen=False)
        await first.aclose()
        waiting = asyncio.create_task(anext(await one.astart("Again", "s-1", listen=False)))
        while not model.calls:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await (await one.astart("At last", "s-1", listen=False)).aclose()

    asyncio.run(turns())
    assert model.calls == 1
    assert [turn.stop_reason for turn in one.turns("s-1")] == ["cancelled"] * 3
