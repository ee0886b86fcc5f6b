"""JSON of others: read, or refused, whatever they hold."""

import pytest

from orchestrator.support.safe_json import json_or


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", '{"a": Infinity}', "[" * 100_000, "1" * 10_000, "\ufeff{}", "{} {}"]
)
def test_what_is_no_json_is_the_other_value(text: str) -> None:
    assert json_or(text, "other") == "other"


def test_json_is_its_value() -> None:
    assert json_or(' {"a": [1, null]} ', "other") == {"a": [1, None]}
