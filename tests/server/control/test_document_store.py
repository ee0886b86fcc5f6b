"""The server's documents: kept exactly, tenant by tenant, changed as one, paged, and made once."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from left_out import sampled

from orchestrator import DependencyFailed
from orchestrator.server.document_store import (
    DocumentStore,
    decode_document,
    digest,
    encode_document,
    paginate,
)
from orchestrator.server.operations import Caller, Fault, Request
from orchestrator.support.encryption import Cipher
from orchestrator.support.encryption.key_sources import GivenKey
from orchestrator.support.store_urls import DynamoUrl, parse_store

NOW = datetime(2026, 11, 22, 1, 2, 3, 456789, tzinfo=UTC)


@pytest.fixture(params=["memory", "sqlite", "postgres", "dynamodb"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Where documents are: every store passes the same tests."""
    if request.param in ("memory", "sqlite"):
        return tmp_path / "d.sqlite" if request.param == "sqlite" else None
    return parse_store(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def documents(where: Any) -> Iterator[DocumentStore]:
    store = DocumentStore(where)
    yield store
    store.close()


def refusal(name: str) -> Any:
    return pytest.raises(Fault, match=name)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters())
    | st.binary(max_size=20)
    | st.datetimes(timezones=st.just(UTC) | st.just(timezone(timedelta(hours=5, minutes=30)))),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=6) | st.sampled_from(["$time", "$bytes", "$map"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_kept_comes_back_exactly(value: Any) -> None:
    assert decode_document(encode_document({"it": value})) == {"it": value}
    assert digest(value) == digest(decode_document(encode_document(value)))


def test_a_digest_does_not_heed_the_order_of_members_and_heeds_that_of_lists() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest([1, 2]) != digest([2, 1])


def test_a_document_belongs_to_its_tenant_kind_and_parent(documents: DocumentStore) -> None:
    documents.put("one", "agent", "A", {"made": NOW}, name="claims")
    assert documents.get("one", "agent", "A") == {"made": NOW}
    assert documents.find_id("one", "agent", "claims") == "A"
    assert documents.get("two", "agent", "A") is None
    assert documents.find_id("two", "agent", "claims") is None
    assert documents.get("one", "alias", "A") is None
    assert documents.get("one", "agent", "A", "P") is None
    assert not documents.delete("two", "agent", "A")
    documents.clear("two", "agent", "")
    assert documents.count("one", "agent") == 1
    assert documents.delete("one", "agent", "A")
    assert not documents.delete("one", "agent", "A")


def test_what_is_read_is_the_readers_own(documents: DocumentStore) -> None:
    documents.put("", "agent", "A", {"tags": ["x"]})
    documents.get("", "agent", "A")["tags"].append("y")  # type: ignore[index]
    assert documents.get("", "agent", "A") == {"tags": ["x"]}


def test_a_name_is_one_documents_of_a_list(documents: DocumentStore) -> None:
    documents.put("", "agent", "A", {"n": 1}, name="claims")
    documents.put("", "agent", "B", {"n": 2}, name="other")
    with refusal("ConflictException: there is already one with the name 'claims'"):
        documents.put("", "agent", "B", {"n": 3}, name="claims")
    assert documents.get("", "agent", "B") == {"n": 2}
    documents.put("", "agent", "A", {"n": 4}, name="claims")
    documents.put("", "agent", "B", {"n": 5}, "elsewhere", name="claims")
    documents.put("two", "agent", "B", {"n": 6}, name="claims")
    documents.put("", "agent", "A", {"n": 7}, name="renamed")
    documents.put("", "agent", "B", {"n": 8}, name="claims")


def test_a_transaction_is_undone_as_a_whole(documents: DocumentStore) -> None:
    def both() -> None:
        with documents.transaction():
            documents.put("", "agent", "A", {})
            with documents.transaction():
                documents.put("", "agent", "B", {})
            raise KeyError

    with pytest.raises(KeyError):
        both()
    assert documents.all("", "agent") == []
    documents.put("", "agent", "C", {})
    assert documents.count("", "agent") == 1


def _serve_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    # moto looks at a condition and writes in two steps, between which it answers others.
    from moto.dynamodb.responses import DynamoHandler

    lock, answer = Lock(), DynamoHandler.call_action

    def answer_alone(self: Any) -> Any:
        with lock:
            return answer(self)

    monkeypatch.setattr(DynamoHandler, "call_action", answer_alone)


def test_conditional_changes_of_many_processes_are_one_after_another(
    where: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where is None:
        return
    if isinstance(where, DynamoUrl):
        _serve_one_after_the_other(monkeypatch)
    times = 5 if isinstance(where, DynamoUrl) else 25
    stores = [DocumentStore(where) for _ in range(4)]
    stores[0].put("", "counter", "n", {"n": 0})

    def count(store: DocumentStore) -> None:
        for _ in range(times):
            with store.transaction():
                found = store.get("", "counter", "n") or {}
                store.put("", "counter", "n", {"n": found["n"] + 1})

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(count, stores))
    assert stores[3].get("", "counter", "n") == {"n": 4 * times}
    for store in stores:
        store.close()


@pytest.mark.parametrize(
    "names",
    [
        ("a\0b", "%", "_", "' OR 1=1 --"),
        ("\\", "\\0000", "\0", "x" * 300),
        ("é", "\U0010ffff", '"', "#"),
        ("at#1", "id#", "", "name#\ufffd"),
        ("\ud800", "\udfff", "\\d800", "a\udc00b"),
    ],
)
def test_any_name_is_only_a_name(documents: DocumentStore, names: tuple[str, ...]) -> None:
    for number, name in enumerate(names):
        documents.put(name, name or "k", name or "i", {"n": number}, name, name=name or None)
    for number, name in enumerate(names):
        kind, id = name or "k", name or "i"
        assert documents.get(name, kind, id, name) == {"n": number}
        assert documents.all(name, kind, name) == [{"n": number}]
        if name:
            assert documents.find_id(name, kind, name, name) == id
        assert documents.delete(name, kind, id, name)
        assert documents.get(name, kind, id, name) is None


def test_a_long_document_is_kept_replaced_and_deleted_whole(documents: DocumentStore) -> None:
    for text in ("a" * 100_000, "é" * 50_000, "short", "b" * 61_000):
        documents.put("", "agent", "A", {"text": text}, name="long")
        assert documents.get("", "agent", "A") == {"text": text}
        assert documents.page_by_name("", "agent") == ([{"text": text}], None)
    assert documents.delete("", "agent", "A")
    assert documents.all("", "agent") == [] and documents.find_id("", "agent", "long") is None


def test_a_transaction_reads_what_it_has_written(documents: DocumentStore) -> None:
    for id in "ABC":
        documents.put("", "agent", id, {"id": id}, name=f"name {id}")
    with documents.transaction():
        documents.delete("", "agent", "B")
        documents.put("", "agent", "D", {"id": "D"}, name="name B")
        documents.put("", "agent", "A", {"id": "A2"}, name="name Z")
        assert [it["id"] for it in documents.all("", "agent")] == ["A2", "C", "D"]
        assert documents.find_id("", "agent", "name B") == "D"
        assert documents.find_id("", "agent", "name A") is None
        assert documents.count("", "agent") == 3
        page, token = documents.page("", "agent", "", 2)
        assert [it["id"] for it in page] == ["A2", "C"] and token
        page, _ = documents.page_by_name("", "agent", "", 2)
        assert [it["id"] for it in page] == ["A2", "C"]
    assert [it["id"] for it in documents.all("", "agent")] == ["A2", "C", "D"]
    documents.put("", "agent", "B", {"id": "B"})
    assert [it["id"] for it in documents.all("", "agent")] == ["A2", "C", "D", "B"]


@pytest.mark.exhaustive
def test_a_transaction_may_be_large(documents: DocumentStore) -> None:
    with documents.transaction():
        for number in range(70):  # in DynamoDB more than one of its transactions takes
            documents.put("", "agent", f"{number}", {"n": number}, name=f"{number}")
    assert [it["n"] for it in documents.all("", "agent")] == list(range(70))
    documents.clear("", "agent", "")
    assert documents.count("", "agent") == 0 and documents.find_id("", "agent", "7") is None


def test_rotation_encrypts_every_document(where: Any) -> None:
    if where is None:
        return
    old, new = (GivenKey(bytes([byte]) * 32) for byte in (1, 2))
    with closing(DocumentStore(where)) as plain:
        plain.put("t", "agent", "A", {"text": "canary"}, name="a")
        with closing(DocumentStore(where, cipher=Cipher([old]))) as store:
            store.put("t", "agent", "B", {"text": "canary" * 10_000}, "P", name="b")
        with closing(DocumentStore(where, cipher=Cipher([new, old]))) as store:
            assert (store.rotate(), store.rotate()) == (2, 0)
        with closing(DocumentStore(where, cipher=Cipher([new], required=True))) as store:
            assert store.get("t", "agent", "A") == {"text": "canary"}
            assert store.get("t", "agent", "B", "P") == {"text": "canary" * 10_000}
            assert store.find_id("t", "agent", "a") == "A"
        with pytest.raises(DependencyFailed, match="is encrypted: set"):
            plain.get("t", "agent", "A")


def test_documents_outlive_the_process(tmp_path: Path) -> None:
    first = DocumentStore(tmp_path / "documents.sqlite")
    first.put("t", "agent", "A", {"made": NOW})
    first.close()
    second = DocumentStore(tmp_path / "documents.sqlite")
    assert second.all("t", "agent") == [{"made": NOW}]
    second.close()


def pages(documents: DocumentStore, size: int | None) -> list[list[int]]:
    found, token = [], None
    while True:
        page, token = documents.page("", "agent", "", size, token)
        found.append([it["n"] for it in page])
        if token is None:
            return found


def test_pages_are_in_the_order_of_making(documents: DocumentStore) -> None:
    for n in (3, 1, 2, 5, 4):
        documents.put("", "agent", f"{n}", {"n": n})
    documents.put("", "agent", "3", {"n": 30})
    assert pages(documents, 2) == [[30, 1], [2, 5], [4]]
    assert pages(documents, 5) == [[30, 1, 2, 5, 4]]
    assert pages(documents, None) == [[30, 1, 2, 5, 4]]
    assert documents.page("", "nothing") == ([], None)


def test_a_change_between_pages_neither_repeats_nor_hides(documents: DocumentStore) -> None:
    for n in range(6):
        documents.put("", "agent", f"{n}", {"n": n})
    first, token = documents.page("", "agent", "", 3)
    documents.delete("", "agent", "2")
    documents.put("", "agent", "6", {"n": 6})
    second, last = documents.page("", "agent", "", 9, token)
    assert [it["n"] for it in first + second] == [0, 1, 2, 3, 4, 5, 6]
    assert last is None


@pytest.mark.parametrize(
    "token",
    [
        "",
        "?",
        "é",
        "bm9wZQ",
        base64.urlsafe_b64encode(b"[" * 100_000).decode(),
        base64.urlsafe_b64encode(json.dumps(["000000000000", [1]]).encode()).decode(),
    ],
)
def test_a_token_of_nobodys_is_refused(documents: DocumentStore, token: str) -> None:
    with refusal("ValidationException: the nextToken"):
        documents.page("", "agent", "", 3, token)


def test_a_token_is_one_lists_and_one_tenants(documents: DocumentStore) -> None:
    for n in range(3):
        documents.put("one", "agent", f"{n}", {"n": n})
        documents.put("two", "agent", f"{n}", {"n": n})
    _, token = documents.page("one", "agent", "", 1)
    for other in (("two", "agent", ""), ("one", "alias", ""), ("one", "agent", "P")):
        with refusal("ValidationException"):
            documents.page(*other, 1, token)


@pytest.mark.parametrize(
    "key", sampled([["x"], [], [1, 2], [None], [2**70], [-1], [True], {"a": 1}])
)
def test_a_token_whose_inside_was_changed_is_refused(documents: DocumentStore, key: Any) -> None:
    for n in range(3):
        documents.put("", "agent", f"{n}", {"n": n})
    _, token = documents.page("", "agent", "", 1)
    scope = json.loads(base64.urlsafe_b64decode(f"{token}=="))[0]
    forged = base64.urlsafe_b64encode(json.dumps([scope, key]).encode()).decode()
    with refusal("ValidationException"):
        documents.page("", "agent", "", 1, forged)


def test_a_list_made_on_the_way_is_paged_by_its_keys() -> None:
    items = [((1, 7), "c"), ((0, "ZED"), "b"), ((0, "ACE"), "a")]
    first, token = paginate(items, 2, None, "agents")
    assert first == ["a", "b"]
    assert paginate(items[:1], 2, token, "agents") == (["c"], None)
    with refusal("ValidationException"):
        paginate(items, 2, token, "other")


def sent(operation: str, params: dict[str, Any], tenant: str = "") -> Request:
    """A request of a tenant, as it is carried out once."""
    return Request("bedrock-agent", operation, params, Caller(tenant))


def test_a_request_with_one_token_is_carried_out_once(documents: DocumentStore) -> None:
    made: list[int] = []

    def make() -> dict[str, Any]:
        made.append(1)
        return {"at": NOW, "n": len(made)}

    request = {"clientToken": "t", "agentName": "claims"}
    other = {"clientToken": "t", "agentName": "other"}
    for _ in range(3):
        assert documents.run_once(sent("CreateAgent", request), make) == {"at": NOW, "n": 1}
    with refusal("ConflictException: the clientToken 't' was sent with another request"):
        documents.run_once(sent("CreateAgent", other), make)
    assert documents.run_once(sent("CreateAgent", other, "two"), make)["n"] == 2
    assert documents.run_once(sent("CreateAgentAlias", request), make)["n"] == 3
    assert documents.run_once(sent("CreateAgent", {"agentName": "claims"}), make)["n"] == 4
    assert documents.run_once(sent("CreateAgent", {"agentName": "claims"}), make)["n"] == 5


def test_a_request_that_failed_leaves_nothing_and_may_be_sent_again(
    documents: DocumentStore,
) -> None:
    def fails() -> dict[str, Any]:
        documents.put("", "agent", "A", {})
        raise Fault("ValidationException", "no")

    with refusal("ValidationException"):
        documents.run_once(sent("CreateAgent", {"clientToken": "t"}), fails)
    assert documents.get("", "agent", "A") is None
    assert documents.run_once(sent("CreateAgent", {"clientToken": "t"}), lambda: {"n": 1}) == {
        "n": 1
    }


def test_a_token_is_forgotten_after_a_day() -> None:
    now = [0.0]
    documents = DocumentStore(clock=lambda: now[0])
    documents.run_once(sent("CreateAgent", {"clientToken": "t", "a": 1}), lambda: {"n": 1})
    now[0] = 86_399
    assert documents.run_once(
        sent("CreateAgent", {"clientToken": "t", "a": 1}), lambda: {"n": 2}
    ) == {"n": 1}
    now[0] = 86_401
    assert documents.run_once(
        sent("CreateAgent", {"clientToken": "t", "a": 2}), lambda: {"n": 3}
    ) == {"n": 3}
    documents.close()


KEYS = st.lists(st.tuples(st.integers(0, 3), st.text(max_size=4)), unique=True, max_size=12)


@given(KEYS, st.integers(1, 5))
def test_pages_together_are_the_list(keys: list[tuple[int, str]], size: int) -> None:
    items = [(key, key) for key in keys]
    found, token = paginate(items, size)
    while token is not None:
        page, token = paginate(items, size, token)
        assert 0 < len(page) <= size
        found += page
    assert found == sorted(keys)


@given(st.text())
def test_any_text_is_a_token_or_refused(token: str) -> None:
    documents = DocumentStore()
    for n in range(3):
        documents.put("", "agent", f"{n}", {"n": n})
    for ask in (
        lambda: documents.page("", "agent", "", 1, token),
        lambda: paginate([((1, "a"), 1), ((2, "b"), 2)], 1, token),
    ):
        with refusal("ValidationException"):
            ask()
    documents.close()


@pytest.mark.parametrize("most", [1, 2, 5, 6])
def test_pages_begin_with_what_is_newest_when_asked(most: int) -> None:
    store = DocumentStore()
    for place in range(5):
        store.put("t", "kind", f"id{place}", {"place": place})
    store.put("t", "kind", "id0", {"place": 0})  # keeps its place
    found, token = store.page("t", "kind", "", most, newest=True)
    if token is not None:
        store.put("t", "kind", "later", {"place": 9})
        with pytest.raises(Fault, match="nextToken"):
            store.page("t", "kind", "", most, token)
    while token is not None:
        more, token = store.page("t", "kind", "", most, token, newest=True)
        found += more
    assert [it["place"] for it in found] == [4, 3, 2, 1, 0]
    store.close()


def test_a_document_that_was_changed_is_a_typed_error(tmp_path: Path) -> None:
    file = tmp_path / "d.db"
    with closing(DocumentStore(file)) as store:
        for id in ("a", "b"):
            store.put("t", "kind", id, {"text": "Ana likes tea."})
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE document SET body = replace(body, 'tea', 'gin') WHERE id = 'a'")
        db.execute("UPDATE document SET body = substr(body, 9) WHERE id = 'b'")  # as version 1 was
    with closing(DocumentStore(file)) as store:
        with pytest.raises(DependencyFailed, match="is damaged: a document was changed"):
            store.get("t", "kind", "a")
        assert store.get("t", "kind", "b") == {"text": "Ana likes tea."}


def test_a_file_whose_names_were_not_escaped_is_brought_up_to_date(tmp_path: Path) -> None:
    file = tmp_path / "d.db"
    with closing(DocumentStore(file)) as store:
        store.put("t", "kind", "a\\b", {"n": 1}, "p\0", name="\\d800")
    with closing(sqlite3.connect(file)) as db, db:
        names = {"id": "a\\b", "parent": "p\0", "name": "\\d800"}
        for column, name in names.items():
            db.execute(f"UPDATE document SET {column} = ?", (name,))
        db.execute("PRAGMA user_version = 2")
    with closing(DocumentStore(file)) as store:
        assert store.get("t", "kind", "a\\b", "p\0") == {"n": 1}
        assert store.find_id("t", "kind", "\\d800", "p\0") == "a\\b"
        assert store.page_by_name("t", "kind", "p\0", within="a\\")[0] == [{"n": 1}]


def test_reading_waits_for_no_change(tmp_path: Path) -> None:
    file = tmp_path / "documents.sqlite"
    with (
        closing(DocumentStore(file)) as ours,
        closing(DocumentStore(file)) as others,
        ThreadPoolExecutor(1) as threads,
    ):
        ours.put("", "k", "1", {"n": 1})
        with ours.transaction():
            ours.put("", "k", "2", {"n": 2})
            # This thread sees what it does; no other one does, and none waits.
            assert [one["n"] for one in ours.all("", "k")] == [1, 2]
            for store in (ours, others):
                assert threads.submit(store.all, "", "k").result(20) == [{"n": 1}]
        assert ours.count("", "k") == others.count("", "k") == 2


def test_a_closed_store_reads_no_more(tmp_path: Path) -> None:
    store = DocumentStore(tmp_path / "documents.sqlite")
    store.close()
    with pytest.raises(DependencyFailed, match="closed"):
        store.get("", "k", "1")
