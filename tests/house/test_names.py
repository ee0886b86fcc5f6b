"""Functions are named by verb phrases, properties by nouns, modules by what they hold."""

from __future__ import annotations

import re

import house
import pytest

# Participles that are no form of an imperative ("read", "set", "put", "run" and others are both).
IRREGULAR = set(
    (
        "told found made given said kept begun written shown sent held built taken known seen "
        "done left lost met paid brought bought caught chosen drawn driven forgotten gone "
        "grown heard hidden laid led lent meant spoken spent stood stuck taught thought thrown "
        "torn understood won worn broken become eaten fallen frozen gotten stolen woken felt "
        "fought"
    ).split()
)
NOT_PARTICIPLES = {"embed", "feed", "need", "seed", "speed", "exceed", "proceed", "succeed", "shed"}
RETIRED = {"told", "tell", "tells", "said", "kept", "begun", "elsewhere", "apart"}

# Names that are not ours to choose.
FIXED = {
    "connection_made",  # asyncio's protocol
    "connection_lost",
    "data_received",
    "_unsupported_upgrade_warning",  # uvicorn's
}


def words(name: str) -> list[str]:
    return [word for word in name.lower().split("_") if word]


def is_participle(word: str) -> bool:
    if word in NOT_PARTICIPLES:
        return False
    return word in IRREGULAR or (word.endswith("ed") and len(word) > 3)


def complaint(name: str) -> str:
    """What is wrong with a function's name; empty when nothing is."""
    parts = words(name)
    if not parts or name in FIXED or name.startswith("__"):
        return ""
    if is_participle(parts[0]):
        return "begins with a participle: name it by a verb (`build_…`) or a noun (`…_count`)"
    if retired := RETIRED & set(parts):
        return f"has the retired word {min(retired)!r}"
    return ""


def test_no_function_is_named_by_a_participle_or_a_retired_word() -> None:
    wrong = {path: reason for path, node in house.functions() if (reason := complaint(node.name))}
    assert wrong == {}


def test_no_module_is_named_by_a_participle_or_a_retired_word() -> None:
    wrong = [
        name
        for name in house.modules()
        if RETIRED & set(words(name.rpartition(".")[2]))
        or (len(words(name.rpartition(".")[2])) == 1 and is_participle(name.rpartition(".")[2]))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "name", ["told", "_found", "given_features", "told_of", "tell_user", "made"]
)
def test_such_names_are_refused(name: str) -> None:
    assert complaint(name)


@pytest.mark.parametrize(
    "name",
    ["read", "_set", "build_agent", "is_closed", "feed", "embed", "data_received", "to_json"],
)
def test_such_names_are_fine(name: str) -> None:
    assert complaint(name) == ""


def test_modules_are_named_in_small_letters() -> None:
    assert [it for it in house.modules() if not re.fullmatch(r"[a-z0-9_.]+", it)] == []
