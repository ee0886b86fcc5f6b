"""Attack 11: memory and session ids that would be paths are values and nothing else."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.memory import SqliteMemory, build_summary

IDS = ["..", "a:b", "CON", "C:", "-.", "::", "x" * 100, "__proto__", "%", "_"]


def remember(store: SqliteMemory, memory: str, session: str) -> None:
    topics = [{"topic": "T", "summary": f"{memory}/{session}"}]
    store.add("a/x", build_summary(memory, session, topics, started=1, now=1))


def test_ids_stay_in_the_file_and_apart(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "state"
    root.mkdir(parents=True)
    store = SqliteMemory(root / "memory.sqlite")
    for memory in IDS:
        for session in IDS:
            remember(store, memory, session)
    for memory in IDS:
        told = {it.topics[0]["summary"] for it in store.recent("a/x", memory, 1, 99)}
        assert told == {f"{memory}/{session}" for session in IDS}
    for memory in IDS[:-1]:
        store.delete("a/x", memory, "..")
        store.delete("a/x", memory)
    assert len(store.recent("a/x", IDS[-1], 1, 99)) == len(IDS)
    store.close()
    assert [path.name for path in tmp_path.rglob("*")] == ["deep", "state", "memory.sqlite"]


@given(st.from_regex(r"[0-9a-zA-Z._:-]{2,100}", fullmatch=True))
def test_any_valid_id(name: str) -> None:
    store = SqliteMemory(":memory:")
    remember(store, name, name)
    assert [it.session_id for it in store.recent("a/x", name, 1, 9)] == [name]
    store.delete("a/x", name, name)
    assert store.memories(1) == []
    store.close()
