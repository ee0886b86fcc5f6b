"""Token counts, as models report them."""

from __future__ import annotations

from operator import add
from typing import NamedTuple


class Usage(NamedTuple):
    """Tokens of one model call, or the sum of several."""

    input_tokens: int = 0  # tokens of the prompts, cached ones not included
    output_tokens: int = 0  # tokens of the replies
    cache_read_tokens: int = 0  # prompt tokens that came from the provider's cache
    cache_write_tokens: int = 0  # prompt tokens that were written to it
    calls: int = 0  # model calls

    @property
    def total_tokens(self) -> int:
        """All tokens together."""
        return self[0] + self[1] + self[2] + self[3]

    def plus(self, other: Usage) -> Usage:
        """The sum of both, member by member."""
        return Usage._make(map(add, self, other))
