"""A streamed answer is told once, whatever is asked of models after it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from whole_agents import INSTRUCTION, NATIVE, answer

from orchestrator import Agent, Collaborator, Event, TextDelta
from orchestrator.engine.plan import SINGLE_KNOWLEDGE_BASE, Features, Memory
from orchestrator.memory import InMemoryMemory
from orchestrator.testing import FakeKnowledgeBase

SUMMARY = "<summary><topic name='T'>It is done.</topic></summary>"
KB_ANSWER = "<answer><answer_part><text>Done.</text><sources></sources></answer_part></answer>"
ASKED: dict[str, Any] = {"session_id": "s-1", "memory_id": "ana", "end_session": True}


def deltas(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def shown(subject: Agent) -> str:
    """What a stream shows; every way of streaming shows the same."""
    events = list(subject.stream("Is it?", **ASKED))
    assert subject.memories("ana")
    return deltas(events)


def plain() -> Agent:
    return Agent("hr", INSTRUCTION, NATIVE.model([answer("Done."), SUMMARY]), memory=kept())


def searching() -> Agent:
    features = Features(memory=kept(), aws_compat=[SINGLE_KNOWLEDGE_BASE])
    model, bases = NATIVE.model([KB_ANSWER, SUMMARY]), [FakeKnowledgeBase("HANDBOOK01", ["Done."])]
    return Agent("hr", INSTRUCTION, model, knowledge_bases=bases, features=features)


def custom() -> Agent:
    def own(turn: Any) -> Any:
        reply = yield turn.model(turn.question, live=True)
        yield turn.model("Was that right?")
        return reply.text

    model = NATIVE.model(["Done.", "Yes.", SUMMARY])
    return Agent("hr", INSTRUCTION, model, memory=kept(), orchestration=own)


def leading() -> Agent:
    def lead(turn: Any) -> Any:
        reply = yield turn.model(turn.question, live=True)
        message = {"recipient": "clerk", "content": reply.text}
        yield turn.tools([{"name": "AgentCommunication__sendMessage", "input": message}])
        return reply.text

    clerk = Agent("clerk", INSTRUCTION, NATIVE.model([answer("Noted.")]))
    team = [Collaborator(clerk, "Takes notes.")]
    model = NATIVE.model(["Done.", SUMMARY])
    return Agent("hr", INSTRUCTION, model, memory=kept(), orchestration=lead, collaborators=team)


def routing() -> Agent:
    clerk = Agent("clerk", INSTRUCTION, NATIVE.model([answer("Done.")]))
    return Agent(
        "hr",
        INSTRUCTION,
        NATIVE.model(["<a>clerk</a>", SUMMARY]),
        memory=kept(),
        collaborators=[Collaborator(clerk, "Takes notes.")],
        collaboration="SUPERVISOR_ROUTER",
    )


def kept() -> Memory:
    return Memory(InMemoryMemory())


AGENTS = pytest.mark.parametrize("made", [plain, searching, custom, leading, routing])


@AGENTS
def test_an_answer_is_streamed_once_when_its_session_ends(made: Any) -> None:
    assert shown(made()) == "Done."


@AGENTS
def test_an_answer_is_streamed_once_for_tasks_too(made: Any) -> None:
    async def events(subject: Agent) -> list[Event]:
        return [event async for event in subject.astream("Is it?", **ASKED)]

    assert deltas(asyncio.run(events(made()))) == "Done."


def test_an_answer_that_replaces_another_is_told_after_it() -> None:
    def own(turn: Any) -> Any:
        yield turn.model(turn.question, live=True)
        reply = yield turn.model("Say it better.", live=True)
        return f"{reply.text}!"

    model = NATIVE.model(["Dne.", "Done", SUMMARY])
    subject = Agent("hr", INSTRUCTION, model, memory=kept(), orchestration=own)
    assert shown(subject) == "Dne.Done!"
