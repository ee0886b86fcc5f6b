"""Two workers on one database: a turn is its process's until the lease has passed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from whole_agents import INSTRUCTION, NATIVE, answer

from orchestrator import Agent, Limits, SessionConflict, Sessions
from orchestrator.sessions.open_store import open_store
from orchestrator.support import process_leases
from orchestrator.support.dynamodb import DynamoTable
from orchestrator.support.store_urls import DynamoUrl, parse_store

KINDS = ("dynamodb", "postgres")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{kind}_url")
    return found


@pytest.fixture
def stores(kind: str, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Two stores that share nothing but the database, as those of two processes do.

    Their leases pass only if a test has them pass.
    """
    monkeypatch.setattr(process_leases, "LEASE_SECONDS", 3600)
    monkeypatch.setattr(process_leases, "_RENEWAL", 3600.0)
    other = {"postgres": f"{url}?application_name=other", "dynamodb": f"{url}/"}[kind]
    opened = [open_store(url), open_store(other)]
    yield opened
    for store in opened:
        store.close()


@pytest.fixture
def expire(kind: str, url: str) -> Callable[[str], None]:
    """Has the lease of a process pass."""

    def expire_postgres(process: str) -> None:
        with closing(psycopg.connect(url, autocommit=True)) as db:
            db.execute("UPDATE orchestrator_process SET until = now() WHERE name = %s", (process,))

    def expire_dynamodb(process: str) -> None:
        parsed = parse_store(url)
        assert isinstance(parsed, DynamoUrl)
        table = DynamoTable(parsed, "the table")
        found = table.get(f"process#{process}", "lease")
        assert found is not None
        table.put({**found, "until": 1})

    return {"postgres": expire_postgres, "dynamodb": expire_dynamodb}[kind]


def agent(store: Any, *script: Any) -> Agent:
    return Agent("a", INSTRUCTION, NATIVE.model(list(script)), sessions=Sessions(store))


def test_a_turn_is_taken_over_when_its_lease_has_passed_and_not_before(
    stores: list[Any], expire: Callable[[str], None]
) -> None:
    one, two = agent(stores[0], answer("One.")), agent(stores[1], answer("Two."), answer("Three."))
    stream = one.stream("Who?", "s-1")
    next(stream)
    with pytest.raises(SessionConflict, match="busy in another process"):
        two.invoke("Who?", "s-1")
    assert two.recover() == []
    expire(stores[0].processes.me)
    (turn,) = two.recover()
    assert (turn.session_id, turn.outcome) == ("s-1", "answer")
    assert turn.reply is not None and turn.reply.text == "Two."
    # The first one was only slow: the journal is longer than it knows.
    with pytest.raises(SessionConflict, match="was changed by another invocation"):
        list(stream)
    assert [(it.question, it.text) for it in two.turns("s-1")] == [("Who?", "Two.")]
    assert two.recover() == []


def test_a_lease_that_is_renewed_does_not_pass(
    stores: list[Any], expire: Callable[[str], None]
) -> None:
    one, two = agent(stores[0], answer("One.")), agent(stores[1])
    with closing(one.stream("Who?", "s-1")) as stream:
        next(stream)
        expire(stores[0].processes.me)
        stores[0].processes.renew()
        with pytest.raises(SessionConflict, match="busy in another process"):
            two.invoke("Who?", "s-1")


def test_a_process_that_closes_its_store_leaves_nothing_for_others_to_wait_for(
    stores: list[Any],
) -> None:
    name = stores[0].processes.me
    assert stores[1].processes.is_alive(name)
    assert stores[1].processes.is_alive("no name") is None
    stores[0].processes.close()
    assert stores[1].processes.is_alive(name) is False
    stores[0].processes = stores[1].processes  # nothing is left to close
    stores[1].processes._users += 1


def test_one_thread_renews_the_lease_of_all_stores_of_a_process(url: str) -> None:
    def find_threads() -> set[threading.Thread]:
        return {it for it in threading.enumerate() if it.name == "orchestrator-lease"}

    before = find_threads()  # some of them may be about to end
    opened = [open_store(url) for _ in range(3)]
    names = {store.processes.me for store in opened}  # type: ignore[attr-defined]
    assert len(names) == 1
    (thread,) = find_threads() - before
    for store in opened:
        store.close()  # type: ignore[attr-defined]
    thread.join(60)
    assert not thread.is_alive()


def test_a_wait_for_ones_turn_in_another_process(stores: list[Any]) -> None:
    one = agent(stores[0], answer("One."))
    waits = Limits(session_wait=60)
    model = NATIVE.model([answer("Two.")])
    two = Agent("a", INSTRUCTION, model, sessions=Sessions(stores[1]), limits=waits)
    stream, answers = one.stream("First?", "s-1"), []
    next(stream)
    thread = threading.Thread(target=lambda: answers.append(two.invoke("Second?", "s-1").text))
    thread.start()
    list(stream)
    thread.join(60)
    assert answers == ["Two."]
    assert [it.question for it in two.turns("s-1")] == ["First?", "Second?"]
