"""COVERAGE.md says what the code says."""

from __future__ import annotations

import re

import botocore
import coverage_page


def without_version(page: str) -> str:
    return re.sub(r"botocore [\d.]+", "botocore", page)


def test_the_page_is_not_out_of_date() -> None:
    found = coverage_page.PAGE.read_text(encoding="utf-8")
    made = coverage_page.build()
    if f"botocore {botocore.__version__}" in found:
        assert found == made, "run `python tests/coverage_page.py`"
    # A newer botocore knows more members; what the page says must hold all the same.
    lines = set(without_version(made).splitlines())
    old = [line for line in without_version(found).splitlines() if line not in lines]
    assert old == [], "run `python tests/coverage_page.py`"


def test_states_are_found_out_and_not_only_told() -> None:
    rows = {row[0]: row[1] for row in coverage_page.definition(coverage_page.runs)}
    assert rows["`guardrailConfiguration`"] == "refused"
    assert rows["`instruction`"] == "works"
    assert rows["`tags`"] == "kept, not used"
    assert coverage_page.stage_state("ROUTING_CLASSIFIER") == "not yet"
    assert coverage_page.stage_state("ORCHESTRATION") == "works"
