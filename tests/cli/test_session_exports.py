"""`orchestrator sessions export`, `import` and `prune`."""

import base64
import json
import os
import sqlite3
from contextlib import closing
from hashlib import sha256

import pytest
from cli_support import ANSWER, ORDER, call
from stored_rows import write_checksums

from orchestrator.sessions import SQLiteStore
from orchestrator.support.encryption import KEYS


@pytest.fixture
def kept(run, shop, script):
    run("invoke", shop, "Where is 1042?", script(ORDER, ANSWER), "--session=s-1")
    run("invoke", shop, "Hi", script("<answer>Hello."), "--session=s-2")
    return shop


def key(label):
    return sha256(label.encode()).hexdigest()


def journals(file):
    store = SQLiteStore(file)
    try:
        return {info: store.load(info.key) for info in store.list()}
    finally:
        store.close()


STATE = ".orchestrator/sessions.sqlite"


def test_all_sessions_come_back_as_they_were(run, kept):
    done = run("sessions", "export", "--all", kept, "--output", "all.jsonl")
    assert done.stdout == "exported 2 sessions to all.jsonl\n"
    assert oct(os.stat("all.jsonl").st_mode & 0o777) == "0o600"
    done = run("sessions", "import", "all.jsonl", "--state", "other.sqlite")
    assert done.stdout == "imported 2 sessions\n"
    assert journals("other.sqlite") == journals(kept / STATE)
    shown = run("sessions", "show", "s-1", "--state", "other.sqlite").stdout
    assert "Emma will arrive on Thursday." in shown


def test_a_session_goes_on_in_another_store(run, kept, script):
    exported = run("sessions", "export", "s-1", kept).stdout
    head, *records = map(json.loads, exported.splitlines())
    assert (head["orchestrator"], head["v"], head["records"]) == ("session", 1, len(records))
    assert records[0]["question"] == "Where is 1042?"
    assert run("sessions", "delete", "s-1", kept).exit_code == 0
    assert run("sessions", "import", "-", kept, input=exported).exit_code == 0
    done = run("render", kept, "And now?", script(), "--session=s-1")
    assert "Where is 1042?" in done.stdout


def test_a_session_that_is_there_is_left_alone(run, kept):
    run("sessions", "export", "s-1", kept, "--output", "one.jsonl")
    before = journals(kept / STATE)
    done = run("sessions", "import", "one.jsonl", kept)
    assert done.exit_code == 1
    assert "one.jsonl:1: there is a session" in done.stderr and "delete it first" in done.stderr
    assert journals(kept / STATE) == before


def test_one_session_or_all_has_to_be_named(run, kept):
    for words in (("export",), ("export", "s-1", kept, "--all")):
        done = run("sessions", *words)
        assert done.exit_code == 2 and "--all for every one" in done.stderr
    assert run("sessions", "export", "s-9", kept).exit_code == 2
    assert run("sessions", "import", "none.jsonl", kept).exit_code == 2
    assert run("sessions", "import", "-", "nowhere", input="").exit_code == 2
    assert not os.path.exists("nowhere")


def test_a_damaged_session_is_left_out_and_said_to_be(run, kept):
    store = SQLiteStore(kept / STATE)
    store.append(key("a/b/bad"), 0, [{"kind": "pickle"}], label="a/b/bad", at=1)
    store.close()
    done = run("sessions", "export", "--all", kept, "--output", "all.jsonl")
    assert done.exit_code == 1 and "left out: session 'a/b/bad'" in done.stderr
    assert run("sessions", "import", "all.jsonl", "--state", "other.sqlite").exit_code == 0
    assert len(journals("other.sqlite")) == 2
    assert run("sessions", "export", "bad", kept).exit_code == 2
    listed = json.loads(run("sessions", "list", kept, "--json").stdout)
    assert [(it["id"], it["state"]) for it in listed if it["state"] != "idle"] == [
        ("bad", "damaged")
    ]


def test_what_no_given_key_opens_is_encrypted_and_not_damaged(run, kept, monkeypatch):
    run("sessions", "export", "--all", kept, "--output", "all.jsonl")
    monkeypatch.setenv(KEYS, base64.b64encode(b"a" * 32).decode())
    assert run("sessions", "import", "all.jsonl", "--state", "sealed.sqlite").exit_code == 0

    def states():
        listed = json.loads(run("sessions", "list", "--state", "sealed.sqlite", "--json").stdout)
        return [it["state"] for it in listed]

    assert states() == ["idle", "idle"]
    monkeypatch.setenv(KEYS, base64.b64encode(b"b" * 32).decode())
    assert states() == ["encrypted", "encrypted"]
    monkeypatch.delenv(KEYS)
    assert states() == ["encrypted", "encrypted"]


def test_what_was_changed_though_it_is_encrypted_is_damaged(run, kept, monkeypatch):
    run("sessions", "export", "--all", kept, "--output", "all.jsonl")
    monkeypatch.setenv(KEYS, base64.b64encode(b"a" * 32).decode())
    assert run("sessions", "import", "all.jsonl", "--state", "sealed.sqlite").exit_code == 0
    with closing(sqlite3.connect("sealed.sqlite")) as db, db:
        place, record = db.execute("SELECT place, record FROM journal ORDER BY place").fetchone()
        other = "A" if record[-12] != "A" else "B"
        changed = record[:-12] + other + record[-11:]
        db.execute("UPDATE journal SET record = ? WHERE place = ?", (changed, place))
        write_checksums(db)
    listed = json.loads(run("sessions", "list", "--state", "sealed.sqlite", "--json").stdout)
    assert sorted(it["state"] for it in listed) == ["damaged", "idle"]


def test_pruning_shows_what_it_would_delete_and_then_does(run, kept):
    old = journals(kept / STATE)
    store = SQLiteStore(kept / STATE)
    records = next(it for it in old.values() if len(it) > 3)
    store.append(key("a/b/aged"), 0, records, label="a/b/aged", at=1_000_000_000)
    store.close()
    shown = run("sessions", "prune", "--older-than", "30d", kept).stdout
    assert shown.splitlines()[0].startswith("aged ") and "1 session to delete; --yes" in shown
    assert len(journals(kept / STATE)) == 3
    done = run("sessions", "prune", "--older-than=30d", "--state", kept / STATE, "--yes", "--json")
    assert json.loads(done.stdout) == {"deleted": ["a/b/aged"], "plans": 0}
    assert journals(kept / STATE) == old
    assert run("sessions", "prune", "--older-than=1w", kept, "--yes").stdout == (
        "deleted 0 sessions\n"
    )


@pytest.mark.parametrize("age", ["30", "d", "-1d", "1.5h", "9999999999d", "1y"])
def test_a_duration_is_a_number_with_a_unit(run, kept, age):
    done = run("sessions", "prune", f"--older-than={age}", kept, "--yes")
    assert done.exit_code == 2 and "such as 30d" in done.stderr
    assert len(journals(kept / STATE)) == 2


def test_a_session_that_waits_is_pruned_and_a_running_one_is_not(run, buyer, script):
    run("invoke", buyer, "Buy", script(call("shop__order_book", title="Emma")), "--session=s-1")
    run("invoke", buyer, "Buy", script(call("shop__order_book", title="Emma")), "--session=s-2")
    (journal, *_) = journals(buyer / STATE).items()
    info, records = journal
    store = SQLiteStore(buyer / STATE)
    store.delete(info.key)
    # As another process writes it that is in the middle of the turn.
    begun = {**records[0], "owner": "elsewhere", "until": 1 << 62}
    store.append(info.key, 0, [begun], label=info.label, at=1)
    store.close()
    done = run("sessions", "prune", "--older-than=0s", buyer, "--yes", "--json")
    assert len(json.loads(done.stdout)["deleted"]) == 1
    assert [it.label for it in journals(buyer / STATE)] == [info.label]
