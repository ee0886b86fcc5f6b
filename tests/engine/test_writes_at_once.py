"""An event loop writes a session's file itself, as long as that waits for nothing."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from forking import run_in_child
from whole_agents import INSTRUCTION, NATIVE, answer

from orchestrator import ActionGroup, Agent, Limits, SessionConflict, SQLiteStore, action
from orchestrator.errors import ActionOutcomeUnknown, DependencyFailed
from orchestrator.models import ModelReply, ModelRequest
from orchestrator.server.fair_loop import FairEventLoop
from orchestrator.sessions import Record
from orchestrator.support import lanes
from orchestrator.testing import ScriptedModel

LARGE = "large " * 50_000
LOOP, THREAD = "MainThread", "orchestrator-sessions"
KINDS = ("turn", "intent", "action", "end")


class Noting(SQLiteStore):
    """A store that notes which thread appends what."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(path)
        self.writers: list[str] = []

    def append(self, key: str, expected: int, records: Sequence[Record], **options: Any) -> None:
        self.writers.append(threading.current_thread().name)
        super().append(key, expected, records, **options)

    def begin(self, *session: Any, **options: Any) -> list[Record] | None:
        self.writers.append(threading.current_thread().name)
        return super().begin(*session, **options)

    def take_writers(self) -> list[str]:
        writers, self.writers = self.writers, []
        return writers


class Bank:
    """An agent that pays, and what is done at the points of its turn."""

    def __init__(self, store: SQLiteStore, *, paid: str = "paid", said: str = "Paid.") -> None:
        async def nothing() -> None:
            pass

        self.on_pay: Callable[[], Awaitable[None]] = nothing
        self.on_ask: Callable[[], Awaitable[None]] = nothing
        bank = self

        @action
        async def pay(to: str) -> str:
            """Pays somebody."""
            await bank.on_pay()
            return paid

        class Asked(ScriptedModel):
            async def acomplete(self, request: ModelRequest) -> ModelReply:
                await bank.on_ask()
                return await super().acomplete(request)

        script = [NATIVE.calls(("bank::pay", {"to": "ann"})), answer(said)] * 800
        self.model = Asked(script, NATIVE.model_id)
        groups = [ActionGroup("bank", [pay])]
        self.agent = Agent(
            *("bank", INSTRUCTION, self.model),
            action_groups=groups,
            sessions=store,
            limits=Limits(result_bytes=1_000_000),
        )

    async def ask(self, session: str = "s-1", question: str = "Pay.") -> str:
        return (await self.agent.ainvoke(question, session)).text


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Noting]:
    made = Noting(tmp_path / "s.sqlite")
    yield made
    made.close()


def read_kinds(store: SQLiteStore) -> list[str]:
    return [record["kind"] for info in store.list() for record in store.load(info.key)]


def test_no_thread_writes_a_turn(store: Noting) -> None:
    bank = Bank(store)

    async def main() -> None:
        await bank.ask()
        assert store.take_writers() == [THREAD, LOOP, LOOP, LOOP]  # it makes its process's lock
        for session in ("s-1", "s-2", "s-1"):
            assert await bank.ask(session) == "Paid."
            assert store.take_writers() == [LOOP] * 4

    asyncio.run(main())


@pytest.mark.parametrize(
    ("large", "writers"),
    [
        ({"question": LARGE}, [THREAD, LOOP, LOOP, LOOP]),
        ({"paid": LARGE}, [LOOP, LOOP, THREAD, LOOP]),
        ({"said": LARGE}, [LOOP, LOOP, LOOP, THREAD]),
        ({"said": "中" * 8_000}, [LOOP, LOOP, LOOP, THREAD]),
        ({"said": "x" * 24_000}, [LOOP, LOOP, LOOP, THREAD]),  # a reply, what it says, and the end
        ({"said": "x" * 12_000}, [LOOP, LOOP, LOOP, LOOP]),
    ],
    ids=["question", "result", "answer", "not ASCII", "several times", "small"],
)
def test_large_records_are_written_in_a_thread(
    large: dict[str, str], writers: list[str], store: Noting
) -> None:
    bank = Bank(store, paid=large.get("paid", "paid"), said=large.get("said", "Paid."))

    async def main() -> None:
        await bank.ask("s-0")
        store.take_writers()
        await bank.ask(question=large.get("question", "Pay."))

    asyncio.run(main())
    assert store.writers == writers


@pytest.mark.parametrize("place", range(4), ids=KINDS)
@pytest.mark.parametrize(
    ("pauses", "writer"), [([0.0] * 100_000, LOOP), ([], THREAD)], ids=["soon", "late"]
)
def test_the_loop_goes_on_while_another_process_writes(
    pauses: list[float],
    writer: str,
    place: int,
    store: Noting,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "PAUSES", pauses)
    other = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
    bank = Bank(store)
    calls = 0

    async def main() -> str:
        await bank.ask("s-0")
        store.take_writers()
        is_held = asyncio.Event()

        async def hold() -> None:
            nonlocal calls
            calls += 1
            if calls == place:  # the model's first call, the action, the model's second call
                other.execute("BEGIN IMMEDIATE")
                is_held.set()

        async def free() -> None:
            await is_held.wait()
            for _ in range(1000):  # the loop is free, as often as one likes
                await asyncio.sleep(0)
            other.execute("COMMIT")  # nobody else does it: the turn waits until this runs

        bank.on_ask = bank.on_pay = hold
        if place == 0:
            other.execute("BEGIN IMMEDIATE")
            is_held.set()
        text, _ = await asyncio.gather(bank.ask(), free())
        return text

    assert asyncio.run(main()) == "Paid."
    other.close()
    assert store.writers == [writer if it == place else LOOP for it in range(4)]
    assert read_kinds(store)[-6:] == ["turn", "model", "intent", "action", "model", "end"]


def test_a_cancelled_turn_writes_what_waits_for_another_process(
    store: Noting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "PAUSES", [0.0] * 100_000)
    other = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
    bank = Bank(store)

    async def main() -> None:
        await bank.ask("s-0")
        is_held = asyncio.Event()

        async def hold() -> None:
            other.execute("BEGIN IMMEDIATE")
            is_held.set()

        bank.on_pay = hold
        turn = asyncio.create_task(bank.ask())
        await is_held.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        turn.cancel()
        for _ in range(100):
            await asyncio.sleep(0)
        assert not turn.done()  # who pays must not be left in the dark
        other.execute("COMMIT")
        with pytest.raises(asyncio.CancelledError):
            await turn

    asyncio.run(main())
    other.close()
    assert read_kinds(store)[:5] == ["turn", "model", "intent", "action", "end"]


def is_true() -> bool:
    return True


@pytest.mark.parametrize(("is_quick", "calls"), [(None, ["it"]), (is_true, [])])
def test_a_call_that_nobody_waits_for_any_more_is_made_if_it_has_begun(
    is_quick: Callable[[], bool] | None, calls: list[str]
) -> None:
    made = []

    async def main() -> None:
        busy = lanes.Lanes(1, lambda: None)
        call: Any = busy.do_soon("s-1", lambda: made.append("it"), is_true, is_quick)
        call.send(None)  # it waits for whoever has the store
        assert made == []
        call.close()

    asyncio.run(main())
    assert made == calls


@pytest.mark.parametrize(("is_quick", "calls"), [(None, ["it"]), (is_true, [])])
def test_a_cancelled_call_is_cancelled_whatever_comes_of_it(
    is_quick: Callable[[], bool] | None, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "PAUSES", [0.0] * 100_000)
    made = []

    def fail() -> None:
        made.append("it")
        raise SessionConflict("busy")

    async def main() -> None:
        busy = lanes.Lanes(1, lambda: None)
        call = asyncio.create_task(busy.do_soon("s-1", fail, is_true, is_quick))
        for _ in range(5):
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    assert made == calls


def test_who_comes_after_one_that_waits_for_the_disk_asks_when_it_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "PAUSES", [0.0] * 1_000_000)
    asked, is_copied = [], threading.Event()

    def refuse() -> Literal[False]:
        asked.append(is_copied.is_set())
        return False

    async def main() -> None:
        busy = lanes.Lanes(2, refuse)
        first = asyncio.create_task(busy.do_soon("s-1", is_copied.wait, is_true))
        await asyncio.sleep(0)
        second = asyncio.create_task(busy.do_soon("s-2", is_true, is_true))
        for _ in range(20):
            await asyncio.sleep(0)
        assert asked == [False] and not second.done()
        is_copied.set()
        await asyncio.gather(first, second)

    asyncio.run(main())
    assert asked == [False, True]


@pytest.mark.parametrize("pauses", [[0.0] * 100_000, [0.0] * 10, []], ids=["soon", "late", "no"])
def test_other_sessions_wait_too_while_another_process_writes(
    pauses: list[float], store: Noting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "PAUSES", pauses)
    other = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
    bank = Bank(store)

    async def main() -> list[str]:
        await bank.ask("s-0")
        other.execute("BEGIN IMMEDIATE")
        turns = [asyncio.create_task(bank.ask(f"s-{number}")) for number in range(8)]
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not any(turn.done() for turn in turns)
        other.execute("COMMIT")
        return await asyncio.gather(*turns)

    assert asyncio.run(main()) == ["Paid."] * 8
    other.close()


def test_what_another_process_has_written_is_read_first(tmp_path: Path) -> None:
    banks = [Bank(SQLiteStore(tmp_path / "s.sqlite"), said=said) for said in ("One.", "Two.")]

    async def main() -> None:
        for turn in range(6):
            await banks[turn % 2].ask(question=f"Number {turn}?")

    asyncio.run(main())
    last = str(banks[1].model.requests[-1].messages)
    assert [last.count(f"Number {turn}?") for turn in range(6)] == [1] * 6
    assert (last.count("One."), last.count("Two.")) == (3, 2)


@pytest.mark.parametrize("turns", [1, 2])
def test_a_session_that_was_deleted_meanwhile_begins_anew(turns: int, tmp_path: Path) -> None:
    stores = [SQLiteStore(tmp_path / "s.sqlite") for _ in range(2)]
    one, two = map(Bank, stores)

    async def main() -> None:
        await one.ask(question="Old?")
        (info,) = stores[1].list()
        stores[1].delete(info.key)
        for turn in range(turns):  # after one it has as many records as before
            await two.ask(question=f"New {turn}?")
        await one.ask(question="Last?")

    asyncio.run(main())
    last = str(one.model.requests[-1].messages)
    assert "Old?" not in last
    assert [last.count(f"New {turn}?") for turn in range(turns)] == [1] * turns


def test_another_writer_in_the_middle_of_a_turn_is_a_conflict(
    store: Noting, tmp_path: Path
) -> None:
    bank, other = Bank(store), SQLiteStore(tmp_path / "s.sqlite")

    async def meddle() -> None:
        (info,) = other.list()
        other.append(info.key, info.records, [{"kind": "closed", "reason": "ended", "at": 1}])

    async def main() -> None:
        bank.on_pay = meddle
        with pytest.raises(SessionConflict, match="changed by another invocation"):
            await bank.ask()

    asyncio.run(main())
    assert read_kinds(store) == ["turn", "model", "intent", "closed"]


def test_a_full_disk_is_reported_and_does_not_stay(store: Noting, tmp_path: Path) -> None:
    bank = Bank(store)
    with sqlite3.connect(tmp_path / "s.sqlite") as db:
        db.execute(
            "CREATE TRIGGER full BEFORE INSERT ON journal WHEN NEW.record ->> 'kind' = 'action' "
            "BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END"
        )

    async def main() -> None:
        with pytest.raises(ActionOutcomeUnknown, match="'bank::pay' took effect"):
            await bank.ask()
        db.execute("DROP TRIGGER full")
        assert await bank.ask("s-2") == "Paid."
        with pytest.raises(ActionOutcomeUnknown, match="nobody knows"):
            await bank.ask()

    asyncio.run(main())
    db.close()


def test_a_file_that_was_closed_is_a_typed_error(store: Noting) -> None:
    bank = Bank(store)

    async def main() -> None:
        await bank.ask()
        store.close()
        with pytest.raises(DependencyFailed, match="failed"):
            await bank.ask()

    asyncio.run(main())


def test_the_log_is_copied_into_the_file_now_and_then(store: Noting, tmp_path: Path) -> None:
    bank = Bank(store)

    async def main() -> None:
        for turn in range(600):
            await bank.ask(f"s-{turn}")

    asyncio.run(main())
    for thread in threading.enumerate():
        if thread.name == "orchestrator-sqlite-log":
            thread.join()
    assert (tmp_path / "s.sqlite").stat().st_size > 500_000
    assert store.writers.count(THREAD) < 20  # nobody's append waits for it


def test_others_run_while_nothing_that_a_turn_does_waits(store: Noting) -> None:
    bank = Bank(store)
    in_a_row = [0]

    async def main() -> None:
        await bank.ask("s-0")
        turns = asyncio.create_task(ask_often())
        while not turns.done():
            before = len(store.writers)
            await asyncio.sleep(0)
            in_a_row.append(len(store.writers) - before)

    async def ask_often() -> None:
        for turn in range(10):
            await bank.ask(f"s-{turn % 4}")

    asyncio.run(main())
    assert store.writers.count(LOOP) > 36
    assert max(in_a_row) <= 33  # one more that a thread may do


def test_a_turn_that_is_cancelled_while_others_run_is_open_no_more(store: Noting) -> None:
    bank = Bank(store)

    async def main() -> None:
        await bank.ask("s-0")
        for _ in range(6):
            task = asyncio.create_task(bank.ask("s-1"))
            await asyncio.sleep(0)  # it has ended by then, or gave way
            task.cancel()
            await asyncio.wait([task])
        assert await bank.ask("s-1") == "Paid."

    asyncio.run(main())
    assert read_kinds(store).count("turn") == read_kinds(store).count("end") > 1


def test_a_store_in_memory_that_is_durable_is_written_in_a_thread() -> None:
    store = Noting(":memory:")

    async def main() -> None:
        for _ in range(2):
            await Bank(store).ask()

    asyncio.run(main())
    assert store.writers == [THREAD] * 8
    store.close()


def test_loops_and_threads_share_a_file(store: Noting) -> None:
    banks = [Bank(store) for _ in range(4)]
    texts: list[str] = []

    def turn_in_loop(number: int) -> None:
        async def main() -> None:
            for turn in range(10):
                texts.append(await banks[number].ask(f"s-{number}-{turn % 3}"))

        asyncio.run(main())

    def turn_in_thread(number: int) -> None:
        for turn in range(10):
            texts.append(banks[number].agent.invoke("Pay.", f"s-{number}-{turn % 3}").text)

    works = [turn_in_loop, turn_in_loop, turn_in_thread, turn_in_thread]
    threads = [threading.Thread(target=it, args=[place]) for place, it in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == ["Paid."] * 40
    assert len(read_kinds(store)) == 40 * 6


def test_a_forked_process_has_threads_of_its_own(store: Noting) -> None:
    bank = Bank(store)
    asyncio.run(bank.ask())
    assert THREAD in store.take_writers()

    def ask_large() -> None:
        assert asyncio.run(bank.ask("s-2", LARGE)) == "Paid."
        assert store.take_writers()[0] == THREAD

    assert run_in_child(ask_large) == 0


@pytest.mark.parametrize("factory", [asyncio.SelectorEventLoop, FairEventLoop])
def test_a_stream_that_outlives_its_loop_is_cancelled(factory: Any, store: Noting) -> None:
    bank = Bank(store)
    loop = factory()
    loop.run_until_complete(bank.ask("s-0"))
    stream: Any = bank.agent.astream("Pay.", "s-1")
    loop.run_until_complete(anext(stream))
    loop.close()
    del stream
    gc.collect()
    journals = [[it["kind"] for it in store.load(info.key)] for info in store.list()]
    assert sorted(journals, key=len)[0] == ["turn", "end"]
