"""An event loop does not wait for a store that blocks, and nothing else changes by that."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from whole_agents import INSTRUCTION, NATIVE, answer

from orchestrator import ActionGroup, Agent, DependencyFailed, SQLiteStore, action
from orchestrator.models import ModelReply, ModelRequest
from orchestrator.sessions import Record
from orchestrator.testing import ScriptedModel

WAIT = 60  # a bound for tests that hang, never a pause


class Held(SQLiteStore):
    """A store whose appends of one kind of record wait until they may go on."""

    def __init__(self, path: Path, kind: str = "") -> None:
        super().__init__(path)
        self.kind = kind
        self.reached, self.may = threading.Event(), threading.Event()
        self.threads_seen: set[str] = set()

    def reserve(self) -> None:
        """It is never free: its appends wait."""

    def append(self, key: str, expected: int, records: Sequence[Record], **options: Any) -> None:
        self.threads_seen.add(threading.current_thread().name)
        if any(record["kind"] == self.kind for record in records):
            self.reached.set()
            assert self.may.wait(WAIT), "the event loop waits for the store"
        super().append(key, expected, records, **options)


def paying(store: Any, script: list[Any] | None = None) -> Agent:
    @action
    async def pay(to: str) -> str:
        """Pays somebody."""
        return f"paid {to}"

    calls = NATIVE.calls(("bank::pay", {"to": "ann"}), ("bank::pay", {"to": "bob"}))
    model = NATIVE.model(script if script is not None else [calls, answer("Paid.")])
    groups = [ActionGroup("bank", [pay])]
    return Agent("bank", INSTRUCTION, model, action_groups=groups, sessions=store)


async def reached(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, WAIT)


@pytest.mark.parametrize("kind", ["turn", "intent", "action", "end"])
def test_the_loop_goes_on_while_the_store_writes(kind: str, tmp_path: Path) -> None:
    store = Held(tmp_path / "s.sqlite", kind)
    agent = paying(store)

    async def main() -> str:
        turn = asyncio.create_task(agent.ainvoke("Pay.", "s-1"))
        await reached(store.reached)
        store.may.set()  # nobody else does it: the store waits until this runs
        return (await turn).text

    assert asyncio.run(main()) == "Paid."
    assert store.threads_seen == {"orchestrator-sessions"}
    (info,) = store.list()
    kinds = [record["kind"] for record in store.load(info.key)]
    assert kinds == ["turn", "model", "intent", "action", "action", "model", "end"]


def test_the_loop_goes_on_while_another_process_has_the_file(tmp_path: Path) -> None:
    store = Held(tmp_path / "s.sqlite", "turn")
    store.may.set()
    agent = paying(store, [answer("Hello.")])
    other = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def main() -> str:
        turn = asyncio.create_task(agent.ainvoke("Hello", "s-1"))
        await reached(store.reached)
        other.execute("COMMIT")
        return (await turn).text

    assert asyncio.run(main()) == "Hello."
    other.close()


class Looking(ScriptedModel):
    """A model that looks, when it is asked, at what the journal holds."""

    def __init__(self, script: list[Any], look: Callable[[], list[str]]) -> None:
        super().__init__(script, NATIVE.model_id)
        self.look = look
        self.seen: list[list[str]] = []

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        self.seen.append(self.look())
        return await super().acomplete(request)


def test_what_must_not_be_lost_is_written_before_the_next_step(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "s.sqlite")

    def kinds() -> list[str]:
        with sqlite3.connect(tmp_path / "s.sqlite") as db:
            rows = db.execute("SELECT record ->> 'kind' FROM journal ORDER BY place").fetchall()
        db.close()
        return [kind for (kind,) in rows]

    seen: list[list[str]] = []

    @action
    async def pay(to: str) -> str:
        """Pays somebody."""
        seen.append(kinds())
        return "paid"

    call = NATIVE.calls(("bank::pay", {"to": "ann"}))
    model = Looking([call, answer("Paid.")], kinds)
    groups = [ActionGroup("bank", [pay])]
    agent = Agent("bank", INSTRUCTION, model, action_groups=groups, sessions=store)
    asyncio.run(agent.ainvoke("Pay.", "s-1"))
    assert model.seen == [["turn"], ["turn", "model", "intent", "action"]]
    assert seen == [["turn", "model", "intent"]]
    assert kinds() == ["turn", "model", "intent", "action", "model", "end"]


def test_a_turn_that_is_cancelled_while_it_opens_gives_its_session_back(tmp_path: Path) -> None:
    store = Held(tmp_path / "s.sqlite", "turn")
    agent = paying(store, [answer("Hello.")])

    async def main() -> str:
        turn = asyncio.create_task(agent.ainvoke("Pay.", "s-1"))
        await reached(store.reached)
        turn.cancel()
        await asyncio.sleep(0)
        turn.cancel()  # whoever is impatient
        store.may.set()
        with pytest.raises(asyncio.CancelledError):
            await turn
        return (await agent.ainvoke("Hello", "s-1")).text

    assert asyncio.run(main()) == "Hello."
    assert [turn.stop_reason for turn in agent.turns("s-1")] == ["cancelled", "end_turn"]


@pytest.mark.parametrize("kind", ["intent", "action"])
def test_what_is_being_written_is_written_when_the_turn_is_cancelled(
    kind: str, tmp_path: Path
) -> None:
    store = Held(tmp_path / "s.sqlite", kind)
    agent = paying(store)

    async def main() -> None:
        turn = asyncio.create_task(agent.ainvoke("Pay.", "s-1"))
        await reached(store.reached)
        turn.cancel()
        store.may.set()
        with pytest.raises(asyncio.CancelledError):
            await turn

    asyncio.run(main())
    (info,) = store.list()
    records = store.load(info.key)
    assert kind in [record["kind"] for record in records]
    assert records[-1]["kind"] == "end" and records[-1]["result"] == "cancelled"


def test_a_turn_that_is_cancelled_as_its_end_is_written_has_ended(tmp_path: Path) -> None:
    store = Held(tmp_path / "s.sqlite", "end")
    agent = paying(store, [answer("Hello.")])

    async def main() -> None:
        turn = asyncio.create_task(agent.ainvoke("Hello", "s-1"))
        await reached(store.reached)
        turn.cancel()
        store.may.set()
        with pytest.raises(asyncio.CancelledError):
            await turn

    asyncio.run(main())
    assert [turn.stop_reason for turn in agent.turns("s-1")] == ["end_turn"]
    (info,) = store.list()
    assert [record["kind"] for record in store.load(info.key)] == ["turn", "model", "end"]


def test_a_store_that_fails_fails_the_turn(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "s.sqlite")
    agent = paying(store)
    store.close()
    with pytest.raises(DependencyFailed):
        asyncio.run(agent.ainvoke("Pay.", "s-1"))


def test_one_agent_serves_several_event_loops(tmp_path: Path) -> None:
    agent = paying(SQLiteStore(tmp_path / "s.sqlite"), [answer("Hello.")] * 20)
    texts: list[str] = []

    def loop(number: int) -> None:
        async def main() -> None:
            for turn in range(5):
                texts.append((await agent.ainvoke("Hello", f"s-{number}-{turn}")).text)

        asyncio.run(main())

    threads = [threading.Thread(target=loop, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert texts == ["Hello."] * 20
