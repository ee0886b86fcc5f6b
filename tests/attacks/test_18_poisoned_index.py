"""Attack 18: an index of documents that somebody else has written."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator import DependencyFailed
from orchestrator.knowledge import LocalKnowledgeBase


class Lengths:
    id = "lengths"
    dimensions = 2

    def embed(self, texts: Sequence[str]) -> Any:
        rows = np.array([[len(text), 1] for text in texts], np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize(
    "statement",
    [
        'UPDATE document SET metadata = \'{"lc": 1, "id": ["os", "system"]}\'',
        "UPDATE document SET metadata = x'80049503000000000000004b012e'",
        "UPDATE document SET metadata = '" + "[" * 20_000 + "'",
        "UPDATE document SET name = 'x''; DROP TABLE passage; --'",
        "UPDATE passage SET vector = x'80049503000000000000004b012e'",
        "UPDATE passage SET vector = x'0000c07f0000c07f'",
        "UPDATE passage SET vector = 7",
        "UPDATE passage SET text = 7",
        "UPDATE passage SET heading = NULL",
        "UPDATE passage SET page = 'x'",
        "UPDATE passage SET id = -9223372036854775808",
        "UPDATE setting SET value = 'x''; DROP TABLE passage; --'",
        "DELETE FROM setting",
        "DROP TABLE document",
        "CREATE TRIGGER t AFTER UPDATE ON setting BEGIN DELETE FROM passage; END",
    ],
)
def test_whatever_stands_in_it_is_data_or_a_typed_error(tmp_path: Path, statement: str) -> None:
    (tmp_path / "page.md").write_text("A dog is welcome.")
    index = tmp_path / ".index.sqlite"
    LocalKnowledgeBase(tmp_path, id="x", index=index, embedder=Lengths()).index()
    with closing(sqlite3.connect(index, isolation_level=None)) as db:
        try:
            db.execute(statement)
        except sqlite3.IntegrityError:
            return  # the layout itself refuses it
    for embedder in (Lengths(), None):
        base = LocalKnowledgeBase(tmp_path, id="x", index=index, embedder=embedder, refresh=False)
        try:
            found = base.retrieve("dog")
        except DependencyFailed as error:
            assert "index" in str(error)
        else:
            assert all(isinstance(it["content"]["text"], str) for it in found)
