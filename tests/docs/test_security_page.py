"""docs/security.md names every test of an attack, and no test that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+) \| .* \| (.*) \|$", re.MULTILINE)
ROWS = {int(number): set(re.findall(r"`([^`]+)`", tests)) for number, tests in ROW.findall(PAGE)}


def test_each_row_of_attacks_has_its_tests() -> None:
    assert list(ROWS) == list(range(1, 21))
    of_files: dict[int, set[str]] = {}
    for file in (ROOT / "tests" / "attacks").glob("test_*.py"):
        of_files.setdefault(int(file.stem[5:7]), set()).add(file.stem)
    for number, tests in ROWS.items():
        assert tests, f"row {number} names no test"
        here = {test for test in tests if "/" not in test}
        assert here == of_files.get(number, set()), f"row {number}"


def test_tests_in_other_folders_exist() -> None:
    named = {test for tests in ROWS.values() for test in tests if "/" in test}
    assert named
    for test in named:
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), test
