"""What models cost, as somebody who pays for them says: the project knows no price by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchestrator.errors import ValidationError
from orchestrator.models.base import Usage

_MOST = 1e9  # dollars


@dataclass(frozen=True)
class Price:
    """What a model costs, in US dollars for a million tokens."""

    input: float
    output: float
    cache_read: float | None = None  # as `input` when it is not known
    cache_write: float | None = None

    def of(self, usage: Usage) -> float:
        """What some tokens cost."""
        read = self.input if self.cache_read is None else self.cache_read
        written = self.input if self.cache_write is None else self.cache_write
        return (
            usage.input_tokens * self.input
            + usage.output_tokens * self.output
            + usage.cache_read_tokens * read
            + usage.cache_write_tokens * written
        ) / 1_000_000


def parse_prices(items: Iterable[str], option: str = "--price") -> dict[str, Price]:
    """Prices by model, from texts such as `MODEL=3,15` or `MODEL=3,15,0.3,3.75`.

    Raises:
        ValidationError: A text is none; the message names it and the option.
    """
    prices = {}
    for item in items:
        name, _, numbers = item.rpartition("=")
        try:
            values = [float(number) for number in numbers.split(",")]
            if not name or not 2 <= len(values) <= 4 or not all(0 <= it < _MOST for it in values):
                raise ValueError
        except ValueError:
            raise ValidationError(f"{option} {item!r} is not MODEL=INPUT,OUTPUT") from None
        prices[name] = Price(*values)
    return prices


def find_price(prices: Mapping[str, Price], *names: str) -> Price | None:
    """The price of a model by its id or by the spec that chose it; `None` where there is none.

    A price of a spec such as `openai:NAME` is that of the id `NAME`, too.
    """
    for name in filter(None, names):
        if name in prices:
            return prices[name]
        ends = (price for known, price in prices.items() if known.endswith(f":{name}"))
        if (found := next(ends, None)) is not None:
            return found
    return None
