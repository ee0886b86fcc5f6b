"""Slips of the hand: which known name was meant by one that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from orchestrator.flows.ppe.instruction_reader import DECIDING

_CLOSE = 0.79


def suggest_name(name: str, known: Iterable[str]) -> str:
    """What was meant, if a name is one slip of the hand away from one that is known."""
    found = [one for one in known if _is_slip(name, one)]
    if not found:
        return ""
    return f"did you mean {max(found, key=lambda one: _likeness(name, one))!r}?"


def suggest_instruction(name: str, known: Iterable[str]) -> str:
    """What was meant by an instruction that is not known, with its `$`; a short one may be near."""
    names = sorted({*known, *DECIDING})
    found = difflib.get_close_matches(name.casefold(), names, n=1, cutoff=_CLOSE)
    found = found or [one for one in names if _is_slip(name, one)]
    return f"did you mean '${found[0]}'?" if found else ""


def _likeness(name: str, other: str) -> float:
    return difflib.SequenceMatcher(None, name, other).ratio()


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
