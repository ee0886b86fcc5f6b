"""Checks of what an agent did in a turn: one row a kind, by the name that cases give it."""

from orchestrator.agent.evaluation.checks import (
    answers,
    calls,
    code,
    measures,
    rubrics,
    values,
)
from orchestrator.agent.evaluation.checks.base import Check, Judge, Judging, Outcome, Verdict

__all__ = ["CHECKS", "Check", "Judge", "Judging", "Outcome", "Verdict"]

_TEXTS = "a text or a list of texts"
_CALLS = 'a list of calls, such as [{"name": "get_days"}]'

CHECKS: dict[str, Check] = {
    "calls": Check(calls.read_calls, calls.judge_calls, _CALLS),
    "calls_in_order": Check(calls.read_calls, calls.judge_order, _CALLS),
    "never_calls": Check(calls.read_calls, calls.judge_never, _CALLS),
    "no_calls": Check(values.read_true, calls.judge_no_calls, "true"),
    "no_side_effects": Check(values.read_true, calls.judge_side_effects, "true"),
    "max_calls": Check(values.read_count, measures.judge_call_count, "a number"),
    "contains": Check(values.read_groups, answers.judge_contains, f"{_TEXTS}, or of such lists"),
    "lacks": Check(values.read_texts, answers.judge_lacks, _TEXTS),
    "equals": Check(values.read_texts, answers.judge_equals, _TEXTS),
    "regex": Check(values.read_patterns, answers.judge_regex, _TEXTS),
    "json": Check(answers.read_schema, answers.judge_json, "a JSON Schema"),
    "answered": Check(values.read_flag, answers.judge_answered, "true or false"),
    "asks_user": Check(values.read_flag, answers.judge_asks_user, "true or false"),
    "refuses": Check(values.read_flag, answers.judge_refuses, "true or false"),
    "grounded": Check(values.read_true, answers.judge_grounded, "true"),
    "citations": Check(answers.read_citations, answers.judge_citations, f"a number, or {_TEXTS}"),
    "stop_reason": Check(values.read_texts, measures.judge_stop_reason, _TEXTS),
    "returns_control": Check(
        calls.read_returned_control, calls.judge_returned_control, f"true, false or {_CALLS}"
    ),
    "max_seconds": Check(values.read_number, measures.judge_seconds, "a number"),
    "max_tokens": Check(values.read_count, measures.judge_tokens, "a number"),
    "max_steps": Check(values.read_count, measures.judge_steps, "a number"),
    "max_cost": Check(values.read_number, measures.judge_cost, "a number of dollars"),
    "python": Check(code.read_functions, code.judge_functions, "file.py:function"),
    "judge": Check(values.read_texts, rubrics.judge_rubrics, "a rubric, or a list of them"),
}
