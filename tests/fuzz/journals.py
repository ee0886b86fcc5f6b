"""Journals that somebody changed: a typed error, or a history that is the same each time."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from hypothesis import strategies as st
from journal_cases import CASES, SESSION

from orchestrator import OrchestratorError, Sessions, SQLiteStore
from orchestrator.engine.trace.past_turns import load_past_turns
from orchestrator.testing import FakeClock, InMemoryStore

from . import mutations
from .batch import Property

_FOLDER = Path(__file__).parents[1] / "sessions" / "journals"
JOURNALS = {file.stem: json.loads(file.read_text()) for file in sorted(_FOLDER.glob("v*.json"))}
# A time at which nobody holds the turns any more.
_FREE = FakeClock().now + 3600 * 10**9


class _Durable(InMemoryStore):
    """Journals in memory that are taken for another process's."""

    durable = True


class Journal(NamedTuple):
    """A case, and its records."""

    case: str
    label: str
    records: list[Any]


@st.composite
def _journals(draw: st.DrawFn) -> Journal:
    case = draw(st.sampled_from(sorted(CASES)))
    whole = JOURNALS[draw(st.sampled_from(sorted(JOURNALS)))][case]
    records = whole["records"][: draw(st.none() | st.integers(0, len(whole["records"])))]
    spoilt = draw(mutations.trees([records]))
    records = [it for it in spoilt if isinstance(it, dict)] if isinstance(spoilt, list) else []
    return Journal(case, whole["label"], records)


def _opened(journal: Journal) -> tuple[Sessions, Any, Any]:
    sessions = Sessions(_Durable(), clock=FakeClock(_FREE))
    key = sessions.key(journal.label)
    sessions.store.append(key, 0, journal.records, label=journal.label, at=1)
    return sessions, *CASES[journal.case](sessions)


def _history(journal: Journal) -> Any:
    sessions, asked, _ = _opened(journal)
    try:
        turns = load_past_turns(sessions, journal.label, asked.plan if asked is not None else None)
        return [(turn.question, turn.text, json.dumps(turn.trace, default=str)) for turn in turns]
    except OrchestratorError as error:
        return str(error)


def _a_journal_is_shown_or_refused(journal: Journal) -> None:
    assert _history(journal) == _history(journal)


def _a_turn_goes_on_or_is_refused(journal: Journal) -> None:
    sessions, asked, begin = _opened(journal)
    with suppress(OrchestratorError):
        begin()
    # And other sessions know nothing of it.
    if asked is not None:
        assert asked.invoke("Hello.", f"{SESSION}-2").session_id == f"{SESSION}-2"
    with suppress(OrchestratorError):
        sessions.peek(journal.label)


class Damage(NamedTuple):
    """Bytes that overwrite a database's at a place so many times, or the place where it ends."""

    at: int
    bytes: bytes | None
    times: int


def _database(folder: Path) -> bytes:
    """A file of all journals; it is the same in each process."""
    file = folder / "whole.sqlite"
    store = SQLiteStore(file)
    for case, whole in JOURNALS["v1"].items():
        store.append(case, 0, whole["records"], label=whole["label"], at=1)
    store.close()
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return file.read_bytes()


@contextmanager
def opened() -> Iterator[list[Property]]:
    """The properties of journals, in memory and in a database."""
    with TemporaryDirectory() as name:
        whole, count = _database(Path(name)), 0

        def read(damages: list[Damage]) -> None:
            nonlocal count
            count += 1
            data = bytearray(whole)
            for at, one, times in damages:
                if one is None:
                    del data[at:]
                else:
                    data[at : at + len(one) * times] = one * times
            file = Path(name, f"{count}.sqlite")
            file.write_bytes(data)
            try:
                _a_database_is_read_or_refused(file)
            finally:
                for left in Path(name).glob(f"{count}.sqlite*"):
                    left.unlink()

        damage = st.builds(
            Damage,
            st.integers(0, len(whole)) | st.integers(0, 200),
            st.none() | st.binary(min_size=1, max_size=8),
            st.sampled_from((1, 1, 4096)),
        )
        yield [
            Property("history", _journals(), _a_journal_is_shown_or_refused),
            Property("turns", _journals(), _a_turn_goes_on_or_is_refused),
            Property("databases", st.lists(damage, max_size=4), read),
        ]


def _a_database_is_read_or_refused(file: Path) -> None:
    try:
        store = SQLiteStore(file)
    except OrchestratorError:
        return
    try:
        with suppress(OrchestratorError):
            for info in list(store.list()):
                with suppress(OrchestratorError):
                    store.load(info.key)
        with suppress(OrchestratorError):
            store.append("new", 0, [{"kind": "closed", "reason": "x", "at": 1}], label="n", at=1)
        with suppress(OrchestratorError):
            store.delete("talk")
    finally:
        with suppress(OrchestratorError):
            store.close()
