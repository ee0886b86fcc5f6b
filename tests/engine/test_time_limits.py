"""The turn's time in an event loop: what hangs is cut off, and the turn ends all the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from whole_agents import NATIVE, answer, live_parts

from orchestrator import (
    Agent,
    Collaborator,
    DependencyFailed,
    LimitExceeded,
    Limits,
    Sessions,
    TextDelta,
)
from orchestrator.errors import OrchestratorError
from orchestrator.guardrails import Verdict
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.testing import FakeClock, FakeKnowledgeBase, ScriptedModel

SHORT = Limits(seconds=0.05)
SEARCH = NATIVE.calls(("GET::x_amz_knowledgebase_HANDBOOK01::Search", {"searchQuery": "q"}))
SEND = NATIVE.calls(("AgentCommunication::sendMessage", {"recipient": "clerk", "content": "Do."}))


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """What nobody sets before the test's end."""
    event = threading.Event()
    yield event
    event.set()


class Hangs(Model):
    """A model that never answers; its stream begins to."""

    model_id = NATIVE.model_id

    def __init__(self) -> None:
        self.closed = 0

    def complete(self, request: ModelRequest) -> ModelReply:
        raise AssertionError("an event loop waits for it")

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        try:
            await asyncio.Event().wait()
        finally:
            self.closed += 1
        raise AssertionError

    async def astream(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        yield "<answer>It is "
        try:
            await asyncio.Event().wait()
        finally:
            self.closed += 1


class Blocks(Model):
    """A model that answers only in a thread, and not before the test's end."""

    model_id = NATIVE.model_id

    def __init__(self, never: threading.Event) -> None:
        self._never = never

    def complete(self, request: ModelRequest) -> ModelReply:
        self._never.wait(30)
        return ModelReply([{"text": answer("Late.")}])


async def ainvoke(agent: Agent) -> tuple[list[Any], OrchestratorError]:
    with pytest.raises(OrchestratorError) as caught:
        await agent.ainvoke("Go", "s-1")
    return [], caught.value


async def astream(agent: Agent) -> tuple[list[Any], OrchestratorError]:
    events: list[Any] = []
    with pytest.raises(OrchestratorError) as caught:
        async for event in agent.astream("Go", "s-1"):
            events.append(event)
    return events, caught.value


EACH_WAY = pytest.mark.parametrize("run", [ainvoke, astream])


def cut(agent: Agent, run: Any) -> list[Any]:
    """Runs a turn that must run out of time, and that reads the same later; its events."""
    events, error = asyncio.run(run(agent))
    assert type(error) is LimitExceeded
    assert error.limit == "seconds" and "its limit of 0.05 seconds" in error.message
    assert error.reply is not None and error.reply.stop_reason == "seconds"
    told = error.reply.trace
    assert "failureTrace" in told[-1]["trace"]
    assert agent.turns("s-1")[0].trace == told
    assert not events or steps(live_parts(events)) == steps(told)
    return events


def steps(parts: list[Any]) -> list[Any]:
    """What a trace tells, without its times."""
    return [
        (part.get("collaboratorName"), kind, list(told))
        for part in parts
        for kind, told in part["trace"].items()
    ]


def subject(model: Model, **options: Any) -> Agent:
    # A clock that stands still: only what waits takes time, however slow the machine is.
    options.setdefault("sessions", Sessions(clock=FakeClock()))
    return Agent("hr", "You help employees.", model, **{"limits": SHORT, **options})


@EACH_WAY
def test_a_model_that_hangs_is_cut_off(run: Any, tmp_path: Path) -> None:
    model = Hangs()
    agent = subject(model, sessions=tmp_path / "sessions.sqlite")
    events = cut(agent, run)
    assert model.closed == 1
    assert [one.text for one in events if isinstance(one, TextDelta)] == ["It is"][: len(events)]
    # The same from the file, by another process; and the session goes on.
    again = subject(NATIVE.model([answer("Hello.")]), sessions=tmp_path / "sessions.sqlite")
    (kept,) = again.turns("s-1")
    assert kept.stop_reason == "seconds"
    assert kept.trace == agent.turns("s-1")[0].trace
    assert "modelInvocationInput" in kept.trace[0]["trace"]["orchestrationTrace"]
    assert again.invoke("Hello?", "s-1").text == "Hello."


@EACH_WAY
def test_a_model_that_blocks_a_thread_is_left_alone(run: Any, never: threading.Event) -> None:
    cut(subject(Blocks(never)), run)


@EACH_WAY
def test_a_knowledge_base_that_hangs(run: Any, never: threading.Event) -> None:
    class Hanging(FakeKnowledgeBase):
        def retrieve(self, query: str, configuration: Any = None) -> list[dict[str, Any]]:
            never.wait(30)
            return []

    cut(subject(NATIVE.model([SEARCH]), knowledge_bases=[Hanging("HANDBOOK01", [])]), run)


@EACH_WAY
def test_a_guardrail_that_hangs(run: Any, never: threading.Event) -> None:
    class Hanging:
        id = "slow"

        def check(self, text: str, source: str) -> Verdict:
            never.wait(30)
            return Verdict(text=text)

    cut(subject(NATIVE.model([]), guardrail=Hanging()), run)


@EACH_WAY
@pytest.mark.parametrize("own", [None, 600.0])
def test_a_collaborator_that_hangs(run: Any, own: float | None) -> None:
    model = Hangs()
    clerk = Agent("clerk", "You write.", model, limits=Limits(seconds=own))
    # Time enough for the collaborator's model to be asked, on a slow machine too.
    more = {"limits": Limits(seconds=0.5), "collaborators": [Collaborator(clerk, "Writes.")]}
    agent = subject(NATIVE.model([SEND]), **more)
    events, error = asyncio.run(run(agent))
    assert type(error) is LimitExceeded and error.limit == "seconds"
    assert error.reply is not None
    assert agent.turns("s-1")[0].trace == error.reply.trace
    assert not events or steps(live_parts(events)) == steps(error.reply.trace)
    assert model.closed == 1


@EACH_WAY
def test_a_collaborator_elsewhere_that_hangs(run: Any, never: threading.Event) -> None:
    class Elsewhere:
        alias_arn = "arn:aws:bedrock:us-east-1:123456789012:agent-alias/ABCDEFGHIJ/TSTALIASID"

        def invoke(self, *given: Any) -> Any:
            never.wait(30)

    clerk = Collaborator(Elsewhere(), "Writes.", "clerk")
    cut(subject(NATIVE.model([SEND]), collaborators=[clerk]), run)


@EACH_WAY
def test_a_time_out_of_the_model_s_own_is_not_the_turn_s(run: Any) -> None:
    class Late(Model):
        model_id = NATIVE.model_id

        def complete(self, request: ModelRequest) -> ModelReply:
            raise TimeoutError

    _, error = asyncio.run(run(Agent("hr", "You help.", Late())))
    assert type(error) is DependencyFailed and "raised TimeoutError" in error.message


@pytest.mark.parametrize("seconds", [None, 600.0])
def test_a_turn_that_is_cancelled_while_it_waits(seconds: float | None) -> None:
    async def main() -> None:
        began = asyncio.Event()

        class Waits(Hangs):
            async def acomplete(self, request: ModelRequest) -> ModelReply:
                began.set()
                return await super().acomplete(request)

        model = Waits()
        agent = Agent("hr", "You help.", model, limits=Limits(seconds=seconds))
        task = asyncio.create_task(agent.ainvoke("Go", "s-1"))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert model.closed == 1
        assert agent.turns("s-1")[0].stop_reason == "cancelled"

    asyncio.run(main())


@pytest.mark.parametrize("seconds", [None, 600.0])
def test_a_model_that_waits_and_answers_in_time(seconds: float | None) -> None:
    class Waits(ScriptedModel):
        async def acomplete(self, request: ModelRequest) -> ModelReply:
            for _ in range(3):
                await asyncio.sleep(0)
            return await super().acomplete(request)

    model = Waits([answer("Here.")], NATIVE.model_id)
    agent = Agent("hr", "You help.", model, limits=Limits(seconds=seconds))
    assert asyncio.run(agent.ainvoke("Go", "s-1")).text == "Here."
