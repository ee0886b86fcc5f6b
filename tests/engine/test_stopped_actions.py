"""A turn that stops in the middle of its actions: the next one knows what was begun."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from whole_agents import NATIVE, agent, answer, roles, texts_of

from orchestrator import ActionGroup, Agent, DependencyFailed, SQLiteStore
from orchestrator.testing import InMemoryStore

UNKNOWN = "whether it took effect is not known"
CALL = ("bank::pay", {"to": "ann"})
BOTH_CALLS = [CALL, ("bank::pay", {"to": "bob"})]


def bank(pay: Callable[[str], Any], model: Any, sessions: Any) -> Agent:
    return agent(model, [ActionGroup("bank", [pay])], sessions=sessions)


def invoke(agent: Agent, question: str) -> str:
    return agent.invoke(question, "s-1").text


def ainvoke(agent: Agent, question: str) -> str:
    return asyncio.run(agent.ainvoke(question, "s-1")).text


EACH_WAY = pytest.mark.parametrize("run", [invoke, ainvoke])


class Failing(SQLiteStore):
    """A file whose disk is full when a record of one kind is written, some times."""

    kind, times = "", 0

    def append(self, key: str, expected: int, records: Any, **options: Any) -> None:
        if self.times and any(record["kind"] == self.kind for record in records):
            self.times -= 1
            raise DependencyFailed("the disk is full", resource="disk")
        super().append(key, expected, records, **options)


def kinds(store: Any) -> list[str]:
    (info,) = store.list()
    return [record["kind"] for record in store.load(info.key)]


@EACH_WAY
@pytest.mark.parametrize("calls", [[CALL], BOTH_CALLS], ids=["one", "two"])
@pytest.mark.parametrize("restart", [False, True])
def test_an_outcome_that_could_not_be_written_is_written_with_the_end(
    restart: bool, calls: Any, run: Any, tmp_path: Path
) -> None:
    def pay(to: str) -> str:
        """Pays somebody."""
        paid.append(to)
        return f"paid {to}"

    paid: list[str] = []
    store = Failing(tmp_path / "s.db")
    store.kind, store.times = "action", 1
    model = NATIVE.model([NATIVE.calls(*calls), answer("Next.")])
    asked = bank(pay, model, store)
    with pytest.raises(DependencyFailed, match="the disk is full"):
        run(asked, "Pay.")
    assert kinds(store)[:4] == ["turn", "model", "intent", "action"]
    if restart:
        asked = bank(pay, model, store)
    assert run(asked, "Did you?") == "Next."
    told = texts_of(model.requests[-1])
    # What is known of each call is told, and nothing is told of none.
    known = [text for text in told if text.startswith("paid ") or UNKNOWN in text]
    assert len(known) == len(calls)
    assert any(text.startswith("paid ") for text in known)
    assert roles(model.requests[-1]) == ["user", "assistant", "user", "assistant", "user"]
    assert set(paid) == {call[1]["to"] for call in calls}


@EACH_WAY
def test_calls_that_were_not_begun_are_not_told(run: Any, tmp_path: Path) -> None:
    def pay(to: str) -> str:
        """Pays somebody."""
        raise AssertionError("nothing is carried out that is not written down first")

    store = Failing(tmp_path / "s.db")
    store.kind, store.times = "intent", 1
    model = NATIVE.model([NATIVE.calls(CALL), answer("Next.")])
    asked = bank(pay, model, store)
    with pytest.raises(DependencyFailed, match="the disk is full"):
        run(asked, "Pay.")
    assert kinds(store) == ["turn", "model", "end"]
    assert run(asked, "Did you?") == "Next."
    assert texts_of(model.requests[-1])[1:] == ["Did you?"]


def test_a_reply_that_could_not_be_written_is_written_with_the_end(tmp_path: Path) -> None:
    store = Failing(tmp_path / "s.db")
    store.kind, store.times = "end", 1
    model = NATIVE.model([answer("Twelve."), answer("Next.")])
    asked = agent(model, sessions=store)
    with pytest.raises(DependencyFailed, match="the disk is full"):
        asked.invoke("Days?", "s-1")
    assert kinds(store) == ["turn", "model", "end"]


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "file"])
@pytest.mark.parametrize("calls", [[CALL], BOTH_CALLS], ids=["one", "two"])
def test_a_task_that_is_cancelled_in_an_action(calls: Any, stored: bool, tmp_path: Path) -> None:
    async def pay(to: str) -> str:
        """Pays somebody."""
        begun.set()
        if to == "ann":
            await asyncio.Event().wait()
        return f"paid {to}"

    async def both() -> None:
        task = asyncio.create_task(asked.ainvoke("Pay.", "s-1"))
        while len(begun_calls()) < len(calls):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await asked.ainvoke("Did you?", "s-1")).text == "Next."

    def begun_calls() -> Any:
        return calls if begun.is_set() else []

    begun = threading.Event()
    store = SQLiteStore(tmp_path / "s.db") if stored else InMemoryStore()
    model = NATIVE.model([NATIVE.calls(*calls), answer("Next.")])
    asked = bank(pay, model, store)
    asyncio.run(both())
    told = texts_of(model.requests[-1])
    assert sum(UNKNOWN in text for text in told) >= 1
    assert sum("The turn was stopped" in text for text in told) >= 1
    assert not any("in time" in text for text in told)
    assert roles(model.requests[-1]) == ["user", "assistant", "user", "assistant", "user"]


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "file"])
def test_a_program_that_is_interrupted_in_an_action(stored: bool, tmp_path: Path) -> None:
    def pay(to: str) -> str:
        """Pays somebody."""
        raise KeyboardInterrupt

    store = SQLiteStore(tmp_path / "s.db") if stored else InMemoryStore()
    model = NATIVE.model([NATIVE.calls(CALL), answer("Next.")])
    asked = bank(pay, model, store)
    with pytest.raises(KeyboardInterrupt):
        asked.invoke("Pay.", "s-1")
    assert asked.invoke("Did you?", "s-1").text == "Next."
    assert any(UNKNOWN in text for text in texts_of(model.requests[-1]))
