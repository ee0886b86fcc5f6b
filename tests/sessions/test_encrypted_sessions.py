"""Sessions and memories of an agent, encrypted with the environment's keys."""

from __future__ import annotations

import base64
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestrator import Agent, DependencyFailed, Memory, Sessions, SQLiteStore
from orchestrator.cli import app
from orchestrator.errors import EncryptionError, ValidationError
from orchestrator.memory import EncryptedMemory, InMemoryMemory, build_summary, memory_contents
from orchestrator.sessions import EncryptedStore, InMemoryStore
from orchestrator.support.encryption import KEYS
from orchestrator.support.encryption.cipher import REQUIRED
from orchestrator.testing import ScriptedModel

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
SUMMARY = '<summary><topic name="canary-topic">canary-said</topic></summary>'


def make_key(byte: int) -> str:
    return base64.b64encode(bytes([byte]) * 32).decode()


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the keys, by numbers."""

    def give(*numbers: int) -> None:
        monkeypatch.setenv(KEYS, ",".join(map(make_key, numbers)))

    monkeypatch.delenv(REQUIRED, raising=False)
    give(1)
    return give


def ask(file: Path, question: str, *replies: str, **options: Any) -> Any:
    model = ScriptedModel([f"<answer>{reply}</answer>" for reply in replies], CLAUDE)
    agent = Agent("greeter", "You greet people.", model, sessions=file)
    try:
        return agent.invoke(question, "s-1", **options), model
    finally:
        agent.sessions.store.close()  # type: ignore[attr-defined]


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def bytes_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()) if file.is_file())


def test_a_session_goes_on_and_its_file_has_no_word_of_it(tmp_path: Path, keys: Any) -> None:
    file = tmp_path / "s.sqlite"
    ask(file, "I am canary-ana.", "canary-hello", session_attributes={"who": "canary-attr"})
    _, model = ask(file, "Who am I?", "You are canary-ana.")
    assert "canary-ana" in str(model.requests[0].messages)
    assert b"canary" not in bytes_of(tmp_path) and b"sealed" in bytes_of(tmp_path)


def test_the_command_line_shows_exports_and_imports_it(tmp_path: Path, keys: Any) -> None:
    file = tmp_path / "s.sqlite"
    ask(file, "I am Ana.", "Hello!")
    assert "I am Ana." in run("sessions", "show", "s-1", "--state", file).stdout
    exported = run("sessions", "export", "s-1", "--state", file).stdout
    assert json.loads(exported.splitlines()[1])["question"] == "I am Ana."
    (tmp_path / "s.jsonl").write_text(exported)
    other = tmp_path / "other.sqlite"
    assert run("sessions", "import", tmp_path / "s.jsonl", "--state", other).exit_code == 0
    assert b"I am Ana" not in other.read_bytes()
    assert run("sessions", "export", "s-1", "--state", other).stdout == exported


def test_without_its_key_a_session_is_refused_and_stays(
    tmp_path: Path, keys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "s.sqlite"
    ask(file, "I am Ana.", "Hello!")
    keys(2)
    with pytest.raises(EncryptionError, match=rf"record 0 .* not given: add it to {KEYS}"):
        ask(file, "Who am I?", "?")
    monkeypatch.delenv(KEYS)
    with pytest.raises(DependencyFailed, match=rf"record 0 is encrypted; set {KEYS}"):
        ask(file, "Who am I?", "?")
    keys(2, 1)
    assert ask(file, "Who am I?", "Ana.")[0].text == "Ana."


def test_rotation_rewrites_what_older_keys_or_none_have_written(
    tmp_path: Path, keys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "s.sqlite"
    monkeypatch.delenv(KEYS)
    ask(file, "I am canary-ana.", "Hello!")
    assert run("sessions", "rotate-key", "--state", file).exit_code == 2
    monkeypatch.setenv(REQUIRED, "1")
    keys(1)
    with pytest.raises(EncryptionError, match=r"record 0 .* is not encrypted"):
        ask(file, "And now?", "?")
    monkeypatch.delenv(REQUIRED)
    ask(file, "And now?", "The same.")
    before = run("sessions", "export", "s-1", "--state", file).stdout
    done = run("sessions", "rotate-key", "--state", file, "--json")
    assert done.exit_code == 0
    plain = json.loads(done.stdout)["records"]
    assert plain > 0
    keys(2, 1)
    counts = json.loads(run("sessions", "rotate-key", "--state", file, "--json").stdout)
    assert counts["records"] > plain
    keys(2)
    monkeypatch.setenv(REQUIRED, "1")
    assert run("sessions", "export", "s-1", "--state", file).stdout == before
    again = json.loads(run("sessions", "rotate-key", "--state", file, "--json").stdout)
    assert again == {"records": 0, "plans": 0, "summaries": 0, "documents": 0, "failed": []}


def test_rotation_leaves_what_it_cannot_read_and_says_so(tmp_path: Path, keys: Any) -> None:
    file = tmp_path / "s.sqlite"
    ask(file, "I am Ana.", "Hello!")
    keys(2)
    done = run("sessions", "rotate-key", "--state", file)
    assert done.exit_code == 1 and "left as it is: session" in done.stderr
    keys(1)
    assert "I am Ana." in run("sessions", "show", "s-1", "--state", file).stdout


def test_rotation_goes_on_after_a_past_prompt_that_it_cannot_read(
    tmp_path: Path, keys: Any
) -> None:
    file = tmp_path / "s.sqlite"
    for key, instruction in ((1, "You greet."), (2, "You thank."), (2, "You smile.")):
        keys(key)
        with Agent("a", instruction, ScriptedModel(["<answer>Hi!"], CLAUDE), sessions=file) as it:
            it.invoke("Hi", f"s-{instruction[-4:-1]}")
    keys(3, 2)
    done = run("sessions", "rotate-key", "--state", file, "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["plans"]) == (1, 2)
    assert [it.partition(" (")[0] for it in told["failed"] if "past prompts" in it] == [
        "what past prompts were made of"
    ]


def test_memories_are_encrypted_beside_sessions(tmp_path: Path, keys: Any) -> None:
    memory = EncryptedMemory(InMemoryMemory())
    agent = Agent(
        "shop",
        "You look up orders.",
        ScriptedModel(["<answer>Yes.</answer>", SUMMARY, "<answer>Hm.</answer>"], CLAUDE),
        memory=Memory(memory),
    )
    agent.invoke("Is it there?", "s-1", memory_id="ana", end_session=True)
    (content,) = agent.memories("ana")
    assert content["sessionSummary"]["summaryText"] == "canary-topic: canary-said"
    (info,) = memory.memories(0)
    (kept,) = memory._store.recent(info.owner, "ana", 0, 9)
    assert kept.topics == [] and "canary" not in kept.text
    agent.invoke("And now?", "s-2", memory_id="ana")
    with pytest.raises(EncryptionError, match="the summary of session 's-1' is encrypted"):
        memory_contents([kept])
    keys(2, 1)
    rotating = EncryptedMemory(memory._store)
    assert rotating.rotate(info.owner, "ana", 0) == 1
    assert rotating.rotate(info.owner, "ana", 0) == 0
    keys(2)
    (summary,) = EncryptedMemory(memory._store).recent(info.owner, "ana", 0, 9)
    assert summary.topics == [{"topic": "canary-topic", "summary": "canary-said"}]


def test_a_memory_in_a_file_is_encrypted_and_rotated_with_its_sessions(
    tmp_path: Path, keys: Any
) -> None:
    from orchestrator.agent.validate import memory_store

    file = tmp_path / "s.sqlite"
    ask(file, "I am Ana.", "Hello!")
    topics = [{"topic": "canary-topic", "summary": "canary-said"}]
    store: Any = memory_store(None, file)
    store.touch("a/x", "ana", "s-2", 5)
    store.add("a/x", build_summary("ana", "s-1", topics, started=1, now=1, storage_days=365))
    store.touch("a/x", "ana", "s-1", 9)
    with sqlite3.connect(tmp_path / "memory.sqlite") as db:
        db.execute("UPDATE summary SET expires = NULL, sum = 0")
        from orchestrator.memory.stores import write_checksums

        write_checksums(db)
    db.close()
    store.close()
    # The times are part of what is sealed.
    shown = run("memory", "show", "ana", "--state", tmp_path / "memory.sqlite")
    assert shown.exit_code == 1 and "changed, cut or moved" in shown.stderr
    store = memory_store(None, file)
    store.add("a/x", build_summary("ana", "s-1", topics, started=1, now=1 << 61))
    store.touch("a/x", "ana", "s-1", 9)
    keys(2, 1)
    counts = json.loads(run("sessions", "rotate-key", "--state", file, "--json").stdout)
    assert counts["summaries"] == 1 and counts["failed"] == []
    assert store.find_unsummarised("a/x", 99) == ["s-2", "s-1"]
    store.close()
    keys(2)
    shown = run("memory", "show", "ana", "--state", tmp_path / "memory.sqlite")
    assert "canary-topic: canary-said" in shown.stdout
    assert b"canary" not in bytes_of(tmp_path)


def test_a_store_of_ones_own_is_encrypted_by_a_wrapper(keys: Any) -> None:
    inner = InMemoryStore()
    inner.durable = True
    sessions = Sessions(EncryptedStore(inner))
    agent = Agent(
        "greeter", "You greet.", ScriptedModel(["<answer>Hi!"], CLAUDE), sessions=sessions
    )
    agent.invoke("canary", "s-1")
    (info,) = sessions.store.list()
    assert {record["kind"] for record in inner.load(info.key)} == {"sealed"}
    assert sessions.store.load(info.key)[0]["question"] == "canary"
    with pytest.raises(ValidationError, match="cannot change records"):
        sessions.store.rotate(info.key)  # type: ignore[attr-defined]


def test_a_wrapper_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEYS, raising=False)
    with pytest.raises(ValidationError, match=f"set {KEYS}"):
        EncryptedStore(InMemoryStore())
    with pytest.raises(ValidationError, match=f"set {KEYS}"):
        EncryptedMemory(InMemoryMemory())


def test_an_event_loop_still_writes_small_records_at_once(tmp_path: Path, keys: Any) -> None:
    store = EncryptedStore(SQLiteStore(tmp_path / "s.sqlite"))
    assert callable(store.reserve) and store.threads == 1
    store.close()
