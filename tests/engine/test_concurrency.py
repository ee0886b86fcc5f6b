"""Many threads, tasks and agents at once: nothing is lost, interleaved or run twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from engine_turns import roc_agent
from whole_agents import NATIVE, Calls, agent, answer, texts_of

from orchestrator import Agent, Reply, SessionConflict, Sessions, SQLiteStore
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.models.base import Usage
from orchestrator.testing import InMemoryStore

WAIT = 60  # a bound for tests that hang, never a pause


def reply_of(text: str) -> ModelReply:
    return ModelReply([{"text": answer(text)}], "end_turn", Usage(1, 1, calls=1))


class Gated(Model):
    """A model whose first call ends when it is told to."""

    def __init__(self) -> None:
        self.model_id = NATIVE.model_id
        self.asked = 0
        self.opened = threading.Event()

    def complete(self, request: ModelRequest) -> ModelReply:
        self.asked += 1
        assert self.opened.wait(WAIT)
        return reply_of("Hello.")


class Meeting(Model):
    """A model that answers when all of its callers are there."""

    def __init__(self, callers: int) -> None:
        self.model_id = NATIVE.model_id
        self.barrier = threading.Barrier(callers)

    def complete(self, request: ModelRequest) -> ModelReply:
        self.barrier.wait(WAIT)
        return reply_of(f"You said: {texts_of(request)[-1]}")


def race(attempts: list[Callable[[], Reply]], model: Gated) -> list[Reply | SessionConflict]:
    """Runs all attempts at once; the model goes on when all but one were refused."""
    refused = threading.Semaphore(0)
    start = threading.Barrier(len(attempts))

    def attempt(invoke: Callable[[], Reply]) -> Reply | SessionConflict:
        start.wait(WAIT)
        try:
            return invoke()
        except SessionConflict as conflict:
            refused.release()
            return conflict

    with ThreadPoolExecutor(len(attempts)) as pool:
        running = [pool.submit(attempt, one) for one in attempts]
        for _ in range(len(attempts) - 1):
            assert refused.acquire(timeout=WAIT)
        model.opened.set()
        return [one.result(WAIT) for one in running]


def winners(results: list[Reply | SessionConflict]) -> list[Reply]:
    return [one for one in results if isinstance(one, Reply)]


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "file"])
def test_one_of_sixteen_threads_gets_the_session(stored: bool, tmp_path: Path) -> None:
    model = Gated()
    asked = agent(model, sessions=tmp_path / "s.db" if stored else None)
    results = race([lambda: asked.invoke("Hello?", "s-1")] * 16, model)
    assert [reply.text for reply in winners(results)] == ["Hello."]
    assert model.asked == 1
    assert asked.invoke("Again?", "s-1").text == "Hello."


def test_one_of_sixteen_tasks_gets_the_session() -> None:
    class Waiting(Gated):
        async def acomplete(self, request: ModelRequest) -> ModelReply:
            self.asked += 1
            await opened.wait()
            return reply_of("Hello.")

    async def race_of_tasks() -> list[Any]:
        async def attempt() -> Any:
            try:
                return await asked.ainvoke("Hello?", "s-1")
            except SessionConflict as conflict:
                refused.append(conflict)
                if len(refused) == 15:
                    opened.set()
                return conflict

        return await asyncio.gather(*[attempt() for _ in range(16)])

    refused: list[SessionConflict] = []
    opened = asyncio.Event()
    model = Waiting()
    asked = agent(model)
    results = asyncio.run(race_of_tasks())
    assert [reply.text for reply in winners(results)] == ["Hello."]
    assert (len(refused), model.asked) == (15, 1)


def test_two_concurrent_identical_answers_are_taken_once() -> None:
    gated = Gated()
    sessions = Sessions()
    model = NATIVE.model([NATIVE.calls(("house::light", {"on": True}))])
    control = roc_agent(model, sessions=sessions).invoke("Light.", "s-1").return_control
    assert control is not None
    asked = roc_agent(gated, sessions=sessions)
    attempt = lambda: asked.invoke(session_id="s-1", results=control.answer("on"))  # noqa: E731
    (reply,) = winners(race([attempt, attempt], gated))
    assert reply.text == "Hello."
    assert attempt().text == "Hello."  # who was refused asks again
    assert gated.asked == 1


def test_thirty_two_sessions_of_one_agent_run_at_the_same_time() -> None:
    asked = agent(Meeting(32))
    with ThreadPoolExecutor(32) as pool:
        replies = list(pool.map(lambda n: asked.invoke(f"I am {n}.", f"s-{n}"), range(32)))
    assert [reply.text for reply in replies] == [f"You said: I am {n}." for n in range(32)]
    for n in (0, 31):
        assert f"I am {n}." in str(asked.render("ORCHESTRATION", "Next", f"s-{n}").messages)


def test_thirty_two_tasks_of_one_agent_run_at_the_same_time() -> None:
    asked = agent(Meeting(32))

    async def ask_all() -> list[Reply]:
        return await asyncio.gather(*[asked.ainvoke(f"I am {n}.", f"s-{n}") for n in range(32)])

    replies = asyncio.run(ask_all())
    assert [reply.text for reply in replies] == [f"You said: I am {n}." for n in range(32)]


@pytest.mark.parametrize("kind", ["path", "stores", "sessions of one memory store"])
def test_two_agents_of_one_name_share_their_sessions(kind: str, tmp_path: Path) -> None:
    # A server that loads an agent again has two of them for a while.
    memory = InMemoryStore()

    def opened() -> Any:
        file = tmp_path / "s.db"
        return {"path": file, "stores": SQLiteStore(file), "sessions of one memory store": memory}[
            kind
        ]

    model = Gated()
    agents = [agent(model, sessions=opened()) for _ in range(2)]
    attempts = [lambda one=one: one.invoke("Hello?", "s-1") for one in agents * 4]
    (reply,) = winners(race(attempts, model))
    assert reply.text == "Hello."
    assert model.asked == 1
    for one in agents:
        shown = str(one.render("ORCHESTRATION", "Next", "s-1").messages)
        assert shown.count("Hello?") == 1


def test_two_agents_of_different_names_share_a_file_but_no_sessions(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "s.db")
    agents = [
        Agent(name, "You help.", NATIVE.model([answer(f"I am {name}.")] * 2), sessions=store)
        for name in ("ann", "bob")
    ]
    for one in agents:
        one.invoke("Who are you?", "s-1", session_attributes={"secret": one.name})
    for one in agents:
        assert one.invoke("Sure?", "s-1").text == f"I am {one.name}."
    model = agents[1].plan.orchestration.model
    assert "I am ann." not in str(model.requests[1].messages)  # type: ignore[attr-defined]
    assert sorted(info.label.split("/")[-1] for info in store.list()) == ["s-1", "s-1"]


def test_a_file_can_be_made_by_many_at_once(tmp_path: Path) -> None:
    start = threading.Barrier(8)

    def ask(n: int) -> str:
        start.wait(WAIT)
        return (
            agent(NATIVE.model([answer(f"{n}")]), sessions=tmp_path / "s.db")
            .invoke("Who?", f"s-{n}")
            .text
        )

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [str(n) for n in range(8)]


def test_a_refused_invocation_leaves_nothing_behind() -> None:
    model = Gated()
    store = InMemoryStore()
    asked = agent(model, sessions=store)
    race([lambda: asked.invoke("Hello?", "s-1")] * 4, model)
    (info,) = store.list()
    assert [record["kind"] for record in store.load(info.key)] == ["turn", "model", "end"]


def test_turns_of_threads_that_take_turns_are_all_there(tmp_path: Path) -> None:
    # Two processes' worth of agents, each seeing what the other has added.
    calls = Calls()
    days = NATIVE.calls(("vacations::get_days", {"employee": "E-1"}))
    models = [NATIVE.model([days, answer(f"from {n}")] * 3) for n in range(2)]
    agents = [
        agent(model, calls.groups(), sessions=Sessions(SQLiteStore(tmp_path / "s.db")))
        for model in models
    ]
    for round in range(3):
        for n, one in enumerate(agents):
            assert one.invoke(f"Round {round}, {n}?", "s-1").text == f"from {n}"
    last = models[1].requests[-1]
    asked = [text for text in texts_of(last) if text.startswith("Round")]
    assert asked == [f"Round {round}, {n}?" for round in range(3) for n in range(2)]
    assert len(calls.made) == 6


def test_a_session_that_was_deleted_elsewhere_begins_anew(tmp_path: Path) -> None:
    asked = agent(NATIVE.model([answer("One.")] * 3), sessions=tmp_path / "s.db")
    asked.invoke("First?", "s-1")
    other = SQLiteStore(tmp_path / "s.db")
    (info,) = other.list()
    other.delete(info.key)
    asked.invoke("Second?", "s-1")
    model = asked.plan.orchestration.model
    assert "First?" not in str(model.requests[-1].messages)  # type: ignore[attr-defined]
    other.close()


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "file"])
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_session_that_was_begun_again_elsewhere_is_read_again(
    turns: int, stored: bool, tmp_path: Path
) -> None:
    # Its journal may have as many records as the one that is known, or more, or fewer.
    memory = InMemoryStore()

    def opened(*replies: str) -> Agent:
        store = SQLiteStore(tmp_path / "s.db") if stored else memory
        return agent(NATIVE.model([answer(text) for text in replies]), sessions=Sessions(store))

    asked = opened("One.", "Two.", "Last.")
    for question in ("First?", "Second?"):
        asked.invoke(question, "s-1", session_attributes={"secret": "canary"})
    other = opened("Other.", "Other.", "Other.")
    (info,) = other.sessions.store.list()
    other.sessions.store.delete(info.key)
    for n in range(turns):
        other.invoke(f"Other {n}?", "s-1")
    asked.invoke("Third?", "s-1")
    model: Any = asked.plan.orchestration.model
    told = str(model.requests[-1].messages)
    assert "First?" not in told and "One." not in told
    assert [f"Other {n}?" in told for n in range(turns)] == [True] * turns
    assert asked.sessions.peek(info.label).attributes == {}
