"""Three processes that are killed at named points lose, cross and silently repeat no turn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from kills import Turn, compare, run
from postgres_server import find_programs

TURNS, SEED = 60, 3


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "dynamodb"])
@pytest.mark.exhaustive
def test_killed_processes_lose_cross_and_silently_repeat_no_turn(
    tmp_path: Path, kind: str, aws: object
) -> None:
    if kind == "postgres" and isinstance(programs := find_programs(), str):
        pytest.skip(programs)
    report = run(tmp_path, TURNS, SEED, kind)
    assert (report.lost, report.crossed, report.repeated) == ([], [], [])
    assert (report.turns, report.answered + report.unknown) == (TURNS, TURNS)
    assert report.deaths >= TURNS // 10
    assert report.answered > report.unknown


SAID = [Turn("s-0-0", "answer", "s-0-0"), Turn("s-0-1", "answer", "s-0-0 s-0-1")]
JOURNAL = [[f"Pay for [{it.token}].", it.text, "end_turn"] for it in SAID]
EFFECTS = ["a s-0-0", "b s-0-1"]


@pytest.mark.parametrize(
    ("journal", "effects", "found"),
    [
        (JOURNAL, EFFECTS, ""),
        (JOURNAL[:1], EFFECTS, "lost"),
        (JOURNAL[::-1], EFFECTS, "lost"),
        (JOURNAL, EFFECTS[:1], "lost"),
        ([*JOURNAL, JOURNAL[1]], EFFECTS, "repeated"),
        (JOURNAL, [*EFFECTS, "c s-0-1"], "repeated"),
        (JOURNAL, ["a s-0-0", "a s-0-1"], "repeated"),
        ([*JOURNAL, ["Pay for [s-1-0].", "", "end_turn"]], EFFECTS, "crossed"),
    ],
)
def test_the_comparison_finds_what_went_wrong(
    journal: list[list[str]], effects: list[str], found: str
) -> None:
    report = compare({"s-0": SAID}, {"s-0": journal}, effects, Counter())
    wrong = {name for name in ("lost", "crossed", "repeated") if getattr(report, name)}
    assert (found in wrong) if found else not wrong
