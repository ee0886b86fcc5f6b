"""A turn as rows of a waterfall: small ones, of which thousands stay smooth."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.engine.trace.past_steps import PastStep
from orchestrator.message import to_json
from orchestrator.server.workbench.costs import Costs, Prices, add_up, find_cost
from orchestrator.server.workbench.lanes import Lane, build_lanes
from orchestrator.server.workbench.remote.trace_steps import TraceStep
from orchestrator.support.invisible import BREAKS, UNSEEN

# Rows that are laid out together, when they are seen: many would make a frame long, and each group
# costs every frame a little.
_GROUP = 25
ROWS = 100
"""Rows that a page begins with; it fetches the next ones as one comes near them."""

MOST_ROWS = 1_000
"""Rows that are sent at once."""

_ROW_HEIGHT = 28  # pixels
_WIDTH = 1_000  # of a bar's own coordinates


ShownStep = PastStep | TraceStep
"""What a row is of: a step of a journal, or of a remote server's trace."""


@dataclass(slots=True)
class Row:
    """One row."""

    step: ShownStep
    label: str
    text: str  # what it was about, on one line
    lane: str  # the collaborator whose step it is; empty for the agent
    depth: int
    x: int
    width: int
    milliseconds: float
    dollars: float | None  # what a model call cost, where its price is known


@dataclass(slots=True)
class Group:
    """Rows that are laid out together."""

    rows: list[Row]
    height: int


@dataclass(slots=True)
class TurnView:
    """A turn's rows from `first` on, and its totals."""

    groups: list[Group]
    first: int
    count: int
    following: int  # the first row of the next page; 0 for none
    previous: int  # the first row of the page before; 0 for none
    milliseconds: float
    totals: Mapping[str, int]
    costs: Costs
    lanes: list[Lane]  # of a team, or of iterations; else none

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON data, for programs."""
        return {
            "totals": self.totals,
            "costs": self.costs.as_dict(),
            "milliseconds": self.milliseconds,
            "steps": [
                {**row.step.as_dict(), "dollars": row.dollars}
                for group in self.groups
                for row in group.rows
            ],
            "following": self.following,
        }


_LABELS = {
    "PRE_PROCESSING": "pre-processing",
    "ORCHESTRATION": "model",
    "POST_PROCESSING": "post-processing",
    "KNOWLEDGE_BASE_RESPONSE_GENERATION": "knowledge answer",
    "ROUTING_CLASSIFIER": "router",
    "MEMORY_SUMMARIZATION": "memory",
}
_TAG = re.compile(r"</?[a-zA-Z_]{1,40}>")
_UNSEEN = re.compile(f"[{BREAKS}{UNSEEN}]")
_NAMES = {"return_control": "handed to you", "results": "your results"}


def build_turn_view(
    steps: Sequence[ShownStep],
    first: int = 1,
    prices: Prices | None = None,
    most: int = ROWS,
) -> TurnView:
    """The waterfall of a turn, of which `most` rows are shown."""
    began, ended = _find_span(steps)
    span = max(ended - began, 1)
    names = _name_lanes(steps)
    shown = steps[first - 1 : first - 1 + most]
    rows = [_build_row(step, began, span, names, prices or {}) for step in shown]
    groups = [rows[at : at + _GROUP] for at in range(0, len(rows), _GROUP)]
    following = first + most
    return TurnView(
        [Group(one, len(one) * _ROW_HEIGHT) for one in groups],
        first,
        len(steps),
        following if following <= len(steps) else 0,
        max(first - ROWS, 1) if first > 1 else 0,
        (ended - began) / 1e6,
        sum_up(steps),
        sum_costs(steps, prices or {}),
        build_lanes(steps, names),
    )


def measure_steps(steps: Sequence[ShownStep]) -> float:
    """How many milliseconds it took from the first step's beginning to the last one's end."""
    began, ended = _find_span(steps)
    return (ended - began) / 1e6


def _find_span(steps: Sequence[ShownStep]) -> tuple[int, int]:
    began = min((it.began for it in steps if it.began), default=0)
    return began, max((it.ended for it in steps), default=began)


def _build_row(
    step: ShownStep, began: int, span: int, names: Mapping[str, str], prices: Prices
) -> Row:
    x = (step.began - began) * _WIDTH // span
    width = max((step.ended - step.began) * _WIDTH // span, 3)
    return Row(
        step=step,
        label=_LABELS.get(step.stage) or _NAMES.get(step.kind, step.kind),
        text=_describe(step),
        lane=names.get(step.branch, step.branch),
        depth=len([part for part in step.branch.split("/") if part]),
        x=max(0, min(x, _WIDTH - 3)),
        width=width,
        milliseconds=(step.ended - step.began) / 1e6,
        dollars=find_cost(prices, step.name, step.usage),
    )


def _describe(step: ShownStep) -> str:
    if step.kind in ("action", "search", "agent"):
        return step.name
    said = step.reply_text if isinstance(step, TraceStep) else step.text
    text = _TAG.sub(" ", said[:1_000])
    return " ".join(text.split())[:160] or step.name


def _name_lanes(steps: Sequence[ShownStep]) -> dict[str, str]:
    # A collaborator's path in the journal is of ids; the record of its end has its name.
    agents = (it for it in steps if it.kind == "agent" and it.name and it.record)
    found = {it.record["id"]: it.name for it in agents}
    own = next((it.agent for it in steps if not it.branch), "")
    for step in steps:  # of a collaborator that is still at work
        if step.branch and step.agent not in ("", own):
            found.setdefault(step.branch, step.agent)
    return found


def sum_up(steps: Sequence[ShownStep]) -> dict[str, int]:
    """What a turn took: model calls, actions, and tokens."""
    usages = [it.usage for it in steps if it.usage is not None]
    return {
        "model_calls": len(usages),
        "actions": sum(it.kind == "action" for it in steps),
        "input_tokens": sum(it.input_tokens for it in usages),
        "output_tokens": sum(it.output_tokens for it in usages),
        "cache_read_tokens": sum(it.cache_read_tokens for it in usages),
        "cache_write_tokens": sum(it.cache_write_tokens for it in usages),
    }


def sum_costs(steps: Sequence[ShownStep], prices: Prices) -> Costs:
    """What the model calls of a turn cost."""
    return add_up(prices, ((it.name, it.usage) for it in steps))


def format_milliseconds(value: float) -> str:
    """A duration for people."""
    if value < 1_000:
        return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"
    if value < 60_000:
        return f"{value / 1_000:.1f} s"
    return f"{int(value // 60_000)} min {int(value % 60_000 // 1_000)} s"


def describe_arguments(arguments: Mapping[str, Any], most: int = 120) -> str:
    """Arguments on one line; what is not seen, or turns text around, is named as in `page.js`."""
    text = ", ".join(f"{name}={to_json(value)}" for name, value in arguments.items())
    text = _UNSEEN.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)
    return text if len(text) <= most else f"{text[: most - 1]}…"
