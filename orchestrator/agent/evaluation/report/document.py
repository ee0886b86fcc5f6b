"""The report as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from orchestrator.agent.evaluation.compare import Comparison
from orchestrator.agent.evaluation.run_file import Run
from orchestrator.agent.evaluation.summary import sum_tags, sum_variants


def build_document(
    run: Run, comparisons: Sequence[Comparison] = (), faults: Sequence[str] = ()
) -> dict[str, Any]:
    """The report as JSON members."""
    return {
        "run": dict(run.head),
        "variants": [one.as_dict() for one in sum_variants(run)],
        "tags": {name: [it.as_dict() for it in sum_tags(run, name)] for name in run.variants},
        "comparisons": [
            {**asdict(one), "outcome": one.outcome, "method": one.method} for one in comparisons
        ],
        "failed": list(faults),
        "results": [result.as_dict() for result in run.results],
    }
