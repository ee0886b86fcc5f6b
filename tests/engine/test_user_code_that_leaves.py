"""What a model, a search, a guardrail or another agent raises ends its turn, and nothing else."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from whole_agents import NATIVE, agent, answer

from orchestrator import Agent, Collaborator, DependencyFailed
from orchestrator.guardrails import Verdict
from orchestrator.models import Model, ModelReply, ModelRequest

ARN = "arn:aws:bedrock:eu-central-1:111122223333:agent-alias/ABCDEFGHIJ/KLMNOPQRST"


def leave() -> Any:
    sys.exit(2)


def lose() -> Any:
    raise asyncio.CancelledError


def run_out() -> Any:
    return next(iter(()))


Raise = Callable[[], Any]
EACH = pytest.mark.parametrize(
    ("fail", "name"),
    [(leave, "SystemExit"), (lose, "CancelledError"), (run_out, "StopIteration")],
    ids=["exit", "cancelled", "stop"],
)


def invoke(agent: Agent) -> Any:
    return agent.invoke("Hi", "s-1")


def ainvoke(agent: Agent) -> Any:
    return asyncio.run(asyncio.wait_for(agent.ainvoke("Hi", "s-1"), 60))


def stream(agent: Agent) -> Any:
    return list(agent.stream("Hi", "s-1"))


def astream(agent: Agent) -> Any:
    async def read() -> Any:
        return [event async for event in agent.astream("Hi", "s-1")]

    return asyncio.run(asyncio.wait_for(read(), 60))


WAYS = [invoke, ainvoke, stream, astream]
EACH_WAY = pytest.mark.parametrize("run", WAYS)
Run = Callable[[Agent], Any]


def check_failure(subject: Agent, run: Run, resource: str, raised: str) -> None:
    """The turn fails and is written as failed; the session goes on."""
    with pytest.raises(DependencyFailed, match=rf"{resource}.* raised {raised}") as caught:
        run(subject)
    assert caught.value.reply is not None and caught.value.reply.stop_reason == "failure"
    (info,) = subject.sessions.store.list()
    last = subject.sessions.store.load(info.key)[-1]
    assert (last["kind"], last["result"]) == ("end", "failure")
    assert subject.invoke("Hello?", "s-1").text == "Hello."


class Once(Model):
    """Fails once, and then greets."""

    model_id = NATIVE.model_id

    def __init__(self, fail: Raise, *before: str) -> None:
        self._fails = [fail]
        self._before = before

    def complete(self, request: ModelRequest) -> ModelReply:
        while self._fails:
            self._fails.pop()()
        return ModelReply([{"text": answer("Hello.")}])

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        yield from self._before
        yield from super().stream(request)


class OnceInLoop(Once):
    async def acomplete(self, request: ModelRequest) -> ModelReply:
        await asyncio.sleep(0)
        return self.complete(request)

    async def astream(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        for item in self.stream(request):
            await asyncio.sleep(0)
            yield item


@EACH
@EACH_WAY
@pytest.mark.parametrize("before", [(), ("<answer>Hel",)], ids=["at_first", "midway"])
def test_a_model(run: Run, fail: Raise, name: str, before: tuple[str, ...]) -> None:
    # Python itself says RuntimeError of a StopIteration that leaves a generator.
    names = name if fail is not run_out else "(StopIteration|RuntimeError)"
    check_failure(agent(Once(fail, *before)), run, NATIVE.model_id, names)


@EACH
@pytest.mark.parametrize("run", [ainvoke, astream])
def test_a_model_that_answers_in_the_event_loop(run: Run, fail: Raise, name: str) -> None:
    names = name if fail is not run_out else "RuntimeError"
    check_failure(agent(OnceInLoop(fail)), run, NATIVE.model_id, names)


@EACH
@EACH_WAY
def test_a_knowledge_base(run: Run, fail: Raise, name: str) -> None:
    class Handbook:
        id, description = "HANDBOOK01", "The handbook."

        def retrieve(self, query: str, configuration: Any = None) -> Any:
            return fail()

    lookup = NATIVE.calls(("GET::x_amz_knowledgebase_HANDBOOK01::Search", {"searchQuery": "a"}))
    subject = agent(NATIVE.model([lookup, answer("Hello.")]), knowledge_bases=[Handbook()])
    check_failure(subject, run, "HANDBOOK01", name)


@EACH
@EACH_WAY
@pytest.mark.parametrize("source", ["INPUT", "OUTPUT"])
def test_a_guardrail(run: Run, fail: Raise, name: str, source: str) -> None:
    class Once:
        id = "once"

        def __init__(self) -> None:
            self.fails = [fail]

        def check(self, text: str, at: str) -> Verdict:
            while at == source and self.fails:
                self.fails.pop()()
            return Verdict()

    script = [answer("Hello.")] * 2
    check_failure(agent(NATIVE.model(script), guardrail=Once()), run, "once", name)


@EACH
@EACH_WAY
@pytest.mark.parametrize("count", [1, 2])
def test_another_agent(run: Run, fail: Raise, name: str, count: int) -> None:
    class Remote:
        alias_arn = ARN

        def invoke(self, *given: Any) -> Any:
            return fail()

    team = [Collaborator(Remote(), "Knows claims.", f"desk-{n}") for n in range(count)]
    sends = [
        ("AgentCommunication::sendMessage", {"recipient": one.name, "content": "Hi."})
        for one in team
    ]
    model = NATIVE.model([NATIVE.calls(*sends), answer("Hello.")])
    check_failure(agent(model, collaborators=team), run, "desk-0", name)


def test_whoever_cancels_a_turn_cancels_its_model() -> None:
    async def scenario() -> None:
        begun = asyncio.Event()

        class Waiting(OnceInLoop):
            async def acomplete(self, request: ModelRequest) -> ModelReply:
                begun.set()
                await asyncio.sleep(60)
                raise AssertionError("it was cancelled")

        subject = agent(Waiting(leave))
        task = asyncio.create_task(subject.ainvoke("Hi", "s-1"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (info,) = subject.sessions.store.list()
        assert subject.sessions.store.load(info.key)[-1]["result"] == "cancelled"

    asyncio.run(scenario())


@EACH_WAY
def test_an_interrupt_stops_the_turn(run: Run) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    subject = agent(Once(interrupt))
    with pytest.raises(KeyboardInterrupt):
        run(subject)


@EACH_WAY
def test_a_handler_of_a_signal_ends_the_process_all_the_same(run: Run) -> None:
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    try:
        with pytest.raises(SystemExit) as caught:
            run(agent(Once(lambda: signal.raise_signal(signal.SIGTERM))))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert caught.value.code == 3
