"""Evaluation: cases, checks, a matrix of variants, runs and what they show.

`Matrix` holds the cases with each variant of an agent, a `RunFile` keeps the results, and
`compare_runs` says whether a run differs from an earlier one by more than chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.support.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from orchestrator.agent.evaluation.cases import Case, Cases, CaseTurn, read_cases
    from orchestrator.agent.evaluation.checks import Outcome
    from orchestrator.agent.evaluation.compare import Comparison, compare_runs, compare_variants
    from orchestrator.agent.evaluation.execution import Execution
    from orchestrator.agent.evaluation.judge import ModelJudge
    from orchestrator.agent.evaluation.junit import build_junit
    from orchestrator.agent.evaluation.matrix import Evaluation, Matrix
    from orchestrator.agent.evaluation.report import build_report
    from orchestrator.agent.evaluation.results import CaseResult, CheckResult, TurnResult
    from orchestrator.agent.evaluation.run_file import Run, RunFile, read_run
    from orchestrator.agent.evaluation.summary import Figures, sum_tags, sum_variants
    from orchestrator.agent.evaluation.variants import Variant
    from orchestrator.models.prices import Price

__all__ = [
    "Case",
    "CaseResult",
    "CaseTurn",
    "Cases",
    "CheckResult",
    "Comparison",
    "Evaluation",
    "Execution",
    "Figures",
    "Matrix",
    "ModelJudge",
    "Outcome",
    "Price",
    "Run",
    "RunFile",
    "TurnResult",
    "Variant",
    "build_junit",
    "build_report",
    "compare_runs",
    "compare_variants",
    "read_cases",
    "read_run",
    "sum_tags",
    "sum_variants",
]

_HOMES = {
    **dict.fromkeys(("Case", "CaseTurn", "Cases", "read_cases"), "cases"),
    **dict.fromkeys(("CaseResult", "CheckResult", "TurnResult"), "results"),
    **dict.fromkeys(("Comparison", "compare_runs", "compare_variants"), "compare"),
    **dict.fromkeys(("Evaluation", "Matrix"), "matrix"),
    "Execution": "execution",
    **dict.fromkeys(("Figures", "sum_tags", "sum_variants"), "summary"),
    "ModelJudge": "judge",
    "Outcome": "checks",
    "Price": "orchestrator.models.prices",
    **dict.fromkeys(("Run", "RunFile", "read_run"), "run_file"),
    "Variant": "variants",
    "build_junit": "junit",
    "build_report": "report",
}

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
