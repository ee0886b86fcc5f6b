"""COVERAGE.md says what the code says."""

from __future__ import annotations

import re

import botocore
import coverage_definition
import coverage_page
import pytest


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
    assert rows["`guardrailConfiguration.guardrailIdentifier`"] == "works"
    assert rows["`actionGroups[].parentActionGroupSignature: ANTHROPIC.Bash`"] == "refused"
    assert rows["`tags`"] == "kept, not used"
    path = "`promptOverrideConfiguration.promptConfigurations[].promptType: PRE_PROCESSING`"
    nothing_runs = dict(row[:2] for row in coverage_page.definition(lambda stage: False))
    assert (rows[path], nothing_runs[path]) == ("works", "kept, not used")
    assert coverage_page.stage_state("ROUTING_CLASSIFIER") == "works"
    assert {state for _, state in coverage_page.trace_members()} >= {"works", "never made"}


def test_every_construct_of_both_languages_works() -> None:
    rows = [*coverage_page.pl.language(), *coverage_page.ppe.language()]
    assert [row for row in rows if row[1] != "works"] == []


def test_traces_have_a_programs_error_and_its_timeout() -> None:
    rows = dict(coverage_page.trace_members())
    program = "trace.orchestrationTrace.observation.codeInterpreterInvocationOutput"
    assert {rows[f"`{program}.{name}`"] for name in ("executionError", "executionTimeout")} == {
        "works"
    }


def test_operations_of_the_server_are_not_said_to_be_missing() -> None:
    states = {name: row[2] for row in coverage_page.in_python() for name in row[0].split(", ")}
    assert (states["`InvokeFlow`"], states["`GetDocumentContent`"]) == ("server only", "not yet")


def test_a_member_that_changes_nothing_is_not_said_to_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ignored = {**coverage_definition._probes(), "limits": ({}, lambda plan: False)}
    monkeypatch.setattr(coverage_definition, "_probes", lambda: ignored)
    with pytest.raises(AssertionError, match="limits changes nothing"):
        coverage_definition.probed("limits", coverage_page.runs)
