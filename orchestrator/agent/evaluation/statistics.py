"""Statistics of pass rates: intervals, and whether two runs differ by more than chance."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

SEED = 20_26
DRAWS = 2_000
# Below so many changed cases nothing can be shown: all six the same way have p = 0.03, five 0.06.
FEWEST_CHANGES = 6
_Z = 1.959963984540054  # of 95 %


class Interval(NamedTuple):
    """A range that holds the true value, as far as one can say."""

    low: float
    high: float


def wilson_interval(passed: int, of: int) -> Interval:
    """The 95 % interval of a pass rate (Wilson 1927); all of it when nothing was tried."""
    if not of:
        return Interval(0.0, 1.0)
    rate, square = passed / of, _Z**2
    middle = (rate + square / (2 * of)) / (1 + square / of)
    reach = _Z / (1 + square / of) * math.sqrt(rate * (1 - rate) / of + square / (4 * of**2))
    return Interval(max(middle - reach, 0.0), min(middle + reach, 1.0))


def exact_mcnemar(gained: int, lost: int) -> float:
    """How likely as uneven a split of the changed cases is by chance (two-sided, McNemar 1947)."""
    changed = gained + lost
    if not changed:
        return 1.0
    fewer = min(gained, lost)
    tail = sum(math.comb(changed, number) for number in range(fewer + 1))
    return min(1.0, float(2 * tail / 2**changed))


def bootstrap_difference(
    differences: Sequence[float], level: float = 0.95, draws: int = DRAWS, seed: int = SEED
) -> Interval:
    """The interval of a mean difference, by drawing whole cases again (percentiles).

    Args:
        differences: One a case: its pass rate in the second run less that in the first. Cases are
            drawn and not repetitions, which are no evidence of their own.
        level: How sure the interval is.
        draws: How many samples are drawn.
        seed: Of the draws; the same one gives the same interval.
    """
    count, chance = len(differences), random.Random(seed)
    means = sorted(sum(chance.choices(differences, k=count)) / count for _ in range(draws))
    cut = int(draws * (1 - level) / 2)
    return Interval(means[cut], means[draws - 1 - cut])


def median(values: Sequence[float]) -> float:
    """The value in the middle; 0 of none."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
