"""Pages of lists, and what was made last."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.server.document_store import decode_offset, encode_token, paginate
from orchestrator.server.operations import Fault
from orchestrator.support.lru_cache import LruCache


@given(items=st.lists(st.integers(), max_size=30), most=st.integers(1, 10), name=st.text())
def test_all_pages_together_are_the_list(items: list[int], most: int, name: str) -> None:
    found, token = list[int](), None
    for _ in range(len(items) + 1):
        told, token = paginate(
            (((place,), it) for place, it in enumerate(items)), most, token, name
        )
        assert len(told) <= most
        found += told
        if token is None:
            break
        assert re.fullmatch(r"\S{1,2048}", token)
    assert found == items


@given(st.text())
def test_a_token_of_nothing_is_refused(token: str) -> None:
    with pytest.raises(Fault, match="ValidationException"):
        decode_offset(token, "a")


def test_a_token_of_another_list_is_refused() -> None:
    with pytest.raises(Fault, match="ValidationException"):
        decode_offset(encode_token([1], "a"), "b")


@pytest.mark.parametrize("key", [["1"], [True], [-1], [1, 2], [], [1.0]])
def test_a_token_with_another_key_is_refused(key: list[Any]) -> None:
    with pytest.raises(Fault, match="ValidationException"):
        decode_offset(encode_token(key, "a"), "a")


def test_the_last_ones_are_kept() -> None:
    made = []

    def make(name: str) -> str:
        made.append(name)
        return name

    kept: LruCache[str] = LruCache(2)
    for name in ("a", "b", "a", "c", "a", "b"):
        assert kept.get(name, lambda name=name: make(name)) == name
    assert made == ["a", "b", "c", "b"]
    assert len(kept) == 2


def test_those_who_ask_together_get_the_same() -> None:
    kept: LruCache[object] = LruCache(2)
    together = Barrier(4)

    def make() -> object:
        together.wait(60)
        return object()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: kept.get("a", make), range(4)))
    assert len({id(one) for one in found}) == 1
