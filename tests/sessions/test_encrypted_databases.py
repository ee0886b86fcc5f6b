"""Every store keeps encrypted records, knows which turns are open, and has its keys rotated."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from orchestrator.sessions import EncryptedStore, SessionStore
from orchestrator.sessions.open_store import open_store
from orchestrator.support.encryption import Cipher
from orchestrator.support.encryption.key_sources import GivenKey

KEY = sha256(b"a/b/s-1").hexdigest()
OLD, NEW = (GivenKey(bytes([byte]) * 32) for byte in (1, 2))
END = {"kind": "end", "text": "canary"}
LONG = {"kind": "model", "text": "canary" * 80_000}


@pytest.fixture(params=["sqlite", "postgres", "dynamodb"])
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    name = tmp_path / "s.sqlite"
    if request.param != "sqlite":
        name = request.getfixturevalue(f"{request.param}_url")
    opened: Any = open_store(name)
    yield opened
    opened.close()


def list_unfinished(store: SessionStore) -> list[str]:
    return [info.label for info in store.list_unfinished()]  # type: ignore[attr-defined]


def test_records_are_sealed_moved_to_a_new_key_and_read(store: Any) -> None:
    plain = {"kind": "turn", "question": "canary"}
    store.append(KEY, 0, [plain], label="a/b/s-1", at=1)
    old = EncryptedStore(store, Cipher([OLD]))
    old.append(KEY, 1, [LONG, plain], label="a/b/s-1", at=2)
    assert list_unfinished(old) == ["a/b/s-1"]
    old.append(KEY, 3, [END], label="a/b/s-1", at=3)
    assert list_unfinished(old) == []
    both = EncryptedStore(store, Cipher([NEW, OLD]))
    assert (both.rotate(KEY), both.rotate(KEY)) == (4, 0)
    new = EncryptedStore(store, Cipher([NEW], required=True))
    assert new.load(KEY) == [plain, LONG, plain, END]
    assert new.load(KEY, 3) == [END]
    assert "canary" not in str(store.load(KEY))
    new.append(KEY, 4, [plain], label="a/b/s-1", at=4)
    (info,) = new.list()
    assert (info.records, list_unfinished(new)) == (5, ["a/b/s-1"])
    new.delete(KEY)
    assert both.rotate(KEY) == 0 and new.load(KEY) == []


def test_snapshots_of_plans_are_moved_to_a_new_key(store: Any) -> None:
    plans = {"a": "canary", "b": "canary" * 120_000, "c": "canary"}
    store.save_plan("c", plans["c"])  # before there was a key
    old = EncryptedStore(store, Cipher([OLD]))
    for digest in ("a", "b"):
        old.save_plan(digest, plans[digest])
    both = EncryptedStore(store, Cipher([NEW, OLD]))
    assert sorted(both.list_plans()) == ["a", "b", "c"]
    assert [both.rotate_plan(it) for it in plans] == [True, True, True]
    assert [both.rotate_plan(it) for it in plans] == [False, False, False]
    new = EncryptedStore(store, Cipher([NEW], required=True))
    assert {digest: new.load_plan(digest) for digest in plans} == plans
    assert old.load_plan("a") is None
    assert sorted(store.list_plans()) == ["a", "b", "c"]
    kept = store.load_plan("a")
    assert not store.replace_plan("a", "another", "x") and store.load_plan("a") == kept
    assert not store.replace_plan("d", "another", "x") and store.load_plan("d") is None
