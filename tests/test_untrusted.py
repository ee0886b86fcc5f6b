"""JSON of others: read, or refused, whatever they hold."""

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.support.safe_json import MOST_LEVELS, json_or, load_json, read_json, read_json_at


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", '{"a": Infinity}', "[" * 100_000, "1" * 10_000, "\ufeff{}", "{} {}"]
)
def test_what_is_no_json_is_the_other_value(text: str) -> None:
    assert json_or(text, "other") == "other"


def test_json_is_its_value() -> None:
    assert json_or(' {"a": [1, null]} ', "other") == {"a": [1, None]}


READERS = [json_or, read_json, read_json_at, load_json]


def read(reader: Callable[..., Any], text: str) -> Any:
    if reader is json_or:
        return json_or(text, "too deep")
    found = reader(text.encode() if reader is load_json else text)
    return found[0] if reader is read_json_at else found


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ("[0,", "]")])
def test_json_has_no_more_levels_than_can_be_walked(
    reader: Callable[..., Any], opening: str, closing: str
) -> None:
    def nest(levels: int) -> str:
        return opening * levels + "[]" + closing * levels

    assert read(reader, nest(MOST_LEVELS // 2)) != "too deep"
    # From Python 3.12 on, `json` reads that.
    for levels in (MOST_LEVELS + 1, 5_000):
        try:
            assert read(reader, nest(levels)) == "too deep"
        except RecursionError:
            pass


def test_many_values_beside_each_other_are_no_levels() -> None:
    assert len(read_json("[" + "[[]]," * 5_000 + "{}]")) == 5_001
