"""Durable runs: what is submitted to workers, and outlives every one of them (extra `dbos`).

The engine that queues and restarts them is DBOS Transact; the state of a turn is the journal.
A run of a script is a turn, too.
"""

from typing import TYPE_CHECKING

from orchestrator.support.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from orchestrator.agent.durable.flows import DurableFlow, FlowSubmission
    from orchestrator.agent.durable.runs import DurableRuns
    from orchestrator.agent.durable.submission import Submission
    from orchestrator.agent.durable.worker import Worker

__all__ = ["DurableFlow", "DurableRuns", "FlowSubmission", "Submission", "Worker"]

_HOMES = {
    "DurableFlow": "flows",
    "DurableRuns": "runs",
    "FlowSubmission": "flows",
    "Submission": "submission",
    "Worker": "worker",
}

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
