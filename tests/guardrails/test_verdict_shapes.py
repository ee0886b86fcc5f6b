"""Assessments and traces have the members of Bedrock's own models and recordings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from botocore_shapes import problems

from orchestrator.guardrails import (
    Guardrail,
    LocalGuardrail,
    Pii,
    Regex,
    Topic,
    Verdict,
    guardrail_trace,
)

GOLDEN = Path(__file__).resolve().parents[2] / "../shared/golden/guardrail_intervention.json"
EVERYTHING = LocalGuardrail(
    "everything",
    topics=[Topic("Stocks")],
    words=["darn"],
    profanity=["drat"],
    pii=[Pii("EMAIL"), Pii("URL", "ANONYMIZE", "ANONYMIZE")],
    regexes=[Regex("booking", r"BK-\d+", "ANONYMIZE", "ANONYMIZE")],
)
TEXT = "darn stocks drat a@b.com BK-12 www.example.com"


@pytest.mark.parametrize("source", ["INPUT", "OUTPUT"])
def test_every_policy_has_bedrocks_shape(source):
    verdict = EVERYTHING.check(TEXT, source)
    trace = guardrail_trace(verdict, source, "r-guardrail-pre-0")
    assert problems(trace, "GuardrailTrace") == []
    member = "inputAssessments" if source == "INPUT" else "outputAssessments"
    (assessment,) = trace[member]
    assert assessment.keys() == {"topicPolicy", "wordPolicy", "sensitiveInformationPolicy"}
    lists = [items for policy in assessment.values() for items in policy.values()]
    assert [len(items) for items in lists] == [1, 1, 1, 2, 1]


def test_a_verdict_without_findings_is_reported_as_none():
    trace = guardrail_trace(EVERYTHING.check("Hello", "OUTPUT"), "OUTPUT", "r-guardrail-post-0")
    assert trace == {"action": "NONE", "traceId": "r-guardrail-post-0"}
    assert problems(trace, "GuardrailTrace") == []


def test_the_trace_is_the_recorded_one():
    if not GOLDEN.exists():
        pytest.skip("the recordings are not here")
    events = json.loads(GOLDEN.read_text())["events"]
    recorded = events[0]["payload"]["trace"]["guardrailTrace"]
    verdict = Verdict("INTERVENED", "no", True, recorded["inputAssessments"])
    trace = guardrail_trace(verdict, "INPUT", recorded["traceId"])
    assert trace == {name: value for name, value in recorded.items() if name != "metadata"}


def test_a_local_guardrail_is_a_guardrail():
    assert isinstance(EVERYTHING, Guardrail)
    assert EVERYTHING.id == "everything"
