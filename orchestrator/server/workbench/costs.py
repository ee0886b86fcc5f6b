"""What steps cost, where the prices of their models were given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.models.base import Usage
from orchestrator.models.prices import Price, find_price

Prices = Mapping[str, Price]


@dataclass(frozen=True, slots=True)
class Costs:
    """What model calls cost together.

    Attributes:
        dollars: In US dollars, without those calls whose price is not known; `None` where that is
            so of all.
        unpriced: The models whose price is not known.
    """

    dollars: float | None = None
    unpriced: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The costs as JSON."""
        return {"dollars": self.dollars, "unpriced": list(self.unpriced)}


def find_cost(prices: Prices, model: str, usage: Usage | None) -> float | None:
    """What one model call cost; `None` where that is not known."""
    # An inference profile is named by its ARN: the model is the last part of that.
    price = find_price(prices, model, model.rpartition("/")[2])
    return None if usage is None or price is None else price.of(usage)


def add_up(prices: Prices, calls: Iterable[tuple[str, Usage | None]]) -> Costs:
    """What model calls cost together, each given as its model and its tokens."""
    found = [(model, find_cost(prices, model, usage)) for model, usage in calls if usage]
    known = [cost for _, cost in found if cost is not None]
    unpriced = dict.fromkeys(model or "a model without a name" for model, it in found if it is None)
    return Costs(sum(known) if known else None, tuple(unpriced))


def join_costs(parts: Iterable[Costs]) -> Costs:
    """The costs of several turns together."""
    all_parts = list(parts)
    known = [one.dollars for one in all_parts if one.dollars is not None]
    unpriced = dict.fromkeys(name for one in all_parts for name in one.unpriced)
    return Costs(sum(known) if known else None, tuple(unpriced))


def format_dollars(value: float) -> str:
    """A sum for people."""
    if value >= 1 or value == 0:
        return f"${value:,.2f}"
    text = f"{value:.4f}" if value >= 0.01 else f"{value:.6f}"
    return f"${text}" if float(text) else "< $0.000001"
