"""The index of a local knowledge base: one SQLite file with texts, keywords and vectors.

Whatever stands in the file is data: texts, numbers, JSON and raw floats; every value is bound, and
what is not of the right kind is an error. Writers work in small transactions, so that readers, also
of other processes, always see whole documents; `revision` changes with every write.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.errors import DependencyFailed
from orchestrator.knowledge.chunks import Passage
from orchestrator.support.private_files import make_private_folder
from orchestrator.support.sqlite import SqliteFile
from orchestrator.support.sqlite_layout import Layout

_LAYOUT = Layout(
    0x42414B42,  # "BAKB"
    1,
    """
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE document (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, digest TEXT NOT NULL,
    metadata TEXT NOT NULL
);
CREATE TABLE passage (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    document INTEGER NOT NULL REFERENCES document (id) ON DELETE CASCADE,
    place INTEGER NOT NULL, heading TEXT NOT NULL, text TEXT NOT NULL, more TEXT NOT NULL,
    page INTEGER, vector BLOB
);
CREATE INDEX passage_document ON passage (document, place);
CREATE VIRTUAL TABLE keyword USING fts5 (
    heading, text, more, content='passage', content_rowid='id', tokenize='porter unicode61'
);
CREATE TRIGGER passage_added AFTER INSERT ON passage BEGIN
    INSERT INTO keyword (rowid, heading, text, more)
    VALUES (new.id, new.heading, new.text, new.more);
END;
CREATE TRIGGER passage_removed AFTER DELETE ON passage BEGIN
    INSERT INTO keyword (keyword, rowid, heading, text, more)
    VALUES ('delete', old.id, old.heading, old.text, old.more);
END;
INSERT INTO setting VALUES ('revision', '0'), ('embedder', '');
""",
)
_HINT = "check that it is a file of this program, or delete it: it is made again from the documents"

# Headings say what a passage is about; a word there weighs more than one in the text.
_RANK = "bm25(2.0, 1.0, 1.0)"


class Hit(NamedTuple):
    """A passage that was found."""

    passage: int
    score: float  # how well it fits; greater is better


class StoredPassage(NamedTuple):
    """A passage, read back."""

    passage: int
    document: int  # the id of its document
    name: str
    metadata: dict[str, Any]  # the document's attributes
    place: int  # its number in the document, from 0
    content: Passage


class Store:
    """The index. Safe for many threads, and for many processes on one file."""

    def __init__(self, path: str | Path | None) -> None:
        """Opens the index file and makes it when needed; `None` keeps the index in memory.

        Raises:
            DependencyFailed: The file cannot be opened, is another program's, or was written by a
                newer version.
        """
        self.path = str(path) if path is not None else ":memory:"
        if path is not None:
            try:
                make_private_folder(Path(path).parent)
            except OSError as error:
                raise DependencyFailed(
                    f"the folder of the index {self.path!r} cannot be made: {error.strerror}",
                    resource=self.path,
                ) from error
        self._file = SqliteFile(self.path, "the index", _LAYOUT, _HINT)

    def _build_failure(self, text: str) -> DependencyFailed:
        return self._file.failure(f"{text}; {_HINT}")

    @contextmanager
    def _write_transaction(self) -> Iterator[sqlite3.Connection]:
        with self._file.transaction() as db:
            yield db
            db.execute("UPDATE setting SET value = value + 1 WHERE name = 'revision'")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    # -- settings --------------------------------------------------------------------------------

    def _read_setting(self, name: str) -> str:
        rows = self._file.rows("SELECT value FROM setting WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else ""

    @property
    def revision(self) -> str:
        """Another text after every change."""
        return self._read_setting("revision")

    @property
    def embedder(self) -> str:
        """The id of the embedder whose vectors are stored; empty when there are none."""
        return self._read_setting("embedder")

    # -- documents -------------------------------------------------------------------------------

    def digests(self) -> dict[str, str]:
        """The hash of each document's content, by the document's name."""
        return dict(self._file.rows("SELECT name, digest FROM document"))

    def put(
        self,
        name: str,
        digest: str,
        metadata: Mapping[str, Any],
        passages: Sequence[Passage],
        more: str = "",
    ) -> None:
        """Stores a document in place of the one of the same name.

        Vectors of passages whose text did not change stay. `digest` identifies the content; `more`
        counts as text of every passage, without being shown.
        """
        # Vectors cost the most: a text that stayed keeps its vector.
        with self._write_transaction() as db:
            vectors = {
                tuple(row[:-1]): row[-1]
                for row in db.execute(
                    "SELECT heading, text, more, vector FROM passage JOIN document "
                    "ON document.id = document WHERE name = ? AND vector IS NOT NULL",
                    (name,),
                )
            }
            db.execute("DELETE FROM document WHERE name = ?", (name,))
            added = db.execute(
                "INSERT INTO document (name, digest, metadata) VALUES (?, ?, ?)",
                (name, digest, json.dumps(dict(metadata))),
            )
            db.executemany(
                "INSERT INTO passage (document, place, heading, text, more, page, vector) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        *(added.lastrowid, place, it.heading, it.text, more, it.page),
                        vectors.get((it.heading, it.text, more)),
                    )
                    for place, it in enumerate(passages)
                ],
            )

    def remove(self, names: Sequence[str]) -> None:
        """Deletes documents."""
        if names:
            with self._write_transaction() as db:
                db.executemany("DELETE FROM document WHERE name = ?", [(it,) for it in names])

    def documents(self) -> dict[int, dict[str, Any]]:
        """The attributes of all documents, by id."""
        rows = self._file.rows("SELECT id, metadata FROM document")
        return {id: self._attributes(text) for id, text in rows}

    def list_documents(self) -> list[tuple[str, int]]:
        """The documents' names, sorted, each with the number of its passages."""
        return self._file.rows(
            "SELECT name, (SELECT count(*) FROM passage WHERE document = document.id) "
            "FROM document ORDER BY name"
        )

    def _attributes(self, text: Any) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._build_failure("has attributes that are not JSON") from error
        if not isinstance(found, dict):
            raise self._build_failure("has attributes that are no object")
        return found

    # -- vectors ---------------------------------------------------------------------------------

    def use_embedder(self, id: str) -> None:
        """Deletes all vectors, unless they are of this embedder."""
        if self.embedder != id:
            with self._write_transaction() as db:
                db.execute("UPDATE passage SET vector = NULL")
                db.execute("UPDATE setting SET value = ? WHERE name = 'embedder'", (id,))

    def without_vector(self, limit: int) -> list[tuple[int, str]]:
        """Passages that are to be embedded: ids and whole texts."""
        rows = self._file.rows(
            "SELECT id, heading, text, more FROM passage WHERE vector IS NULL ORDER BY id LIMIT ?",
            (limit,),
        )
        found = []
        for id, heading, text, more in rows:
            whole = Passage(text, heading).whole
            found.append((id, f"{whole}\n\n{more}" if more else whole))
        return found

    def put_vectors(self, embedder: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        """Stores vectors by passage id, unless the index belongs to another embedder by now."""
        with self._write_transaction() as db:
            db.executemany(
                "UPDATE passage SET vector = ? WHERE id = ? "
                "AND (SELECT value FROM setting WHERE name = 'embedder') = ?",
                [(vector, id, embedder) for id, vector in vectors],
            )

    def vectors(self, size: int) -> list[tuple[int, bytes]]:
        """Ids of passages, with their vectors of `size` bytes."""
        rows = self._file.rows(
            "SELECT id, vector FROM passage WHERE vector IS NOT NULL ORDER BY id"
        )
        if any(not isinstance(row[1], bytes) or len(row[1]) != size for row in rows):
            raise self._build_failure("has vectors of another size than the embedder's")
        return rows

    # -- searching -------------------------------------------------------------------------------

    def count(self) -> tuple[int, int]:
        """How many passages there are, and how many of them have a vector."""
        ((passages, vectors),) = self._file.rows("SELECT count(*), count(vector) FROM passage")
        return passages, vectors

    def size(self) -> int:
        """How many passages there are."""
        ((passages,),) = self._file.rows("SELECT count(*) FROM passage")
        return int(passages)

    def with_words(
        self, expression: str, limit: int, allowed: Collection[int] | None = None
    ) -> list[Hit]:
        """The passages that an FTS5 expression finds, best first; only `allowed` ones, if set."""
        # The plus keeps SQLite from asking the keywords for each id by itself.
        only = "" if allowed is None else "AND +rowid IN (SELECT value FROM json_each(?))"
        ids = () if allowed is None else (json.dumps(list(allowed)),)
        rows = self._file.rows(
            f"SELECT rowid, rank FROM keyword WHERE keyword MATCH ? AND rank MATCH ? {only} "
            "ORDER BY rank LIMIT ?",
            (expression, _RANK, *ids, limit),
        )
        return [Hit(id, -score) for id, score in rows]

    def find_ids(self, expression: str, limit: int) -> list[int]:
        """The ids of the first `limit` passages that an FTS5 expression finds, ascending."""
        rows = self._file.rows(
            "SELECT rowid FROM keyword WHERE keyword MATCH ? ORDER BY rowid LIMIT ?",
            (expression, limit),
        )
        return [id for (id,) in rows]

    def owners(self) -> list[tuple[int, int]]:
        """Ids of all passages and of their documents."""
        return self._file.rows("SELECT id, document FROM passage")

    def read(self, ids: Sequence[int] | None = None) -> list[StoredPassage]:
        """Passages by id, in the order of `ids` without those that are gone; `None`: all."""
        chosen = "" if ids is None else "WHERE passage.id IN (SELECT value FROM json_each(?))"
        rows = self._file.rows(
            "SELECT passage.id, document, name, metadata, place, heading, text, page "
            f"FROM passage JOIN document ON document.id = document {chosen}",
            () if ids is None else (json.dumps(ids),),
        )
        found = {row[0]: self._to_passage(row) for row in rows}
        return [found[id] for id in (found if ids is None else ids) if id in found]

    def _to_passage(self, row: tuple[Any, ...]) -> StoredPassage:
        id, document, name, metadata, place, heading, text, page = row
        if not isinstance(text, str) or not isinstance(heading, str):
            raise self._build_failure("has a passage that is no text")
        content = Passage(text, heading, page if isinstance(page, int) else None)
        return StoredPassage(id, document, str(name), self._attributes(metadata), place, content)
