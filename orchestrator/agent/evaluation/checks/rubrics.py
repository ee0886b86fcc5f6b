"""The check that a model makes, by a rubric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrator.agent.evaluation.checks.base import Judging, Verdict
from orchestrator.errors import ValidationError


def judge_rubrics(rubrics: Sequence[str], judging: Judging) -> Iterator[Verdict]:
    """The model that judges says of each rubric whether the answer meets it."""
    if judging.judge is None:
        raise ValidationError("the check 'judge' needs a model; give --judge SPEC")
    for rubric in rubrics:
        yield judging.judge.grade(rubric, judging.outcome)
