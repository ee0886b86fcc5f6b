"""Slips of the hand: which known name was meant by one that is not known."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["meant"]


def meant(name: str, known: Iterable[str]) -> str:
    """What was meant, if a name is one slip of the hand away from one that is known."""
    found = next((one for one in known if _is_slip(name, one)), None)
    return "" if found is None else f"did you mean {found!r}?"


def _is_slip(name: str, other: str) -> bool:
    """Whether a letter is missing, too much, another one, or two have changed places."""
    if name.casefold() == other.casefold():
        return True
    if abs(len(name) - len(other)) > 1 or min(len(name), len(other)) < 3:
        return False
    same = (at for at, pair in enumerate(zip(name, other, strict=False)) if pair[0] != pair[1])
    at = next(same, min(len(name), len(other)))
    rest, others = name[at:], other[at:]
    swapped = rest[:2] == others[1::-1] and rest[2:] == others[2:]
    return swapped or rest[1:] == others[1:] or rest[1:] == others or rest == others[1:]
