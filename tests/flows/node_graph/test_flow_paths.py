"""Expressions of inputs: which part of a whole they mean."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.flows.node_graph.json_path import PathSyntaxError, parse_path

WHOLE = {
    "animals": {"mammals": ["cat", "dog"], "reptiles": ["snake", "turtle", "iguana"]},
    "organisms": {"mammals": ["rabbit", "horse", "mouse"], "flowers": ["lily", "daisy"]},
    "numbers": [1, 2, 3, 5, 8],
}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("$.data", WHOLE),
        ("$.data.numbers", [1, 2, 3, 5, 8]),
        ("$.data.animals.reptiles[2]", "iguana"),
        ("$.data.numbers[0, 3]", [1, 5]),
        ("$.data.organisms.mammals[1:]", ["horse", "mouse"]),
        ("$.data.numbers[:2]", [1, 2]),
        ("$.data.numbers[-1]", 8),
        ("$.data.*.mammals", [["cat", "dog"], ["rabbit", "horse", "mouse"]]),
        ("$.data.animals[*][0]", ["cat", "snake"]),
        ("$.data.numbers[7, 0]", [1]),
        ("$.data.nothing.*", []),
    ],
)
def test_expressions_take_a_part_of_the_whole(text: str, part: Any) -> None:
    assert parse_path(text).evaluate(WHOLE) == part


@pytest.mark.parametrize("text", ["$.data.nothing", "$.data.numbers[9]", "$.data.numbers.name"])
def test_what_is_not_there_is_an_error(text: str) -> None:
    with pytest.raises(LookupError, match="no such part"):
        parse_path(text).evaluate(WHOLE)


@pytest.mark.parametrize(
    "text",
    [
        *("", "data", "$", "$.name", "$.data.", "$.data[", "$.data[x]", "$.data..a"),
        *("$.data['a']", "$.data[?(@.a)]", "$.data a", "$.datax", "$.data" + ".a" * 40),
    ],
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(PathSyntaxError):
        parse_path(text)


def test_an_expression_that_multiplies_a_value_is_bounded() -> None:
    text = "$.data" + "[0,0,0]" * 8
    nested: Any = 1
    for _ in range(8):
        nested = [nested]
    assert len(parse_path(text).evaluate(nested)) == 3**8
    with pytest.raises(LookupError, match="more than 100,000 values"):
        parse_path("$.data.*.*").evaluate([[0] * 1_000] * 1_000)


leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
values = st.recursive(
    leaves, lambda it: st.lists(it, max_size=3) | st.dictionaries(st.sampled_from("abc"), it)
)
pieces = st.sampled_from(
    [".a", ".b", "[0]", "[-1]", "[0, 1]", "[1:]", "[:]", ".*", "[*]", ".", "["]
)


@given(values, st.one_of(st.lists(pieces, max_size=9).map("".join), st.text(max_size=40)))
def test_every_text_is_an_expression_or_none(value: Any, rest: str) -> None:
    try:
        parse_path(f"$.data{rest}").evaluate(value)
    except (PathSyntaxError, LookupError):
        pass
