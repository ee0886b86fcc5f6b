"""Two runs of the same cases: which cases changed, and whether that is more than chance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.agent.evaluation.results import CaseResult
from orchestrator.agent.evaluation.run_file import Run
from orchestrator.agent.evaluation.statistics import (
    DRAWS,
    FEWEST_CHANGES,
    SEED,
    Interval,
    bootstrap_difference,
    exact_mcnemar,
)
from orchestrator.errors import ValidationError

_LEVEL = 0.05  # of all comparisons together
Outcome = Literal["regression", "improvement", "no difference shown"]


@dataclass(frozen=True)
class Change:
    """A case whose pass rate changed."""

    case: str
    before: float
    after: float


@dataclass(frozen=True)
class Comparison:
    """A variant beside one of an earlier run.

    Attributes:
        variant: The variant's name.
        baseline: The name of the one before.
        common: How many cases both have a verdict on.
        before: The mean pass rate of the common cases then.
        after: The same now.
        lost: Cases that pass less often than before, the worst first.
        gained: Cases that pass more often.
        left_out: Cases that only one run has, or that ended in an error.
        changed: Cases that ask or expect something else than before; they are not compared.
        repeated: Whether a case was held more than once in one of them.
        p: Of the exact McNemar test; `None` with repetitions.
        interval: Of the difference, by the bootstrap; `None` without repetitions.
        comparisons: How many comparisons were made together.
    """

    variant: str
    baseline: str
    common: int
    before: float
    after: float
    lost: list[Change]
    gained: list[Change]
    left_out: list[str]
    changed: list[str]
    repeated: bool
    p: float | None
    interval: Interval | None
    comparisons: int

    @property
    def outcome(self) -> Outcome:
        """What it shows; chance is let pass as a difference in 5 % of runs at most."""
        if len(self.lost) + len(self.gained) < FEWEST_CHANGES:
            return "no difference shown"
        if self.interval is not None:
            worse, better = self.interval.high < 0, self.interval.low > 0
        else:
            shown = self.p is not None and self.p < _LEVEL / self.comparisons
            worse = shown and len(self.lost) > len(self.gained)
            better = shown and len(self.lost) < len(self.gained)
        return "regression" if worse else "improvement" if better else "no difference shown"

    @property
    def method(self) -> str:
        """What was done, in a sentence."""
        share = f"{_LEVEL / self.comparisons:.3g}"
        made = f"{self.comparisons} comparison{'s' if self.comparisons > 1 else ''}"
        if self.interval is not None:
            low, high = (f"{100 * one:+.1f}" for one in self.interval)
            return (
                f"cluster bootstrap over {self.common} common cases ({DRAWS:,} draws, "
                f"seed {SEED}): {low} to {high} points at level {share} ({made})"
            )
        return (
            f"exact McNemar test on {self.common} common cases: {len(self.gained)} gained, "
            f"{len(self.lost)} lost, p = {self.p:.3g}, level {share} ({made})"
        )


def compare_runs(run: Run, baseline: Run) -> list[Comparison]:
    """Each variant beside the baseline's of the same name, or beside its only one.

    Raises:
        ValidationError: No variant has one to be compared with.
    """
    only = baseline.variants[0] if len(baseline.variants) == 1 else None
    pairs = [(name, name if name in baseline.variants else only) for name in run.variants]
    found = [(name, other) for name, other in pairs if other is not None]
    if not found:
        raise ValidationError(
            f"no variant of the run ({', '.join(run.variants)}) is in the baseline "
            f"({', '.join(baseline.variants)})"
        )
    return compare_results(
        [(name, run.of(name), other, baseline.of(other)) for name, other in found]
    )


def compare_variants(run: Run) -> list[Comparison]:
    """The other variants of a run beside its first one."""
    first, *others = run.variants
    return compare_results([(name, run.of(name), first, run.of(first)) for name in others])


def compare_results(
    pairs: Sequence[tuple[str, list[CaseResult], str, list[CaseResult]]],
) -> list[Comparison]:
    """Comparisons that are made together: a variant and its results, a baseline and its own."""
    return [
        _compare(name, after, other, before, len(pairs)) for name, after, other, before in pairs
    ]


def _compare(
    variant: str, after: list[CaseResult], baseline: str, before: list[CaseResult], made: int
) -> Comparison:
    now, then = _rate_cases(after), _rate_cases(before)
    changed = _list_changed(before, after)
    common = [case for case in then if case in now and case not in changed]
    named = dict.fromkeys(result.case for result in (*before, *after))
    changes = [Change(case, then[case], now[case]) for case in common if then[case] != now[case]]
    lost = sorted(
        (it for it in changes if it.after < it.before), key=lambda it: it.after - it.before
    )
    gained = [it for it in changes if it.after > it.before]
    repeated = max((*_count(after), *_count(before)), default=0) > 1
    differences = [now[case] - then[case] for case in common]
    bootstrapped = repeated and bool(common)
    return Comparison(
        variant=variant,
        baseline=baseline,
        common=len(common),
        before=_mean(then[case] for case in common),
        after=_mean(now[case] for case in common),
        lost=lost,
        gained=gained,
        left_out=[
            case for case in named if case not in changed and (case not in now or case not in then)
        ],
        changed=list(changed),
        repeated=repeated,
        p=None if bootstrapped else exact_mcnemar(len(gained), len(lost)),
        interval=bootstrap_difference(differences, 1 - _LEVEL / made) if bootstrapped else None,
        comparisons=made,
    )


def _rate_cases(results: Iterable[CaseResult]) -> dict[str, float]:
    """The pass rate of each case; an error is no verdict."""
    verdicts: dict[str, list[bool]] = {}
    for result in results:
        if result.status != "error":
            verdicts.setdefault(result.case, []).append(result.status == "passed")
    return {case: sum(some) / len(some) for case, some in verdicts.items()}


def _list_changed(before: Iterable[CaseResult], after: Iterable[CaseResult]) -> dict[str, None]:
    """The cases of both that are no longer the same, though they have one id."""
    digests = {result.case: result.digest for result in before}
    return {
        result.case: None
        for result in after
        if digests.get(result.case, result.digest) != result.digest
    }


def _count(results: Iterable[CaseResult]) -> list[int]:
    counts: dict[str, int] = {}
    for result in results:
        counts[result.case] = counts.get(result.case, 0) + 1
    return list(counts.values())


def _mean(values: Iterable[float]) -> float:
    some = list(values)
    return sum(some) / len(some) if some else 0.0
