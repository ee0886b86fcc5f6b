"""A crash of PostgreSQL loses no turn that has ended, and no action that may have taken effect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer, open_server
from whole_agents import NATIVE, answer

from orchestrator import ActionGroup, Agent, DependencyFailed, SessionConflict, Sessions, action
from orchestrator.models import ModelReply, ModelRequest
from orchestrator.sessions import NEVER, PostgresStore
from orchestrator.support import postgres
from orchestrator.testing import ScriptedModel

JOURNALS = json.loads((Path(__file__).parent / "journals" / "v1.json").read_text())
# Its kinds are turn, orchestrated, model, end.
WHOLE: list[dict[str, Any]] = JOURNALS["orchestration"]["records"]
KEYS = ["1" * 64, "2" * 64]
TURN, END = {"kind": "turn", "id": "1"}, {"kind": "end", "text": "x"}
CALL = NATIVE.calls(("bank::pay", {"to": "ann"}))


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One that writes to its disk what has to be there, and other things never."""
    options = ("full_page_writes=off", "shared_buffers=16MB", "bgwriter_lru_maxpages=0")
    with open_server(options, forgets=True) as opened:
        yield opened


@pytest.fixture
def store(server: PostgresServer) -> Iterator[PostgresStore]:
    with closing(PostgresStore(server.url(server.create_database()))) as opened:
        yield opened


def append(store: PostgresStore, key: str, count: int, record: Any, sync: bool) -> None:
    store.append(key, count, [record], label=f"a/b/{key[0]}", at=1, sync=sync)


def test_what_did_not_wait_is_lost_unless_another_session_waited(
    store: PostgresStore, server: PostgresServer
) -> None:
    append(store, KEYS[0], 0, TURN, False)
    append(store, KEYS[1], 0, TURN, True)
    append(store, KEYS[0], 1, END, False)
    assert store.load(KEYS[0]) == [TURN, END]
    server.crash()
    assert [store.load(key) for key in KEYS] == [[TURN], [TURN]]
    assert [it.records for it in store.list()] == [1, 1]


def test_a_database_that_is_away_is_told_from_a_statement_that_fails(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    monkeypatch.setattr(postgres, "_PATIENCE", 0.1)
    with closing(PostgresStore(server.url(server.create_database()))) as store:
        with psycopg.connect(store.url.conninfo) as db:
            db.execute("ALTER TABLE orchestrator_journal RENAME TO other")
        with pytest.raises(DependencyFailed) as wrong:
            store.load(KEYS[1])
        assert not wrong.value.is_outage
        with server.stopped():
            for use in (store.load, lambda key: append(store, key, 0, TURN, True)):
                with pytest.raises(DependencyFailed) as away:
                    use(KEYS[0])
                assert away.value.is_outage


class Crashing(ScriptedModel):
    """A model in one of whose calls something happens."""

    def __init__(self, script: list[Any], call: int, crash: Callable[[], None]) -> None:
        super().__init__(script, NATIVE.model_id)
        self._call, self._crash = call, crash

    def complete(self, request: ModelRequest) -> ModelReply:
        reply = super().complete(request)
        if len(self.requests) == self._call:
            self._crash()
        return reply


def open_bank(store: PostgresStore, paid: list[str], model: ScriptedModel) -> Agent:
    @action
    def pay(to: str) -> str:
        """Pays somebody."""
        paid.append(to)
        return "paid"

    group = ActionGroup("bank", actions=[pay])
    return Agent("bank", "You pay.", model, action_groups=[group], sessions=Sessions(store))


def list_kinds(store: PostgresStore) -> list[list[str]]:
    return [[record["kind"] for record in store.load(it.key)] for it in store.list()]


@pytest.mark.exhaustive
def test_a_turn_that_still_runs_writes_again_what_was_lost(
    store: PostgresStore, server: PostgresServer
) -> None:
    paid: list[str] = []
    left: list[list[str]] = []

    def crash() -> None:
        server.crash()
        left.extend(list_kinds(store))

    bank = open_bank(store, paid, Crashing([CALL, answer("Paid.")], 2, crash))
    assert bank.invoke("Pay Ann.", "s-1").text == "Paid."
    assert left == [["turn", "model", "intent"]]  # the outcome was lost
    assert list_kinds(store) == [["turn", "model", "intent", "action", "model", "end"]]
    assert paid == ["ann"]
    server.crash()
    (turn,) = open_bank(store, paid, ScriptedModel([], NATIVE.model_id)).turns("s-1")
    assert (turn.text, turn.stop_reason) == ("Paid.", "end_turn")


@pytest.mark.exhaustive
def test_a_turn_that_was_lost_before_it_did_anything_does_nothing(
    store: PostgresStore, server: PostgresServer
) -> None:
    paid: list[str] = []
    script = [answer("Hello."), CALL, CALL, answer("Paid.")]
    bank = open_bank(store, paid, Crashing(script, 2, server.crash))
    bank.invoke("Hello.", "s-1")
    with pytest.raises(SessionConflict):
        bank.invoke("Pay Ann.", "s-1")
    assert (list_kinds(store), paid) == ([["turn", "model", "end"]], [])
    assert bank.invoke("Pay Ann.", "s-1").text == "Paid."
    assert paid == ["ann"]


@pytest.mark.exhaustive
def test_what_a_turn_has_learned_before_it_did_anything_is_written_again(
    store: PostgresStore, server: PostgresServer
) -> None:
    sessions = Sessions(store)
    session = sessions.acquire("a/b/s-1", NEVER)
    sessions.begin(session, WHOLE[0])
    append(store, KEYS[1], 0, TURN, True)  # with which the beginning is durable
    sessions.write(session, WHOLE[1:2])
    server.crash()
    assert store.load(session.key) == WHOLE[:1]
    sessions.write(session, WHOLE[2:])
    sessions.release(session)
    assert store.load(session.key) == WHOLE


@pytest.mark.exhaustive
def test_what_another_process_has_read_is_not_lost(
    store: PostgresStore, server: PostgresServer
) -> None:
    left: list[list[str]] = []

    def read_and_crash() -> None:
        with closing(PostgresStore(f"{store.url.conninfo}?application_name=other")) as other:
            sessions = Sessions(other)
            (label,) = [it.label for it in other.list()]
            sessions.release(sessions.acquire(label, NEVER))
        server.crash()
        left.extend(list_kinds(store))

    bank = open_bank(store, [], Crashing([CALL, answer("Paid.")], 2, read_and_crash))
    assert bank.invoke("Pay Ann.", "s-1").text == "Paid."
    assert left == [["turn", "model", "intent", "action"]]


@pytest.mark.exhaustive
# As many records as were lost: their number says nothing.
def test_nothing_is_written_again_where_another_process_wrote(
    store: PostgresStore, server: PostgresServer
) -> None:
    paid: list[str] = []

    def crash() -> None:
        server.crash()
        ((key, count),) = [(it.key, it.records) for it in store.list()]
        claim = {"kind": "claim", "owner": "", "until": 0}
        with closing(PostgresStore(store.url)) as other:
            other.append(key, count, [claim], label="a/b/c", at=1)

    bank = open_bank(store, paid, Crashing([CALL, answer("Paid.")], 2, crash))
    with pytest.raises(SessionConflict):
        bank.invoke("Pay Ann.", "s-1")
    assert list_kinds(store) == [["turn", "model", "intent", "claim"]]
