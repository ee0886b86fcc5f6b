"""Regular expressions of a guardrail: linear, with names as masks, wrong ones refused at load."""

from __future__ import annotations

import pytest

from orchestrator.errors import DefinitionError
from orchestrator.guardrails import LocalGuardrail, Regex
from orchestrator.support.regexes import MOST_MATCHES, MOST_STEPS, compile_regex


def test_a_match_is_masked_with_the_expressions_name():
    guardrail = LocalGuardrail(regexes=[Regex("booking", r"\bBK-\d{4}\b", "ANONYMIZE", "BLOCK")])
    verdict = guardrail.check("BK-1234, BK-12345 and BK-1234", "INPUT")
    assert verdict.text == "{booking}, BK-12345 and {booking}"
    regex = {"name": "booking", "regex": r"\bBK-\d{4}\b", "match": "BK-1234"}
    expected = [{"sensitiveInformationPolicy": {"regexes": [{**regex, "action": "ANONYMIZED"}]}}]
    assert verdict.assessments == expected
    assert guardrail.check("BK-1234", "OUTPUT").blocked


@pytest.mark.parametrize("text", ["ＢＫ－１２３４", "BK-\u200b12\u200d34", "BK-١٢٣٤"])
def test_tricks_of_unicode_hide_nothing(text):
    guardrail = LocalGuardrail(regexes=[Regex("booking", r"BK-\d{4}", "ANONYMIZE")])
    assert guardrail.check(f"<{text}>", "INPUT").text == "<{booking}>"


def test_a_letter_with_its_mark_beside_it_is_that_letter():
    guardrail = LocalGuardrail(regexes=[Regex("cafe", "café", "ANONYMIZE")])
    assert guardrail.check("a cafe\u0301.", "INPUT").text == "a {cafe}."
    assert guardrail.check("a cafe.", "INPUT").action == "NONE"


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [("(a", "missing )"), ("(?=a)b", "(?="), (r"(a)\1", "1"), ("a{2000}", "repetition"),
     ("a" * 2_001, "2,000 characters"),
     ("\ud800", "surrogate")],
)  # fmt: skip
def test_a_wrong_expression_is_refused_at_load(pattern, reason, capfd):
    with pytest.raises(DefinitionError) as caught:
        LocalGuardrail(regexes=[Regex("r", pattern)])
    assert reason in str(caught.value)
    assert capfd.readouterr().err == ""


def test_patterns_that_stop_other_engines_do_not_stop_this_one():
    guardrail = LocalGuardrail(regexes=[Regex("r", r"(a+)+$"), Regex("s", r"(x|x)*y")])
    assert guardrail.check("a" * 50_000 + "!" + "x" * 50_000, "INPUT").action == "NONE"


def test_empty_matches_are_none():
    guardrail = LocalGuardrail(regexes=[Regex("r", "x*")])
    assert guardrail.check("abc", "INPUT").action == "NONE"


def test_what_cannot_be_looked_into_does_not_pass():
    text = "x " * (MOST_MATCHES + 5)
    spans = list(compile_regex("x").find(text))
    assert len(spans) == MOST_MATCHES + 1
    assert spans[-1] == (2 * MOST_MATCHES, len(text))


def test_halves_of_surrogate_pairs_are_no_failure():
    guardrail = LocalGuardrail(regexes=[Regex("r", "b", "ANONYMIZE")])
    assert guardrail.check("a\ud800b", "INPUT").text == "a\ud800{r}"


def test_a_text_that_an_expression_could_take_hours_for_does_not_pass():
    slow = compile_regex("(a?){1000}b")
    text = "a" * (MOST_STEPS // slow.size + 1)
    assert list(slow.find(text)) == [(0, len(text))]
    assert list(slow.find("aab")) == [(0, 3)]
