"""What a database has to do for documents."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from orchestrator.errors import DependencyFailed

WHAT = "the document store"
"""How messages call it."""


class List(NamedTuple):
    """What names a list of documents."""

    tenant: str
    kind: str
    parent: str


class Answer(NamedTuple):
    """What names the answer to a request that came with a client token."""

    tenant: str
    operation: str
    token: str


class DocumentRows(Protocol):
    """Rows of texts in lists. Safe for many threads, and for the processes that share a database.

    A row has a place in its list, which counts up and is never used again. Whatever writes is
    called inside of `transaction`. All methods raise `DependencyFailed` when the database fails.
    """

    def transaction(self) -> AbstractContextManager[None]:
        """What this thread does meanwhile is one change, which any error undoes.

        Nobody else changes anything meanwhile. It is never entered twice by one thread.
        """

    def get(self, of: List, id: str) -> str | None:
        """The text of a row."""

    def put(self, of: List, id: str, name: str | None, text: str) -> None:
        """Writes a row, in place of the one with its id; no other row of the list has the name."""

    def rewrite(self, of: List, id: str, text: str) -> None:
        """Writes the text of a row that is there; its name stays."""

    def delete(self, of: List, id: str) -> bool:
        """Deletes a row; whether there was one."""

    def clear(self, of: List) -> None:
        """Deletes all rows of a list."""

    def find_id(self, of: List, name: str) -> str | None:
        """The id of the row with a name."""

    def count(self, of: List) -> int:
        """How many rows a list has."""

    def page(
        self, of: List, start: int, most: int | None, *, newest: bool
    ) -> list[tuple[int, str, str]]:
        """Rows after (before, with `newest`) a place, in order: place, id and text of each."""

    def page_by_name(
        self, of: List, before: str, within: str, most: int
    ) -> list[tuple[str, str, str]]:
        """Rows with smaller names, the last first, whose ids begin with `within`.

        Of each the name, the id and the text.
        """

    def find_answer(self, key: Answer, since: float) -> tuple[str, str] | None:
        """The hash of a request and its answer, if it was given since; older ones may go."""

    def add_answer(self, key: Answer, request: str, answer: str, now: float) -> None:
        """Keeps an answer."""

    def lists(self) -> list[List]:
        """All lists that have rows, for whoever goes through everything."""

    def failure(self, text: str) -> DependencyFailed:
        """The error that says `text` of the database."""

    def damage(self, text: str) -> DependencyFailed:
        """The error that says that it does not hold what was written to it."""

    def close(self) -> None:
        """Closes what is open."""
