"""Files that hold conversations, keys and traces are their owner's alone, whatever the umask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from whole_agents import NATIVE, agent, answer

from orchestrator import SQLiteStore
from orchestrator.cli.agents import ensure_data_folder
from orchestrator.flows.state import _load_or_create_key
from orchestrator.knowledge.store import Store
from orchestrator.memory import SqliteMemory
from orchestrator.models import RecordingModel
from orchestrator.server.document_store import DocumentStore
from orchestrator.support.private_files import open_private

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")


@pytest.fixture(params=[0, 0o022, 0o377], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): oct(path.stat().st_mode & 0o777)
        for path in sorted(folder.rglob("*"))
    }


def talk(folder: Path) -> None:
    """Has everything that writes what was said do so, and lets it stay open."""
    model = RecordingModel(NATIVE.model([answer("Hello.")]), folder / "recorded" / "all.jsonl")
    store = SQLiteStore(folder / "s.db")
    agent(model, sessions=store).invoke("Hello?", "s-1")
    with (
        closing(SqliteMemory(folder / "m.db")) as memory,
        closing(DocumentStore(folder / "d.db")) as documents,
        closing(Store(folder / "indexes" / "deep" / "i.db")),
    ):
        memory.touch("a", "ana", "s-1", 1)
        documents.put("t", "kind", "id", {})
        _load_or_create_key(folder / "state" / "key")
        ensure_data_folder(folder)
        found = modes(folder)
    store.close()
    assert len(found) > 12, found  # with the write-ahead logs, and the lock of this process
    assert {name: mode for name, mode in found.items() if mode not in ("0o600", "0o700")} == {}
    assert all(found[name] == "0o700" for name in ("recorded", "indexes/deep", "s.db-processes"))


def test_every_file_of_what_was_said_is_private(tmp_path: Path, umask: None) -> None:
    tmp_path.chmod(0o700)
    talk(tmp_path)


def test_files_that_others_could_read_are_tightened_when_they_are_opened(tmp_path: Path) -> None:
    for name in ("s.db", "s.db-wal", "recorded/all.jsonl"):
        file = tmp_path / name
        file.parent.mkdir(0o700, exist_ok=True)
        file.touch(0o644)
    talk(tmp_path)


def test_rights_of_the_owner_stay_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    SQLiteStore(file).close()
    file.chmod(0o444)
    SQLiteStore(file).close()
    assert file.stat().st_mode & 0o777 == 0o400


def test_a_device_is_no_file_and_stays_everybodys(tmp_path: Path) -> None:
    before = os.stat(os.devnull).st_mode
    with open_private(os.devnull) as file:
        file.write("nothing")
    assert os.stat(os.devnull).st_mode == before


def test_a_file_of_somebody_else_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    file = tmp_path / "s.db"
    SQLiteStore(file).close()
    file.chmod(0o644)
    monkeypatch.setattr(os, "chmod", refuse)
    SQLiteStore(file).close()
    assert f"{str(file)!r} can be read by others; run `chmod 600`" in caplog.text
