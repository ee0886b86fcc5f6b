"""The figures of a run: of each variant, and of each tag in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.agent.evaluation.results import CaseResult
from orchestrator.agent.evaluation.run_file import Run
from orchestrator.agent.evaluation.statistics import Interval, median, wilson_interval


@dataclass(frozen=True)
class Figures:
    """The figures of some results.

    Attributes:
        name: A variant, or a tag.
        of: How many there are.
        passed: How many passed.
        failed: How many failed.
        errors: How many could not be judged; they count as not passed.
        interval: Of the pass rate; each case counts once, however often it was held.
        cases: How many cases there are.
        all_passed: How many of them passed each time.
        turns: How many turns there are.
        turns_passed: How many of them passed.
        failed_checks: How often each kind of check failed.
        median_seconds: Of a case.
        tokens: All together.
        cost: All together, in dollars; `None` where it is not known of each.
    """

    name: str
    of: int
    passed: int
    failed: int
    errors: int
    interval: Interval
    cases: int
    all_passed: int
    turns: int
    turns_passed: int
    failed_checks: dict[str, int]
    median_seconds: float
    tokens: int
    cost: float | None

    @property
    def rate(self) -> float:
        """The share that passed."""
        return self.passed / self.of if self.of else 0.0

    def as_dict(self) -> dict[str, Any]:
        """They as JSON members."""
        return {**asdict(self), "rate": self.rate, "interval": list(self.interval)}


def sum_results(name: str, results: Sequence[CaseResult]) -> Figures:
    """The figures of some results."""
    by_case: dict[str, list[bool]] = {}
    for result in results:
        by_case.setdefault(result.case, []).append(result.status == "passed")
    turns = [turn for result in results for turn in result.turns]
    checks: dict[str, int] = {}
    for result in results:
        for _, check in result.failures():
            if not check.error:
                checks[check.check] = checks.get(check.check, 0) + 1
    costs = [result.cost for result in results]
    known = [cost for cost in costs if cost is not None]
    # Repetitions of a case say little more than one: the interval is that of the cases.
    rate = sum(sum(some) / len(some) for some in by_case.values())
    return Figures(
        name=name,
        of=len(results),
        passed=sum(result.status == "passed" for result in results),
        failed=sum(result.status == "failed" for result in results),
        errors=sum(result.status == "error" for result in results),
        interval=wilson_interval(round(rate), len(by_case)),
        cases=len(by_case),
        all_passed=sum(all(some) for some in by_case.values()),
        turns=len(turns),
        turns_passed=sum(turn.status == "passed" for turn in turns),
        failed_checks=dict(sorted(checks.items(), key=lambda it: -it[1])),
        median_seconds=round(median([result.seconds for result in results]), 3),
        tokens=sum(result.tokens for result in results),
        cost=sum(known) if known and len(known) == len(costs) else None,
    )


def sum_variants(run: Run) -> list[Figures]:
    """The figures of each variant."""
    return [sum_results(name, run.of(name)) for name in run.variants]


def find_shortfalls(figures: Sequence[Figures], share: float | None = None) -> list[str]:
    """The variants of which less than a share passed, each in a sentence; without one: not all."""
    least = "" if share is None else f", less than {share:g}"
    wanted = 1.0 if share is None else share
    return [
        f"{one.name} passed {one.passed} of {one.of}{least}" for one in figures if one.rate < wanted
    ]


def sum_tags(run: Run, variant: str) -> Iterator[Figures]:
    """The figures of each tag of a variant, in the order in which tags come first."""
    results = run.of(variant)
    for tag in dict.fromkeys(tag for result in results for tag in result.tags):
        yield sum_results(tag, [result for result in results if tag in result.tags])
