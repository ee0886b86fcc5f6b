"""Attack 18: crafted rows and names in the server's store are data, or an error; never code."""

from __future__ import annotations

import pickle
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import DependencyFailed
from orchestrator.server.document_store import DocumentStore

NAMES = st.text(max_size=12) | st.sampled_from(
    ["' OR 1=1 --", '"; DROP TABLE document; --', "%", "_", "\\", "a\0b", "one\0agent"]
)
BODIES = [
    "",
    "[]",
    "7",
    "{",
    '{"lc": 1, "type": "constructor"',
    '{"it": {"$time": "now"}}',
    '{"it": {"$time": 7}}',
    '{"it": {"$bytes": "?"}}',
    '{"it": {"$bytes": {}}}',
    '{"it": {"$map": 7}}',
    '{"it": {"$map": [1]}}',
    '{"it": {"$time": "2026-01-01", "$map": []}}',
    '{"$map": []',
    "[" * 100_000,
]


@given(st.lists(st.tuples(NAMES, NAMES, NAMES, NAMES), min_size=2, max_size=2, unique=True))
def test_names_are_only_ever_names(ways: list[tuple[str, str, str, str]]) -> None:
    documents = DocumentStore()
    for number, (tenant, kind, parent, id) in enumerate(ways):
        documents.put(tenant, kind, id, {"n": number}, parent, name=f"{id}-{number}")
    for number, (tenant, kind, parent, id) in enumerate(ways):
        assert documents.get(tenant, kind, id, parent) == {"n": number}
        assert {"n": number} in documents.all(tenant, kind, parent)
        assert documents.delete(tenant, kind, id, parent)
    documents.close()


@pytest.mark.parametrize("body", BODIES)
def test_a_row_that_is_no_document_is_named(tmp_path: Path, body: str) -> None:
    file = tmp_path / "documents.sqlite"
    documents = DocumentStore(file)
    documents.put("", "agent", "A", {"n": 1})
    with sqlite3.connect(file) as db:
        db.execute("UPDATE document SET body = ?", (body,))
    db.close()
    for read in (
        lambda: documents.get("", "agent", "A"),
        lambda: documents.all("", "agent"),
        lambda: documents.page("", "agent"),
    ):
        with pytest.raises(DependencyFailed, match="holds a document that"):
            read()
    documents.close()


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (tmp_path / "loaded",))  # type: ignore[return-value]

    file = tmp_path / "documents.sqlite"
    documents = DocumentStore(file)
    documents.put("", "agent", "A", {"n": 1})
    with sqlite3.connect(file) as db:
        db.execute("UPDATE document SET body = ?", (pickle.dumps(Bomb()),))
    db.close()
    with pytest.raises(DependencyFailed):
        documents.get("", "agent", "A")
    assert not (tmp_path / "loaded").exists()
    documents.close()
