"""Numbers that texts say, what they count, and where sentences end."""

from __future__ import annotations

import pytest

from orchestrator.support.numbers import find_numbers
from orchestrator.support.sentences import find_sentences


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("28 days, 4.80 euros and €5", "28 day, 4.8 euro, 5 euro"),
        ("1,200 or 1200.50", "1.2|1200, 1200.5"),
        ("twenty-eight, achtundzwanzig, zwölf", "28, 28, 12"),
        ("two to three working days", "2, 3 day"),
        ("under 14 pay. For a day", "14"),
        ("a five-day week", "5 week"),
        ("十五天，二十八个月，两周", "15 day, 28 month, 2 week"),
        ("at ten, 10:00 and the 3rd", "10, 3, 10"),
        ("1. one thing\n2. another", ""),
        ("第一百二十三条 一起", ""),
        ("9" * 5_000, "9" * 5_000),
    ],
)
def test_numbers(text: str, told: str) -> None:
    found = [f"{'|'.join(sorted(it.values))} {it.unit}".strip() for it in find_numbers(text)]
    assert sorted(found) == sorted(filter(None, told.split(", ")))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("One thing. Two! Three?\n\nFour", ["One thing.", "Two!", "Three?", "Four"]),
        (
            "Vom 15. Januar bis 3. Mai. Danach nicht.",
            ["Vom 15. Januar bis 3. Mai.", "Danach nicht."],
        ),
        ("1. Open it. 2. Close it.", ["1. Open it.", "2. Close it."]),
        ("It takes approx. two days, 3.5 at most.", ["It takes approx. two days, 3.5 at most."]),
        ("病假需要证明。请打电话！", ["病假需要证明。", "请打电话！"]),
        (" \n ... ", ["..."]),
        ("", []),
    ],
)
def test_sentences(text: str, told: list[str]) -> None:
    assert [text[start:end] for start, end in find_sentences(text)] == told
