"""JSON and YAML of others: read, or refused, whatever they hold."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.support.safe_json import json_or, too_deep


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", '{"a": Infinity}', "[" * 100_000, "1" * 10_000, "\ufeff{}", "{} {}"]
)
def test_what_is_no_json_is_the_other_value(text: str) -> None:
    assert json_or(text, "other") == "other"


def test_json_is_its_value() -> None:
    assert json_or(' {"a": [1, null]} ', "other") == {"a": [1, None]}


@given(depth=st.integers(0, 60), most=st.integers(0, 60))
def test_depth_is_counted_in_lists_and_mappings(depth: int, most: int) -> None:
    text = "".join("[" if n % 2 else "{a: " for n in range(depth))
    text += "1" + "".join("]" if n % 2 else "}" for n in reversed(range(depth)))
    mark = too_deep(text, yaml.SafeLoader, most)
    assert (mark is not None) == (depth > most)
    if mark is not None:
        assert mark.column == sum(1 if n % 2 else 4 for n in range(most))
