"""The trace of an answer that a guardrail checks while it streams."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from whole_agents import XML, answer

from orchestrator import Agent, TextDelta, TracePart, TurnEnd
from orchestrator.guardrails import Verdict

SAID = "one two three four five six seven eight nine ten."


class Watching:
    """Lets words through, and no bombs."""

    id = "watching"
    reach = 0

    def check(self, text: str, source: str) -> Verdict:
        if "bomb" not in text:
            return Verdict("NONE", text)
        return Verdict("INTERVENED", "No.", True, [{"wordPolicy": {"customWords": []}}])


def events_of(said: str, ways: str) -> list[Any]:
    model = XML.model([answer(said)], chunk=5)
    agent = Agent("hr", "You help.", model, guardrail=Watching())
    if ways == "sync":
        return list(agent.stream("q", "s-1", apply_guardrail_interval=10))

    async def collect() -> list[Any]:
        return [it async for it in agent.astream("q", "s-1", apply_guardrail_interval=10)]

    return asyncio.run(collect())


def parts_of(events: list[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, TextDelta | TracePart)]


def line(event: Any) -> str:
    if isinstance(event, TextDelta):
        return f"chunk {event.text}"
    ((kind, trace),) = event.part["trace"].items()
    if kind == "guardrailTrace":
        return f"{trace['traceId'][37:]} {trace['action']}"
    ((member, value),) = trace.items()
    return f"{member} {value.get('type', '')}".strip()


@pytest.mark.parametrize("way", ["sync", "async"])
def test_each_chunk_comes_after_its_own_check_and_before_the_reply(way: str) -> None:
    events = events_of(SAID, way)
    assert [line(event) for event in parts_of(events)] == [
        "guardrail-pre-0 NONE",
        "modelInvocationInput ORCHESTRATION",
        "guardrail-post-0 NONE",
        "chunk one two ",
        "guardrail-post-0 NONE",
        "chunk three four ",
        "guardrail-post-0 NONE",
        "chunk five six ",
        "guardrail-post-0 NONE",
        "chunk seven eight ",
        "guardrail-post-0 NONE",
        "chunk nine ten.",
        "modelInvocationOutput",
        "rationale",
        "observation FINISH",
    ]
    assert isinstance(events[-1], TurnEnd)
    told = [one for one in map(line, parts_of(events)) if not one.startswith("chunk")]
    assert [line(TracePart(part)) for part in events[-1].reply.trace] == told


@pytest.mark.parametrize("way", ["sync", "async"])
def test_what_intervenes_ends_the_stream(way: str) -> None:
    events = events_of("one two three a bomb five six", way)
    assert [line(event) for event in parts_of(events)] == [
        "guardrail-pre-0 NONE",
        "modelInvocationInput ORCHESTRATION",
        "guardrail-post-0 NONE",
        "chunk one two ",
        "guardrail-post-0 INTERVENED",
        "chunk No.",
        "modelInvocationOutput",
        "rationale",
        "guardrail-post-0 INTERVENED",  # of the whole answer, when it has come
    ]
    told = [one for one in map(line, parts_of(events)) if not one.startswith("chunk")]
    assert [line(TracePart(part)) for part in events[-1].reply.trace] == told
