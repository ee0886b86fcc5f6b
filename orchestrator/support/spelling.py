"""How names are spelled: in Bedrock's documents, and by people who misspell them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

# What is compared: the time grows with the square of the names' length.
_LONGEST = 200
_MOST_NAMES = 1_000


def to_camel(name: str) -> str:
    """`agent_name` as `agentName`; a name without underscores, or that begins with one, stays."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest) if first else name


def find_close(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """The one of `names` that is most like a name; empty when none is.

    `cutoff` says how much two names must have in common: from 0, nothing, to 1, everything.
    """
    if len(name) > _LONGEST:
        return ""
    from difflib import get_close_matches

    others = [one for one in islice(names, _MOST_NAMES) if len(one) <= _LONGEST]
    return next(iter(get_close_matches(name, others, n=1, cutoff=cutoff)), "")


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` when one of `names` is close to a name, else an empty text."""
    close = find_close(str(name), names)
    return f"; did you mean {close!r}?" if close else ""
