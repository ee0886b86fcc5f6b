"""Turns that an event loop runs at the same time have their appends made together."""

from __future__ import annotations

import asyncio
import base64
import gc
import sqlite3
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import closing, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from whole_agents import INSTRUCTION, NATIVE, answer

from orchestrator import ActionGroup, Agent, SQLiteStore, action
from orchestrator.errors import DependencyFailed, SessionBusy
from orchestrator.models import ModelReply, ModelRequest
from orchestrator.server.fair_loop import FairEventLoop
from orchestrator.sessions import EncryptedStore
from orchestrator.sessions.rows import Append
from orchestrator.support import shared_appends
from orchestrator.support.encryption import KEYS
from orchestrator.support.lanes import Lanes
from orchestrator.testing import ScriptedModel

KINDS = ["turn", "model", "intent", "action", "model", "end"]
MANY = 20
LOOK = {"toolUseId": "t-1", "name": "shop__look", "input": {"name": "ink"}}
OWN = ("at", "began", "ended", "until", "owner", "id", "calls")  # of each turn
caller: ContextVar[str] = ContextVar("caller", default="nobody")


class Noting(SQLiteStore):
    """A store that notes how many appends it makes together."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.together: list[int] = []

    def append_together(self, appends: Sequence[Append]) -> list[bool]:
        self.together.append(len(appends))
        return super().append_together(appends)


class Finder(ScriptedModel):
    """Looks for something, and says that it is found; whose turn it is does not matter."""

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        is_found = "is there" in str(request.messages[-1])
        reply = answer("Found.") if is_found else [{"toolUse": LOOK}]
        return ScriptedModel([reply], NATIVE.model_id).complete(request)


class Shop:
    """An agent that looks for something in each turn."""

    def __init__(self, store: Any) -> None:
        self.callers: list[str] = []

        @action
        async def look(name: str) -> str:
            """Looks for something."""
            self.callers.append(caller.get())
            return f"{name} is there"

        groups = [ActionGroup("shop", [look])]
        model = Finder([], NATIVE.model_id)
        self.agent = Agent("shop", INSTRUCTION, model, action_groups=groups, sessions=store)

    async def ask(self, session: str, question: str = "Ink?") -> str:
        caller.set(session)
        return (await self.agent.ainvoke(question, session)).text

    async def ask_all(self, count: int = MANY, question: str = "Ink?") -> list[Any]:
        asked = (self.ask(f"s-{number}", question) for number in range(count))
        return await asyncio.gather(*asked, return_exceptions=True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Noting]:
    with closing(Noting(tmp_path / "s.sqlite")) as made:
        yield made


@pytest.fixture
def other(tmp_path: Path, store: Noting) -> Iterator[sqlite3.Connection]:
    """What another process does to the file."""
    with closing(sqlite3.connect(store.path, isolation_level=None)) as made:
        yield made


def run(work: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=FairEventLoop) as runner:
        return runner.run(work)


async def let_others_run(steps: int = 1000) -> None:
    for _ in range(steps):
        await asyncio.sleep(0)


async def begin_until(
    place: int, shop: Shop, store: Noting, other: sqlite3.Connection, count: int
) -> list[asyncio.Task[str]]:
    """Turns that wait, at one of their four appends, for another process that has the file."""
    turns = [asyncio.create_task(shop.ask(f"s-{it}")) for it in range(count)]
    made = len(store.together)
    while len(store.together) < made + place:
        await asyncio.sleep(0)
    other.execute("BEGIN IMMEDIATE")
    await let_others_run()
    return turns


def read_journals(store: SQLiteStore) -> dict[str, list[str]]:
    return {
        info.label.rpartition("/")[2]: [record["kind"] for record in store.load(info.key)]
        for info in store.list()
    }


def test_turns_at_the_same_time_are_written_together(store: Noting) -> None:
    shop = Shop(store)

    async def main() -> None:
        assert await shop.ask("s-0") == "Found."
        assert store.together == []  # alone, it waits for nobody
        for _ in range(3):
            assert await shop.ask_all() == ["Found."] * MANY

    run(main())
    assert read_journals(store) == {f"s-{it}": KINDS * (4 if it == 0 else 3) for it in range(MANY)}
    assert store.together == [MANY] * 12
    assert sorted(shop.callers) == sorted(["s-0", *[f"s-{it}" for it in range(MANY)] * 3])


@pytest.mark.parametrize("factory", [FairEventLoop, asyncio.SelectorEventLoop])
def test_what_is_written_is_what_one_turn_after_another_writes(
    factory: Any, store: Noting, tmp_path: Path
) -> None:
    async def main() -> None:
        await Shop(store).ask_all(5)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    alone = SQLiteStore(tmp_path / "alone.sqlite")
    for number in range(5):
        asyncio.run(Shop(alone).ask(f"s-{number}"))
    assert read_usual(store) == read_usual(alone)
    alone.close()


def read_usual(store: SQLiteStore) -> dict[str, list[Any]]:
    """What turns have in common that were not the same."""
    return {
        info.label: [
            {name: it for name, it in record.items() if name not in OWN} | {"has": sorted(record)}
            for record in store.load(info.key)
        ]
        for info in store.list()
    }


@pytest.mark.parametrize("pauses", [[0.0] * 100_000, []], ids=["soon", "late"])
def test_all_wait_while_another_process_writes(
    pauses: list[float],
    store: Noting,
    other: sqlite3.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_appends, "PAUSES", pauses)
    shop = Shop(store)

    async def main() -> list[Any]:
        await shop.ask_all()
        other.execute("BEGIN IMMEDIATE")
        turns = asyncio.create_task(shop.ask_all())
        await let_others_run()
        assert not turns.done()
        other.execute("COMMIT")
        return await turns

    assert run(main()) == ["Found."] * MANY
    assert read_journals(store) == {f"s-{it}": KINDS * 2 for it in range(MANY)}


def test_who_does_not_know_what_others_have_written_reads_it_first(
    store: Noting, tmp_path: Path
) -> None:
    with closing(SQLiteStore(store.path)) as second:
        shops = [Shop(store), Shop(second)]

        async def main() -> None:
            await shops[0].ask_all()
            await shops[1].ask_all(5)
            assert await shops[0].ask_all() == ["Found."] * MANY

        run(main())
    assert read_journals(store) == {f"s-{it}": KINDS * (3 if it < 5 else 2) for it in range(MANY)}


def test_a_damaged_session_fails_alone(store: Noting, other: sqlite3.Connection) -> None:
    shop = Shop(store)

    async def main() -> list[Any]:
        await shop.ask_all()
        other.execute("INSERT INTO journal SELECT (id << 32) + 6, '{}', 0 FROM session LIMIT 1")
        return await shop.ask_all()

    told = run(main())
    (damaged,) = [number for number, it in enumerate(told) if it != "Found."]
    assert isinstance(told[damaged], DependencyFailed) and "damaged" in str(told[damaged])
    other.execute("DELETE FROM journal WHERE record = '{}'")
    assert read_journals(store) == {
        f"s-{it}": KINDS * (1 if it == damaged else 2) for it in range(MANY)
    }


def test_a_store_that_fails_says_so_to_each_turn(store: Noting, other: sqlite3.Connection) -> None:
    shop = Shop(store)

    async def main() -> tuple[list[Any], list[Any]]:
        await shop.ask_all()
        # Nothing can be written: the tables are another program's
        other.execute("ALTER TABLE journal RENAME TO gone")
        failed = await shop.ask_all()
        other.execute("ALTER TABLE gone RENAME TO journal")
        return failed, await shop.ask_all()

    failed, later = run(main())
    assert [type(it) for it in failed] == [DependencyFailed] * MANY
    assert later == ["Found."] * MANY
    assert read_journals(store) == {f"s-{it}": KINDS * 2 for it in range(MANY)}


def test_one_session_has_one_turn_at_a_time(store: Noting) -> None:
    shop = Shop(store)

    async def main() -> list[Any]:
        await shop.ask("s-0")
        asked = [shop.ask("s-0"), shop.ask("s-0"), shop.ask("s-1")]
        return await asyncio.gather(*asked, return_exceptions=True)

    one, two, three = run(main())
    assert (one, type(two), three) == ("Found.", SessionBusy, "Found.")
    assert read_journals(store) == {"s-0": KINDS * 2, "s-1": KINDS}


@pytest.mark.parametrize("place", range(4), ids=["turn", "intent", "action", "end"])
def test_a_cancelled_turn_has_written_what_it_was_about_to_write(
    place: int, store: Noting, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_appends, "PAUSES", [0.0] * 100_000)
    shop = Shop(store)

    async def main() -> None:
        await shop.ask_all()
        turns = await begin_until(place, shop, store, other, MANY)
        turns[3].cancel()
        await let_others_run()
        other.execute("COMMIT")
        told = await asyncio.gather(*turns, return_exceptions=True)
        assert [type(it) for it in told] == [
            asyncio.CancelledError if it == 3 else str for it in range(MANY)
        ]
        assert await shop.ask("s-3") == "Found."

    run(main())
    written = [[], ["turn", "model", "intent", "end"], [*KINDS[:4], "end"], KINDS][place]
    journals = read_journals(store)
    assert journals.pop("s-3") == KINDS + written + KINDS
    assert journals == {f"s-{it}": KINDS * 2 for it in range(MANY) if it != 3}


@pytest.mark.parametrize("place", range(4), ids=["turn", "intent", "action", "end"])
def test_turns_of_a_closed_loop_are_stopped(
    place: int, store: Noting, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_appends, "PAUSES", [0.0] * 100_000)
    shop = Shop(store)

    async def stop_at_place() -> None:
        turns = await begin_until(place, shop, store, other, 5)
        assert not any(turn.done() for turn in turns)

    loop = FairEventLoop()
    loop.set_exception_handler(lambda *_: None)  # it complains of tasks that have not ended
    loop.run_until_complete(shop.ask_all(5))
    loop.run_until_complete(stop_at_place())
    other.execute("COMMIT")
    loop.close()
    del loop
    gc.collect()
    assert run(shop.ask_all(5)) == ["Found."] * 5
    written: list[str] = [[], ["turn", "model", "intent", "end"], [*KINDS[:4], "end"], KINDS][place]
    assert read_journals(store) == {f"s-{it}": KINDS + written + KINDS for it in range(5)}


def test_a_store_that_changes_how_an_append_is_made_makes_each(tmp_path: Path) -> None:
    class Counting(SQLiteStore):
        written = 0

        def append(self, key: str, expected: int, records: Sequence[Any], **options: Any) -> int:
            self.written += len(records)
            return super().append(key, expected, records, **options)

    class Wrapper:
        def __init__(self, inner: SQLiteStore) -> None:
            self.inner, self.written = inner, 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def append(self, key: str, expected: int, records: Sequence[Any], **options: Any) -> int:
            self.written += len(records)
            return self.inner.append(key, expected, records, **options)

    for made in (Counting(tmp_path / "one.sqlite"), Wrapper(SQLiteStore(tmp_path / "two.sqlite"))):
        shop = Shop(made)
        for _ in range(2):
            assert run(shop.ask_all()) == ["Found."] * MANY
        assert made.written >= 2 * MANY * (len(KINDS) - 1)
        made.close()


def test_an_answer_of_the_wrong_length_is_none(store: Noting, monkeypatch: Any) -> None:
    # Of appends that come together nobody knows how many there are: it may be one.
    monkeypatch.setattr(Noting, "append_together", lambda _, made: [True] * (len(made) + 1))
    shop = Shop(store)
    for _ in range(3):
        assert run(shop.ask_all()) == ["Found."] * MANY
    assert read_journals(store) == {f"s-{it}": KINDS * 3 for it in range(MANY)}


class Call:
    """A call that notes what is done with it."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def prepare(self) -> None:
        self.made.append("prepared")

    def take(self, append: Any) -> None:
        self.made.append("taken")

    def drop(self) -> None:
        self.made.append("dropped")

    def make(self) -> None:
        self.made.append("made")


@pytest.mark.parametrize("is_quick", [None, lambda: True], ids=["owed", "not owed"])
def test_a_call_that_nobody_waits_for_any_more_is_made_once(is_quick: Any) -> None:
    call = Call()

    async def main() -> None:
        lanes = Lanes(1, nullcontext, lambda appends: [True] * len(appends))
        others = asyncio.create_task(asyncio.sleep(0))  # so that the loop is not idle
        waiting: Any = lanes.do_together("s-1", call, lambda: True, is_quick)
        waiting.send(None)
        assert call.made == []
        waiting.close()
        await others
        await let_others_run(100)

    run(main())
    assert call.made == (["made"] if is_quick is None else [])


def test_sealed_records_are_written_one_by_one(
    store: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS, base64.b64encode(bytes(32)).decode())
    shop = Shop(EncryptedStore(store))

    async def main() -> None:
        for _ in range(2):
            assert await shop.ask_all() == ["Found."] * MANY

    run(main())
    assert store.together == []
    assert {kind for kinds in read_journals(store).values() for kind in kinds} == {"sealed"}
