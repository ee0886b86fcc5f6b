"""The page: what a run shows, brought into the order in which it is read."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.agent.evaluation.compare import Comparison
from orchestrator.agent.evaluation.report import plots
from orchestrator.agent.evaluation.results import CaseResult
from orchestrator.agent.evaluation.run_file import Run
from orchestrator.agent.evaluation.summary import sum_tags, sum_variants
from orchestrator.agent.evaluation.trace_reading import show_call

FOLDER = Path(__file__).parent
SIGNS = {"passed": "✓", "failed": "✗", "error": "!"}
MOST_DETAILS = 500  # cases that did not pass, with all of their steps
MOST_COLUMNS = 40  # of the table of cases


@dataclass(frozen=True)
class Cell:
    """A result in the table of cases."""

    status: str
    sign: str
    anchor: str  # of its details; empty for one that passed


@dataclass(frozen=True)
class CaseRow:
    """A case in the table of cases."""

    case: str
    tags: Sequence[str]
    cells: list[Cell | None]
    change: str  # `lost` or `gained`


@dataclass(frozen=True)
class Detail:
    """A result that did not pass."""

    anchor: str
    result: CaseResult
    change: str


def build_report(
    run: Run, comparisons: Sequence[Comparison] = (), faults: Sequence[str] = ()
) -> str:
    """The page, in HTML.

    Args:
        run: The run.
        comparisons: What it is compared with.
        faults: Why it is not good enough.
    """
    style = (FOLDER / "report.css").read_text(encoding="utf-8")
    context = {
        "style": style,
        "digest": base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        "faults": faults,
    }
    return str(_load_template().render(context | build_context(run, comparisons)))


def build_context(run: Run, comparisons: Sequence[Comparison] = ()) -> dict[str, Any]:
    """What the templates in `FOLDER` show of a run."""
    named = [(name, run.of(name)) for name in run.variants]
    figures = sum_variants(run)
    changes = _list_changes(comparisons)
    details = _list_details(run, changes)
    columns = [(name, number) for name in run.variants for number in _repetitions(run)]
    return {
        "run": run,
        "figures": figures,
        "rates": plots.plot_rates(figures),
        "tags": [
            (name, tags, plots.plot_rates(tags))
            for name in run.variants
            if (tags := list(sum_tags(run, name)))
        ],
        "strips": [plot for plot in _plot_measures(named) if plot is not None],
        "comparisons": [(one, _plot_comparison(one)) for one in comparisons],
        "columns": columns[:MOST_COLUMNS],
        "more_columns": len(columns) - MOST_COLUMNS,
        "rows": _build_rows(run, columns[:MOST_COLUMNS], changes, details),
        "details": details[:MOST_DETAILS],
        "more_details": len(details) - MOST_DETAILS,
        "signs": SIGNS,
        "show_call": show_call,
        "left": plots.LEFT,
        "width": plots.WIDTH,
        "top": plots.TOP,
    }


@cache
def _load_template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html")


def _repetitions(run: Run) -> range:
    return range(1, run.head["repeat"] + 1)


def _plot_measures(
    named: Sequence[tuple[str, Sequence[CaseResult]]],
) -> list[plots.StripPlot | None]:
    return [
        plots.plot_strips("Seconds a case", named, lambda it: it.seconds, lambda it: f"{it:.3g} s"),
        plots.plot_strips("Tokens a case", named, lambda it: it.tokens, lambda it: f"{it:,.0f}"),
        plots.plot_strips("Cost a case", named, lambda it: it.cost, lambda it: f"${it:.3g}"),
    ]


# -- comparisons ---------------------------------------------------------------------------------


def _list_changes(comparisons: Sequence[Comparison]) -> dict[tuple[str, str], str]:
    """What became of a case of a variant: `lost` or `gained`."""
    return {
        (one.variant, change.case): kind
        for one in comparisons
        for kind, some in (("lost", one.lost), ("gained", one.gained))
        for change in some
    }


def _plot_comparison(one: Comparison) -> list[plots.Segment]:
    unchanged = one.common - len(one.lost) - len(one.gained)
    counts = [
        ("lost", "pass less often", len(one.lost)),
        ("same", "as before", unchanged),
        ("gained", "pass more often", len(one.gained)),
    ]
    return plots.plot_flips([it for it in counts if it[2]])


# -- cases ---------------------------------------------------------------------------------------


def _rank(change: str, statuses: Sequence[str]) -> tuple[bool, bool, bool, bool]:
    """Regressions first, then failures, errors, and what was gained."""
    return (
        change != "lost",
        "failed" not in statuses,
        "error" not in statuses,
        change != "gained",
    )


def _list_details(run: Run, changes: dict[tuple[str, str], str]) -> list[Detail]:
    faulty = [result for result in run.results if result.status != "passed"]
    faulty.sort(key=lambda it: _rank(changes.get((it.variant, it.case), ""), [it.status]))
    return [
        Detail(f"case-{number}", result, changes.get((result.variant, result.case), ""))
        for number, result in enumerate(faulty, 1)
    ]


def _build_cell(result: CaseResult | None, anchors: dict[Any, str]) -> Cell | None:
    if result is None:
        return None
    return Cell(result.status, SIGNS[result.status], anchors.get(result.key, ""))


def _build_rows(
    run: Run,
    columns: Sequence[tuple[str, int]],
    changes: dict[tuple[str, str], str],
    details: Sequence[Detail],
) -> list[CaseRow]:
    anchors = {detail.result.key: detail.anchor for detail in details[:MOST_DETAILS]}
    found = {result.key: result for result in run.results}
    cases = {result.case: result for result in run.results}
    rows = []
    for case, one in cases.items():
        results = [found.get((name, case, number)) for name, number in columns]
        cells = [_build_cell(it, anchors) for it in results]
        kinds = [changes[name, case] for name in run.variants if (name, case) in changes]
        change = "lost" if "lost" in kinds else "gained" if kinds else ""
        rows.append(CaseRow(case, one.tags, cells, change))
    rows.sort(key=lambda row: _rank(row.change, [it.status for it in row.cells if it]))
    return rows
