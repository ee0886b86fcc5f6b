"""What every store of sessions does: in memory, in SQLite, in DynamoDB, in PostgreSQL."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from left_out import sampled

from orchestrator import Agent, SessionConflict, Sessions
from orchestrator.message import text_of
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.sessions import NEVER, EncryptedStore, SessionStore, unused_plans
from orchestrator.sessions.open_store import open_store
from orchestrator.sessions.unused_plans import delete_unused_plans
from orchestrator.support.encryption import Cipher
from orchestrator.support.encryption.key_sources import GivenKey

KINDS = ("memory", "sqlite", "dynamodb", "postgres")
Open = Callable[[], Any]


@pytest.fixture(params=KINDS)
def open_one(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the store; each call gives another object over the same one."""
    names = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/s.sqlite"}
    kind: str = request.param
    name: str = names.get(kind) or request.getfixturevalue(f"{kind}_url")
    opened: list[Any] = []

    def open() -> Any:
        if kind == "memory" and opened:
            return opened[0]
        opened.append(open_store(name))
        return opened[-1]

    yield open
    for one in opened:
        if kind != "memory":
            one.close()


@pytest.fixture
def store(open_one: Open) -> SessionStore:
    found: SessionStore = open_one()
    return found


def key(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


KEY = key("a")


def end(text: str) -> dict[str, Any]:
    return {"kind": "end", "text": text}


def records(*texts: str) -> list[dict[str, Any]]:
    return [end(text) for text in texts]


def test_a_session_that_nobody_began_is_empty(store: SessionStore) -> None:
    assert store.load(KEY) == []
    assert store.load(KEY, 5) == []
    assert list(store.list()) == []
    store.delete(KEY)


def test_records_come_back_in_order(open_one: Open, store: SessionStore) -> None:
    store.append(KEY, 0, records("1", "2", "3"), label="a/b/c", at=7)
    store.append(KEY, 3, records("4"), label="a/b/c", at=8)
    store.append(KEY, 4, records("5", "6"), label="a/b/c", at=9)
    again = open_one()
    assert again.load(KEY) == records("1", "2", "3", "4", "5", "6")
    for after in range(1, 7):
        assert again.load(KEY, after) == records("1", "2", "3", "4", "5", "6")[after:]
    (info,) = again.list()
    assert (info.key, info.label, info.records, info.updated) == (KEY, "a/b/c", 6, 9)


@pytest.mark.parametrize(
    "text", ["\0", "\ud800", "a\nb\r\n", "é 漢 😀", "'; DROP TABLE session; --", "%s {} $1 :pk"]
)
def test_any_text_comes_back(store: SessionStore, text: str) -> None:
    store.append(KEY, 0, records(text, text), label="a/b/c", at=1)
    assert store.load(KEY) == records(text, text)


def test_a_record_of_more_than_any_item_holds(open_one: Open, store: SessionStore) -> None:
    large = records("a" * 900_000, "b", "é" * 300_000)
    store.append(KEY, 0, large, label="a/b/c", at=1)
    store.append(KEY, 3, records("c"), label="a/b/c", at=2)
    assert open_one().load(KEY) == [*large, *records("c")]
    assert open_one().load(KEY, 2) == [large[2], *records("c")]
    with pytest.raises(SessionConflict):
        store.append(KEY, 0, large, label="a/b/c", at=3)
    assert open_one().load(KEY, 3) == records("c")


@pytest.mark.parametrize("expected", [0, 1, 3])
def test_another_number_of_records_is_a_conflict(store: SessionStore, expected: int) -> None:
    store.append(KEY, 0, records("1", "2"), label="a/b/c", at=1)
    with pytest.raises(SessionConflict):
        store.append(KEY, expected, records("x", "y"), label="a/b/c", at=2)
    assert store.load(KEY) == records("1", "2")
    assert [info.updated for info in store.list()] == [1]


def test_a_session_that_is_not_there_has_no_records(store: SessionStore) -> None:
    with pytest.raises(SessionConflict):
        store.append(KEY, 2, records("x"), label="a/b/c", at=1)
    assert store.load(KEY) == []


def test_a_deleted_session_begins_anew(open_one: Open, store: SessionStore) -> None:
    store.append(KEY, 0, records("1", "2"), label="a/b/c", at=1)
    store.append(key("b"), 0, records("other"), label="a/b/d", at=2)
    store.delete(KEY)
    assert store.load(KEY) == []
    with pytest.raises(SessionConflict):
        store.append(KEY, 2, records("3"), label="a/b/c", at=3)
    store.append(KEY, 0, records("new"), label="a/b/c", at=4)
    assert open_one().load(KEY) == records("new")
    assert open_one().load(key("b")) == records("other")


def test_the_last_changed_comes_first(store: SessionStore) -> None:
    for at, name in enumerate(("a", "b", "c", "d", "e"), 1):
        store.append(key(name), 0, records(name), label=f"a/b/{name}", at=at)
    store.append(key("b"), 1, records("again"), label="a/b/b", at=9)
    assert [info.label[-1] for info in store.list()] == ["b", "e", "d", "c", "a"]


def test_labels_are_paged_by_their_bytes(store: Any) -> None:
    for name in ("x/b/s-1", "x/b/S-1", "x/b/_", "x/ba/s", "x/a/s", "x/b/s-2"):
        store.append(key(name), 0, records(name), label=name, at=1)
    assert store.labels("x/b/", "", 2) == ["x/b/S-1", "x/b/_"]
    assert store.labels("x/b/", "x/b/_", 9) == ["x/b/s-1", "x/b/s-2"]
    assert store.labels("x/b/", "x/b/s-2", 9) == []


def test_of_many_writers_one_wins_each_place(open_one: Open) -> None:
    stores = [open_one() for _ in range(4)]

    def write(number: int) -> int:
        one, won = stores[number % 4], 0
        for _ in range(3):
            count = len(one.load(KEY))
            try:
                one.append(KEY, count, records(str(number), "second"), label="a/b/c", at=number)
                won += 1
            except SessionConflict:
                pass
        return won

    with ThreadPoolExecutor(16) as threads:
        won = list(threads.map(write, range(16)))
    journal = stores[0].load(KEY)
    assert len(journal) == 2 * sum(won)
    texts = [record["text"] for record in journal]
    assert texts[1::2] == ["second"] * sum(won)
    assert "second" not in texts[::2]


KEYS = [GivenKey(bytes([byte]) * 32) for byte in (1, 2)]


def seal(store: Any) -> Any:
    return EncryptedStore(store, Cipher([KEYS[0]]))


@pytest.mark.parametrize("wrap", sampled([lambda store: store, seal]), ids=["plain", "sealed"])
def test_the_last_records_of_sessions_are_read_at_once(
    open_one: Open, wrap: Callable[[Any], Any]
) -> None:
    one = wrap(open_one())
    long = "é" * 400_000
    for name, texts in (("a", ("1", "2")), ("b", ("3",)), ("c", ("4", "5", long))):
        one.append(key(name), 0, records(*texts), label=f"a/b/{name}", at=1)
    listed = list(one.list())
    last = {KEY: end("2"), key("b"): end("3"), key("c"): end(long)}
    assert wrap(open_one()).load_last(listed) == last
    one.delete(key("b"))
    assert wrap(open_one()).load_last(listed) == {KEY: end("2"), key("c"): end(long)}
    assert one.load_last([]) == {}
    stranger = EncryptedStore(open_one(), Cipher([KEYS[1]], required=True))
    assert stranger.load_last(listed) == {}


PLAIN = '{"v": 1, "text": "canary é"}'


@pytest.mark.parametrize("wrap", sampled([lambda store: store, seal]), ids=["plain", "sealed"])
def test_snapshots_of_plans_are_kept_once(open_one: Open, wrap: Callable[[Any], Any]) -> None:
    """What prompts were made of, by digest: the first one stays, in any store and of any size."""
    one = wrap(open_one())
    assert one.load_plan(KEY) is None
    long = PLAIN + "b" * 800_000
    one.save_plan(KEY, long)
    one.save_plan(key("b"), PLAIN)
    again = wrap(open_one())
    again.save_plan(KEY, long)
    assert (again.load_plan(KEY), again.load_plan(key("b"))) == (long, PLAIN)
    assert again.load_plan(key("c")) is None
    assert list(one.list()) == []
    kept = str([open_one().load_plan(it) for it in (KEY, key("b"))])
    assert ("canary" in kept) is (wrap is not seal)


def test_snapshots_of_plans_are_read_with_their_key_only(open_one: Open) -> None:
    store = open_one()
    seal(store).save_plan(KEY, PLAIN)
    store.save_plan(key("b"), PLAIN)
    other = EncryptedStore(store, Cipher([KEYS[1]], required=True))
    assert (other.load_plan(KEY), other.load_plan(key("b"))) == (None, None)
    both = EncryptedStore(store, Cipher([KEYS[1], KEYS[0]]))
    assert (both.load_plan(KEY), both.load_plan(key("b"))) == (PLAIN, PLAIN)


@pytest.mark.parametrize("wrap", sampled([lambda store: store, seal]), ids=["plain", "sealed"])
def test_snapshots_that_no_session_names_are_deleted(
    open_one: Open, wrap: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = wrap(open_one())
    long = PLAIN + "b" * 800_000
    for digest, text in (("a", PLAIN), ("b", long), ("c", PLAIN)):
        one.save_plan(digest, text)
    turn = {"kind": "turn", "id": "t-1", "plan": "c"}
    one.append(KEY, 0, [turn], label="a/b/s-1", at=1)
    if not one.durable:  # it forgets them by itself
        assert delete_unused_plans(one) == 0
        return
    assert delete_unused_plans(one) == 0  # whoever has kept them may be about to name them
    monkeypatch.setattr(unused_plans, "IDLE_SECONDS", 0.0)
    assert delete_unused_plans(one) == 2
    assert [one.load_plan(it) for it in "abc"] == [None, None, PLAIN]
    assert (delete_unused_plans(one), list(one.list_plans())) == (0, ["c"])
    one.save_plan("b", long)
    assert wrap(open_one()).load_plan("b") == long
    one.delete(KEY)
    assert delete_unused_plans(one) == 2
    assert one.delete_plan("b", 0.0) is False


def test_of_many_writers_of_a_plan_one_is_read(open_one: Open) -> None:
    stores = [seal(open_one()) for _ in range(4)]  # each seals it differently
    long = PLAIN * 20_000

    def keep(number: int) -> str | None:
        stores[number % 4].save_plan(KEY, long)
        found: str | None = stores[-1 - number % 4].load_plan(KEY)
        return found

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(keep, range(8))) == {long}


def test_a_past_turn_has_its_prompts_whatever_became_of_the_agent(open_one: Open) -> None:
    asked = Agent("echo", "You echo.", Echo(), sessions=Sessions(open_one()))
    asked.invoke("So?", session_id="s-1")
    later = Agent("echo", "You do nothing.\ud800", Echo(), sessions=Sessions(open_one()))
    later.invoke("And?", session_id="s-1")
    last = Agent("echo", "You are quiet.", Echo(), sessions=Sessions(open_one()))
    turns = last.turns("s-1")
    assert [(it.has_changed, it.has_todays_prompts) for it in turns] == [(True, False)] * 2
    systems = [str(it.steps()[0].prompt().system) for it in turns]
    assert "You echo." in systems[0] and "You do nothing." in systems[1]


class Echo(Model):
    """Tells all questions of the conversation."""

    model_id = "anthropic.claude-3-5-sonnet-20240620-v1:0"

    def complete(self, request: ModelRequest) -> ModelReply:
        users = [one for one in request.messages if one["role"] == "user"]
        return ModelReply([{"text": "<answer>" + " ".join(text_of(it["content"]) for it in users)}])


def test_sixteen_threads_on_one_session_lose_and_cross_no_turn(open_one: Open) -> None:
    """One winner at a time: each turn knows those before it, and the others are told to wait."""
    agents = [Agent("echo", "You echo.", Echo(), sessions=Sessions(open_one())) for _ in range(4)]

    def ask(number: int) -> list[str]:
        answered = []
        for time in range(2):
            question = f"[{number}-{time}]"
            try:
                answered.append(agents[number % 4].invoke(question, session_id="s-1").text)
            except SessionConflict:
                pass
        return answered

    with ThreadPoolExecutor(16) as threads:
        answered = [text for texts in threads.map(ask, range(16)) for text in texts]
    turns = agents[0].turns("s-1")
    assert 1 <= len(turns) == len(answered)
    asked = [turn.question for turn in turns]
    assert len(set(asked)) == len(asked)
    for place, turn in enumerate(turns):
        assert turn.stop_reason == "end_turn"
        assert [it for it in asked if it in turn.text] == asked[: place + 1]


SUSPENDED = {
    "kind": "suspend",
    "invocation_id": "c-1",
    "inputs": [{"functionInvocationInput": {"actionGroup": "bank", "function": "pay"}}],
    "undecided": ["k-1"],
    "at": 3,
}


def begin_turn(label: str) -> dict[str, Any]:
    members = {"v": 1, "at": 1, "question": label, "attributes": {}, "prompt_attributes": {}}
    return {"kind": "turn", "id": "0f6d5c1e-54c8-4c1b-9d3f-0a4f2b8f6a11", **members}


def test_turns_that_wait_for_a_decision_are_found(open_one: Open) -> None:
    writer = Sessions(open_one())
    waits = {name: value for name, value in SUSPENDED.items() if name != "undecided"}
    for label, last in (("a/b/undecided", SUSPENDED), ("a/b/waits", waits), ("x/b/s", SUSPENDED)):
        session = writer.acquire(label, NEVER)
        writer.write(session, [begin_turn(label)])
        writer.write(session, [last])
        writer.release(session)
    reader = Sessions(open_one())
    ((label, log),) = reader.open_turns.find_undecided("a/b/")
    assert (label, log.decision_request) == ("a/b/undecided", SUSPENDED)
    assert list(reader.open_turns.find_left("")) == []
    session = reader.acquire(label, NEVER)
    results = {"invocation_id": "c-1", "digest": "d", "at": 4, "v": 1, "owner": "", "until": 0}
    decision = {"key": "k-1", "decision": "repeat"}
    reader.write(session, [{"kind": "decided", "decisions": [decision], **results}])
    reader.release(session)
    assert list(Sessions(open_one()).open_turns.find_undecided("")) != []
    assert list(Sessions(open_one()).open_turns.find_undecided("a/")) == []
    if reader.durable:
        assert list(Sessions(open_one()).open_turns.find_left("a/")) == ["a/b/undecided"]


def count_loads(store: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the sessions whose journals a store is asked for from here on."""
    read: list[str] = []
    load = store.load

    def note(key: str, after: int = 0) -> Any:
        read.append(key)
        return load(key, after)

    monkeypatch.setattr(store, "load", note)
    return read


def test_a_look_for_turns_reads_no_journal_of_what_waits(
    open_one: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many wait, and also when there are more than a process remembers."""
    writer = Sessions(open_one())
    for name, last in (("1", SUSPENDED), ("2", SUSPENDED), ("3", SUSPENDED), ("open", None)):
        session = writer.acquire(f"a/b/{name}", NEVER)
        writer.write(session, [begin_turn(name)])
        if last is not None:
            writer.write(session, [last])
        writer.release(session)
    reader = Sessions(open_one(), cached=1)
    read = count_loads(reader.store, monkeypatch)
    for _ in range(2):
        assert list(reader.open_turns.find_left("")) == ["a/b/open"]
    assert set(read) <= {reader.key("a/b/open")}
    read.clear()
    assert [label for label, _ in reader.open_turns.find_undecided("a/")] == [
        "a/b/3",
        "a/b/2",
        "a/b/1",
    ]
    assert read == [reader.key(f"a/b/{name}") for name in ("3", "2", "1")]


def test_the_journal_of_an_open_turn_is_read_once(
    open_one: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Sessions(open_one())
    session = writer.acquire("a/b/s", NEVER)
    writer.write(session, [begin_turn("s")])
    writer.release(session)
    reader = Sessions(open_one())
    read = count_loads(reader.store, monkeypatch)
    found = [list(reader.open_turns.find_left("a/")) for _ in range(3)]
    assert found == [["a/b/s"]] * 3 and len(read) == 1
    writer.write(session, [{"kind": "suspend", "invocation_id": "c-1", "inputs": [], "at": 3}])
    assert list(reader.open_turns.find_left("a/")) == [] and len(read) == 1
