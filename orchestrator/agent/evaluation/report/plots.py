"""Geometry of the plots: from figures to the places of marks, in the units of their drawings."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchestrator.agent.evaluation.results import CaseResult
from orchestrator.agent.evaluation.statistics import median
from orchestrator.agent.evaluation.summary import Figures

WIDTH = 720
LEFT, RIGHT = 200, 92  # of names, and of the numbers at the end
TOP, ROW = 26, 34
MOST_POINTS = 2_000  # of a strip
_PLOT = WIDTH - LEFT - RIGHT
_NAME = 21  # characters of a name that fit


@dataclass(frozen=True)
class Tick:
    """A line of a scale."""

    x: float
    label: str


@dataclass(frozen=True)
class RateRow:
    """A pass rate with its interval."""

    name: str
    full_name: str
    y: float
    x: float
    low: float
    high: float
    label: str


@dataclass(frozen=True)
class RatePlot:
    """Pass rates, one below the other."""

    rows: list[RateRow]
    ticks: list[Tick]
    height: float


@dataclass(frozen=True)
class StripRow:
    """The values of a variant, each a point, and their median."""

    name: str
    full_name: str
    y: float
    points: list[tuple[float, float, str]]  # x, y and status
    median_x: float
    label: str


@dataclass(frozen=True)
class StripPlot:
    """Values of each variant on one scale."""

    title: str
    rows: list[StripRow]
    ticks: list[Tick]
    height: float
    table: list[tuple[str, str, str, str, str]]  # variant, least, median, 95th percentile, most


def cut_name(name: str) -> str:
    """A name as far as there is room; its end says more than its middle."""
    half = (_NAME - 1) // 2
    return name if len(name) <= _NAME else f"{name[:half]}…{name[-half:]}"


def plot_rates(figures: Sequence[Figures]) -> RatePlot:
    """Pass rates with their intervals."""
    rows = [
        RateRow(
            name=cut_name(one.name),
            full_name=one.name,
            y=TOP + ROW * (index + 0.5),
            x=_place(one.rate),
            low=_place(one.interval.low),
            high=_place(one.interval.high),
            label=f"{100 * one.rate:.0f} %",
        )
        for index, one in enumerate(figures)
    ]
    ticks = [Tick(_place(share / 4), f"{25 * share} %") for share in range(5)]
    return RatePlot(rows, ticks, TOP + ROW * len(rows) + 6)


def _place(share: float) -> float:
    return round(LEFT + _PLOT * share, 1)


def plot_strips(
    title: str,
    named: Sequence[tuple[str, Sequence[CaseResult]]],
    measure: Callable[[CaseResult], float | None],
    show: Callable[[float], str],
) -> StripPlot | None:
    """A measure of every result; `None` where no result has it."""
    measured = [
        (name, [(value, one) for one in results if (value := measure(one)) is not None])
        for name, results in named
    ]
    values = [value for _, some in measured for value, _ in some]
    if not values or not max(values):
        return None
    most, ticks = _build_scale(max(values), show)
    rows, table = [], []
    for index, (name, some) in enumerate(measured):
        if some:
            rows.append(_build_strip(name, some, index, most, show))
            table.append(_describe_values(name, [value for value, _ in some], show))
    return StripPlot(title, rows, ticks, TOP + ROW * len(measured) + 6, table)


def _build_strip(
    name: str,
    some: Sequence[tuple[float, CaseResult]],
    index: int,
    most: float,
    show: Callable[[float], str],
) -> StripRow:
    y = TOP + ROW * (index + 0.5)
    middle = median([value for value, _ in some])
    step = max(1, math.ceil(len(some) / MOST_POINTS))
    points: list[tuple[float, float, str]] = [
        (_place(value / most), round(y + _scatter(one.case, one.repetition), 1), one.status)
        for value, one in some[::step]
    ]
    return StripRow(cut_name(name), name, y, points, _place(middle / most), show(middle))


def _scatter(case: str, repetition: int) -> float:
    """Where a point lies in its row: somewhere, and always there."""
    chance = zlib.crc32(f"{case} {repetition}".encode("utf-8", "replace")) % 1000 / 1000
    return (chance - 0.5) * ROW * 0.5


def _describe_values(
    name: str, values: Sequence[float], show: Callable[[float], str]
) -> tuple[str, str, str, str, str]:
    ordered = sorted(values)
    late = ordered[min(len(ordered) - 1, math.ceil(0.95 * len(ordered)) - 1)]
    return name, *map(show, (ordered[0], median(ordered), late, ordered[-1]))  # type: ignore[return-value]


def _build_scale(most: float, show: Callable[[float], str]) -> tuple[float, list[Tick]]:
    """A scale from 0 to a round number, in four to eight steps."""
    power = 10 ** math.floor(math.log10(most))
    step = next(power * one for one in (0.2, 0.5, 1, 2, 5) if most / (power * one) <= 6)
    count = math.ceil(most / step - 1e-9)
    return step * count, [Tick(_place(one / count), show(step * one)) for one in range(count + 1)]


@dataclass(frozen=True)
class Segment:
    """A part of a bar."""

    kind: str
    label: str
    count: int
    x: float
    width: float


def plot_flips(counts: Sequence[tuple[str, str, int]]) -> list[Segment]:
    """The parts of a bar for kinds of cases: kind, label and count of each."""
    total = sum(count for _, _, count in counts) or 1
    segments, x = [], 0.0
    for kind, label, count in counts:
        width = WIDTH * count / total
        segments.append(Segment(kind, label, count, round(x, 1), round(max(width - 1, 0), 1)))
        x += width
    return segments
