"""Carries a turn's effects out: one driver for threads, one for an event loop.

Both are generators of progress: pieces of the answer as it streams, and each effect before and
after it was carried out. Draining one is a whole invocation; closing one stops the work and writes
down that the turn was cancelled.
"""

from orchestrator.engine.run.driver.shared import BranchEnded, Progress, Told
from orchestrator.engine.run.driver.sync import drive

__all__ = ["BranchEnded", "Progress", "Told", "drive"]
