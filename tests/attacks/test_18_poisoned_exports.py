"""Attack 18: an export that somebody wrote by hand is refused with its line, and adds nothing."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import SessionConflict, ValidationError
from orchestrator.sessions import Sessions, SQLiteStore
from orchestrator.sessions.exports import export_session, import_sessions

AT = 1_800_000_000_000_000_000
LABEL = "AGENT/ALIAS/s-1"
TURN: dict[str, Any] = {
    "kind": "turn",
    "v": 1,
    "id": "00000000-0000-4000-8000-000000000000",
    "at": AT,
    "question": "canary",
    "attributes": {},
    "prompt_attributes": {},
}
CLOSED = {"kind": "closed", "reason": "ended", "at": AT}


def head(label: str = LABEL, **members: Any) -> dict[str, Any]:
    key = sha256(label.encode()).hexdigest()
    whole = {"orchestrator": "session", "v": 1, "key": key, "label": label}
    return {**whole, "records": 2, "updated": AT, **members}


def export(*lines: Any) -> io.BytesIO:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return io.BytesIO("".join(f"{text}\n" for text in texts).encode())


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    store = SQLiteStore(tmp_path / "s.sqlite")
    yield Sessions(store)
    store.close()


def labels(sessions: Sessions) -> list[str]:
    return [info.label for info in sessions.store.list()]


def test_a_whole_one_is_added_and_comes_out_the_same(sessions: Sessions) -> None:
    lines = export(head(), TURN, CLOSED, head("A/B/s-2", records=1), TURN)
    assert [it.line for it in import_sessions(sessions, lines, "x")] == [1, 4]
    whole = b"".join(
        line.encode()
        for info in sorted(sessions.store.list(), key=lambda it: it.key)
        for line in export_session(sessions.store, info)
    )
    assert sorted(whole.splitlines()) == sorted(lines.getvalue().splitlines())


HEADS: dict[str, Any] = {
    "no object": [],
    "a record": TURN,
    "of another program": {**head(), "orchestrator": "memory"},
    "a newer version": head(v=2),
    "no version": head(v=None),
    "a foreign key": head(key=sha256(b"VICTIM/ALIAS/s-1").hexdigest()),
    "a key that is a path": head(key="../../etc/passwd"),
    "no label": {**head(), "label": 7},
    "an empty label": head(""),
    "an endless label": head("x" * 5_000),
    "no count": head(records="2"),
    "a negative count": head(records=-1),
    "an endless count": head(records=1 << 60),
    "a time that is none": head(updated=-1),
    "a time after all": head(updated=1 << 70),
    "not JSON": "{",
    "not a number": '{"orchestrator": NaN}',
    "deep": "[" * 100_000,
    "not UTF-8": "\udcff",
}


@pytest.mark.parametrize("name", HEADS)
def test_a_hostile_head_is_refused_by_its_line(name: str, sessions: Sessions) -> None:
    first = export(head("A/B/s-0"), TURN, CLOSED).getvalue()
    text = HEADS[name] if isinstance(HEADS[name], str) else json.dumps(HEADS[name])
    hostile = text.encode(errors="surrogateescape") + b"\n" + export(TURN, CLOSED).getvalue()
    with pytest.raises(ValidationError, match=r"^x:4: ") as caught:
        list(import_sessions(sessions, io.BytesIO(first + hostile), "x"))
    assert "canary" not in str(caught.value)
    assert labels(sessions) == ["A/B/s-0"]


RECORDS: dict[str, Any] = {
    "a class name": {"lc": 1, "type": "constructor", "id": ["os", "system"]},
    "an unknown kind": {"kind": "exec"},
    "a newer record": {**TURN, "v": 2},
    "attributes that are no texts": {**TURN, "attributes": {"a": {"b": 1}}},
    "an id that is a path": {**TURN, "id": "../../x"},
    "a head": head(),
    "not JSON": "canary",
    "a number": 7,
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_poisoned_record_is_refused_by_its_line(name: str, sessions: Sessions) -> None:
    with pytest.raises(ValidationError, match=r"^x:3: ") as caught:
        list(import_sessions(sessions, export(head(), TURN, RECORDS[name]), "x"))
    assert "canary" not in str(caught.value)
    assert labels(sessions) == []


def test_an_export_that_was_cut_adds_nothing(sessions: Sessions) -> None:
    with pytest.raises(ValidationError, match="ends after 1 of 2 records: it was cut"):
        list(import_sessions(sessions, export(head(), TURN), "x"))
    assert labels(sessions) == []


def test_an_endless_session_is_not_read_to_its_end(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.sessions.exports._MOST_BYTES", 1_000)

    class Endless(io.RawIOBase):
        asked = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            assert size is not None and 0 < size <= 1_001
            self.asked += size
            return b"[" * size

    endless = Endless()
    with pytest.raises(ValidationError, match="more than 1,000 bytes"):
        list(import_sessions(sessions, endless, "x"))  # type: ignore[arg-type]
    assert endless.asked <= 1_001


def test_a_session_of_somebody_else_is_not_replaced(sessions: Sessions) -> None:
    list(import_sessions(sessions, export(head(), TURN, CLOSED), "x"))
    hostile = export(head(), {**TURN, "question": "other"}, CLOSED)
    with pytest.raises(SessionConflict, match="x:1: there is a session"):
        list(import_sessions(sessions, hostile, "x"))
    assert "other" not in str(sessions.store.load(sessions.key(LABEL)))


@given(st.lists(st.binary(max_size=80) | st.just(b"\n"), max_size=6))
def test_any_bytes_are_read_or_refused(parts: list[bytes]) -> None:
    sessions = Sessions(SQLiteStore(":memory:"))
    lines = io.BytesIO(export(head(records=1), TURN).getvalue() + b"".join(parts))
    try:
        found = list(import_sessions(sessions, lines, "x"))
        assert [it.label for it in found] == [LABEL]
    except ValidationError:
        pass
    assert labels(sessions) == [LABEL]
    sessions.store.close()  # type: ignore[attr-defined]
