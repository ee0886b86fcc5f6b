"""Attack 12: a memory id that somebody else uses, too, gives nothing of theirs away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.memory import InMemoryMemory, SqliteMemory, build_summary

TEXT = st.text(st.sampled_from("ab/%_*'\"\\ .:"), min_size=1, max_size=4)


@pytest.mark.parametrize("make", [InMemoryMemory, lambda: SqliteMemory(":memory:")])
@given(
    mine=st.tuples(TEXT, TEXT),
    others=st.lists(st.tuples(TEXT, TEXT), max_size=5),
    session=TEXT,
)
def test_owner_and_memory_must_both_be_the_same(make, mine, others, session):
    store = make()
    for owner, memory in others:
        topics = [{"topic": "theirs", "summary": "secret"}]
        store.add(owner, build_summary(memory, session, topics, started=1, now=1))
    owner, memory = mine
    assert bool(store.recent(owner, memory, 1, 99)) == (mine in others)
    store.delete(owner, memory)
    left = {(info.owner, info.memory_id) for info in store.memories(1)}
    assert left == set(others) - {mine}
    store.delete(owner)
    assert {info.owner for info in store.memories(1)} == {who for who, _ in others} - {owner}
    getattr(store, "close", lambda: None)()
