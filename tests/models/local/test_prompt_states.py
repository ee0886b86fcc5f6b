"""The folder of prompts' states: whose it is, what is in it, and what is thrown away."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import stat
from pathlib import Path

import pytest

from orchestrator.models import prompt_states
from orchestrator.models.prompt_states import PromptStates

KEY, OTHER = "a" * 64, "b" * 64

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")


@pytest.fixture
def states(tmp_path: Path) -> PromptStates:
    made = PromptStates(tmp_path / "models" / "prompts")
    assert made.open()
    return made


def keep(states: PromptStates, key: str, content: bytes = b"state", tokens: int = 7) -> None:
    def write(name: str) -> int:
        (states.folder / name).write_bytes(content)
        return tokens

    states.keep(key, write)


def test_what_was_kept_is_found_again(states: PromptStates) -> None:
    keep(states, KEY, b"one")
    keep(states, OTHER, b"other", tokens=9)
    found = states.find(KEY)
    assert found is not None
    assert (found.file.read_bytes(), found.tokens, found.size) == (b"one", 7, 3)
    assert states.find("c" * 64) is None
    assert {state.key for state in states.entries()} == {KEY, OTHER}


@posix
def test_nobody_else_can_read_it(states: PromptStates) -> None:
    before = os.umask(0)
    try:
        keep(states, KEY)
    finally:
        os.umask(before)
    (state,) = states.entries()
    assert stat.S_IMODE(state.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(states.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", [b"", b"stat", b"stateX", b"statE"])
def test_a_damaged_file_is_deleted_instead_of_used(states: PromptStates, damage: bytes) -> None:
    keep(states, KEY)
    (state,) = states.entries()
    state.file.write_bytes(damage)
    assert states.find(KEY) is None
    assert states.entries() == []


def test_a_file_of_another_key_or_name_is_none_of_its_states(states: PromptStates) -> None:
    keep(states, KEY, b"one")
    (state,) = states.entries()
    for name in ("x.state", f"{KEY}-7.state", f"{KEY}-7-{'0' * 64}.state.bak", "notes.txt"):
        (states.folder / name).write_bytes(b"one")
    assert [one.file for one in states.entries()] == [state.file]
    # One that was renamed has a content that its name does not tell.
    state.file.rename(states.folder / f"{OTHER}-7-{'0' * 64}.state")
    assert states.find(OTHER) is None


@posix
def test_a_link_is_not_followed(states: PromptStates, tmp_path: Path) -> None:
    keep(states, KEY)
    (state,) = states.entries()
    state.file.rename(tmp_path / "elsewhere")
    state.file.symlink_to(tmp_path / "elsewhere")
    assert states.find(KEY) is None


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_to_is_not_used(
    states: PromptStates, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    keep(states, KEY)
    states.folder.chmod(mode)
    assert not states.open()
    assert states.find(KEY) is None and states.entries() == []
    assert "others can write to" in caplog.text


@posix
def test_a_folder_that_others_can_only_read_is_closed_to_them(states: PromptStates) -> None:
    keep(states, KEY)
    states.folder.chmod(0o755)
    assert states.open() and states.find(KEY) is not None
    assert stat.S_IMODE(states.folder.stat().st_mode) == 0o700


@posix
def test_a_folder_of_somebody_else_is_not_used(
    states: PromptStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(states, KEY)
    user = os.geteuid()
    monkeypatch.setattr(prompt_states.os, "geteuid", lambda: user + 1)
    assert not states.open() and states.find(KEY) is None


def test_no_folder_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    made = PromptStates(tmp_path / "models" / "prompts")
    assert not made.open()
    assert made.find(KEY) is None and made.clear() == []


def test_the_oldest_ones_go_when_there_are_too_many(tmp_path: Path) -> None:
    states = PromptStates(tmp_path / "prompts", most=25)
    assert states.open()
    for at, letter in enumerate("abc"):
        keep(states, letter * 64, letter.encode() * 8)
        (state,) = [one for one in states.entries() if one.key == letter * 64]
        os.utime(state.file, (1000 + at, 1000 + at))
    assert states.find("a" * 64) is not None  # it is the newest one now
    keep(states, "d" * 64, b"d" * 8)
    assert {state.key[0] for state in states.entries()} == set("acd")


def test_one_that_is_too_large_by_itself_does_not_stay(tmp_path: Path) -> None:
    states = PromptStates(tmp_path / "prompts", most=25)
    assert states.open()
    keep(states, KEY, b"x" * 26)
    assert [*states.folder.iterdir()] == []


def test_what_could_not_be_written_leaves_nothing(states: PromptStates) -> None:
    def write(name: str) -> int:
        (states.folder / name).write_bytes(b"half")
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        states.keep(KEY, write)
    assert [*states.folder.iterdir()] == []


def test_nothing_is_written_to_a_disk_that_is_nearly_full(
    states: PromptStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(
        prompt_states.shutil, "disk_usage", lambda path: usage._replace(free=900_000_000)
    )
    keep(states, KEY)
    assert states.entries() == []


def test_what_a_killed_process_left_is_removed_later(states: PromptStates) -> None:
    old, new = states.folder / "1.unfinished", states.folder / "2.unfinished"
    for file in (old, new):
        file.write_bytes(b"half")
    os.utime(old, (1000, 1000))
    keep(states, KEY)
    assert not old.exists() and new.exists()


def test_all_of_them_can_be_deleted(states: PromptStates) -> None:
    keep(states, KEY)
    keep(states, OTHER)
    assert len(states.clear()) == 2
    assert states.entries() == [] == states.clear()


def _work(folder: Path, number: int) -> None:
    states = PromptStates(folder, most=3000)
    for turn in range(25):
        key = f"{(number + turn) % 5}" * 64
        content = key.encode() * 20
        found = states.find(key)
        assert found is None or found.size == len(content)
        keep(states, key, content)


def test_processes_may_write_and_prune_at_once(states: PromptStates) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_work, args=(states.folder, n)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
        worker.close()
    assert sum(state.size for state in states.entries()) <= 3000
    assert not list(states.folder.glob("*.unfinished"))
