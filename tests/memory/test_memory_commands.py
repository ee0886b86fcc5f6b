"""`orchestrator memory`: list, show and delete."""

from __future__ import annotations

import json
import sqlite3
import time

import pytest
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.cli.memory import get_memory_file
from orchestrator.memory import SqliteMemory, build_summary


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return lambda *words: CliRunner().invoke(app, ["memory", *map(str, words)])


@pytest.fixture
def folder(tmp_path):
    agent = tmp_path / "shop"
    file = get_memory_file(agent)
    file.parent.mkdir(parents=True)
    assert file == agent / ".orchestrator" / "memory.sqlite"
    store, now = SqliteMemory(file), time.time_ns()
    for owner, memory, session, said in (
        ("A123456789/TSTALIASID", "ana", "s-1", "Ana asked for 1042."),
        ("A123456789/TSTALIASID", "ana", "s-2", "Ana likes \x1b[31mred."),
        ("A123456789/TSTALIASID", "bob", "s-3", "Bob was here."),
        ("B123456789/TSTALIASID", "bob", "s-4", "Another Bob."),
    ):
        topics = [{"topic": "T", "summary": said}]
        now += 1
        store.add(owner, build_summary(memory, session, topics, started=now, now=now))
    store.close()
    return agent


def test_memories_are_listed(run, folder):
    lines = run("list", folder).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["bob", "bob", "ana"]
    assert "2 sessions" in lines[-1]
    listed = json.loads(run("list", folder, "--json").stdout)
    assert [(it["memory"], it["sessions"]) for it in listed] == [("bob", 1), ("bob", 1), ("ana", 2)]
    assert listed[-1]["owner"] == "A123456789/TSTALIASID"


def test_a_memory_is_shown(run, folder):
    told = run("show", "ana", folder).stdout
    assert told.index("s-2") < told.index("T: Ana likes") < told.index("s-1")
    assert "\x1b" not in told and "T: Ana asked for 1042." in told
    contents = json.loads(run("show", "ana", folder, "--json").stdout)["memoryContents"]
    assert [it["sessionSummary"]["sessionId"] for it in contents] == ["s-2", "s-1"]


def test_a_session_and_a_memory_are_forgotten(run, folder):
    assert run("delete", "ana", folder, "--session=s-1").stdout == "forgot session s-1 of ana\n"
    assert "s-1" not in run("show", "ana", folder).stdout
    assert json.loads(run("delete", "ana", folder, "--json").stdout)["deleted"] == "ana"
    done = run("show", "ana", folder)
    assert done.exit_code == 2 and "there is no memory 'ana'" in done.stderr


def test_an_id_of_two_agents_needs_its_owner(run, folder):
    done = run("show", "bob", folder)
    assert done.exit_code == 2 and "'B123456789/TSTALIASID/bob'" in done.stderr
    assert "Another Bob." in run("show", "B123456789/TSTALIASID/bob", folder).stdout


def test_looking_makes_no_file(run, tmp_path):
    done = run("list", tmp_path)
    assert done.exit_code == 2 and "nothing is remembered in" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_empty_store(run, tmp_path):
    SqliteMemory(tmp_path / "m.sqlite").close()
    assert run("list", "--state", tmp_path / "m.sqlite").stdout == "nothing is remembered\n"


def test_a_row_that_cannot_be_read_can_be_deleted(run, folder):
    with sqlite3.connect(get_memory_file(folder)) as db:
        db.execute("UPDATE summary SET topics = '{', started = 'never' WHERE memory_id = 'ana'")
    db.close()
    assert "ana" in run("list", folder).stdout
    done = run("show", "ana", folder)
    assert done.exit_code == 1 and "orchestrator memory delete" in done.stderr
    assert run("delete", "ana", folder).exit_code == 0
    assert "ana" not in run("list", folder).stdout
