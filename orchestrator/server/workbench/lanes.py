"""The agents of a turn side by side: a lane for each, with its steps as bars on one time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.engine.trace.past_steps import PastStep
from orchestrator.server.workbench.remote.trace_steps import TraceStep

WIDTH = 1_000  # of the time axis
MOST_LANES = 100
Step = PastStep | TraceStep


@dataclass(slots=True)
class Bar:
    """A step, or several that are too close to be seen apart."""

    x: int
    width: int
    kind: str
    is_bad: bool


@dataclass(slots=True)
class Lane:
    """What one agent of a team did, or one iteration of a loop.

    Attributes:
        name: The collaborator's name; empty for the agent that was asked.
        depth: How many agents are above it.
        steps: How many steps it had.
        milliseconds: From its first step's beginning to its last one's end.
    """

    name: str
    depth: int
    steps: int = 0
    milliseconds: float = 0
    bars: list[Bar] = field(default_factory=list)


def build_lanes(steps: Sequence[Step], names: Mapping[str, str]) -> list[Lane]:
    """A lane for each branch, in the order of their first steps; none for an agent on its own."""
    by_branch: dict[str, list[Step]] = {}
    for step in steps:
        by_branch.setdefault(step.branch, []).append(step)
    if len(by_branch) < 2:
        return []
    began, ended = _find_span(steps)
    found = sorted(by_branch.items(), key=lambda pair: pair[0] != "")
    return [
        _build_lane(branch, inner, began, max(ended - began, 1), names)
        for branch, inner in found[:MOST_LANES]
    ]


def _build_lane(
    branch: str, steps: Sequence[Step], began: int, span: int, names: Mapping[str, str]
) -> Lane:
    first, last = _find_span(steps)
    depth = len([part for part in branch.split("/") if part])
    lane = Lane(names.get(branch, branch), depth, len(steps), (last - first) / 1e6)
    seen: dict[int, Bar] = {}
    for step in steps:
        x = max(0, min((step.began - began) * WIDTH // span, WIDTH - 3))
        width = max((step.ended - step.began) * WIDTH // span, 3)
        bar = seen.setdefault(x, Bar(x, width, step.kind, bool(step.state)))
        bar.width, bar.is_bad = max(bar.width, width), bar.is_bad or bool(step.state)
    lane.bars = list(seen.values())
    return lane


def _find_span(steps: Sequence[Step]) -> tuple[int, int]:
    began = min((it.began for it in steps if it.began), default=0)
    return began, max((it.ended for it in steps), default=began)
