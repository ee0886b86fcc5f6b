"""Attack 11, on the code interpreter: session ids that would be paths stay one folder each."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.actions import CallContext
from orchestrator.actions.code_interpreter.scratch import Scratch, session_key

IDS = ["..", "...", "a:b", "CON", "NUL", "-.", "C:", "::", "../../etc", "/etc", "root", "probe"]


def _context(session_id: str) -> CallContext:
    return CallContext({"id": "AGENT12345"}, session_id, "", {}, {}, 1000)


def test_every_session_has_a_folder_of_its_own_inside() -> None:
    scratch = Scratch(sessions=100, parallel=1)
    folders: set[Path] = set()
    for session_id in IDS:
        key = session_key(_context(session_id))
        with scratch.turn(key, float("inf"), lambda: False) as session:
            assert session.folder.resolve().parent == session.base
            assert list(session.folder.iterdir()) == []
            folders.add(session.folder)
            base = session.base
    assert len(folders) == len(IDS)
    scratch.close()
    assert not base.exists()


@given(st.text(), st.text())
def test_keys_are_plain_and_apart(one: str, other: str) -> None:
    keys = {session_key(_context(one)), session_key(_context(other))}
    assert len(keys) == len({one, other})
    assert all(key.isascii() and key.isalnum() for key in keys)
