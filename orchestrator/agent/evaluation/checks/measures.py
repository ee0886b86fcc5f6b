"""Checks of how a turn went: its end, its time, tokens, steps and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from orchestrator.agent.evaluation.checks.base import Judging, Outcome, Verdict
from orchestrator.errors import ValidationError


def judge_stop_reason(wanted: Sequence[str], judging: Judging) -> Iterator[Verdict]:
    """The turn ended for one of these reasons."""
    actual = judging.outcome.stop_reason
    yield Verdict(actual in wanted, " or ".join(wanted), actual or "failed")


def at_most(
    measure: Callable[[Outcome], float | None], unit: str
) -> Callable[[Any, Judging], Iterator[Verdict]]:
    """A check that a measure of the turn is not above a number."""

    def judge(most: float, judging: Judging) -> Iterator[Verdict]:
        value = measure(judging.outcome)
        if value is None:
            raise ValidationError(
                "no price of the model is known; give --price MODEL=INPUT,OUTPUT in dollars for a "
                "million tokens"
            )
        shown = f"{value:.3f}".rstrip("0").rstrip(".") if unit == "s" else f"{value:,.6g}"
        yield Verdict(value <= most, f"at most {most:g} {unit}", f"{shown} {unit}")

    return judge


judge_seconds = at_most(lambda outcome: outcome.seconds, "s")
judge_tokens = at_most(lambda outcome: outcome.usage.total_tokens, "tokens")
judge_steps = at_most(lambda outcome: outcome.usage.calls, "model calls")
judge_cost = at_most(lambda outcome: outcome.cost, "$")
judge_call_count = at_most(lambda outcome: len(outcome.calls), "calls")
