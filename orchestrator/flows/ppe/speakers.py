"""Who speaks in a script: the roles that models know, those of its chat, and what is neither."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from orchestrator.flows.ppe.nodes import Edit, Say, Script, Statement
from orchestrator.flows.ppe.slips import meant
from orchestrator.flows.steps import Place

__all__ = ["ROLES", "Stranger", "strangers"]

ROLES = ("system", "user", "assistant")
"""The roles that models know."""

_CLOSE = 0.8


class Stranger(NamedTuple):
    """A role that nobody knows.

    Attributes:
        place: Its message.
        role: What is written.
        meant: The role that is meant, as a question; empty when it is near none.
    """

    place: Place
    role: str
    meant: str


def strangers(script: Script, statements: Iterable[Statement]) -> Iterator[Stranger]:
    """The roles in a script that nobody knows, each once.

    In a group chat anybody may speak, unless his name is a slip of one that is known: there what
    others say is sent with their names, and not as their role.
    """
    settings = script.settings
    known = [*ROLES, *settings.roles, *filter(None, (settings.name,))]
    told: set[str] = set()
    for one in statements:
        role = one.role if isinstance(one, Say | Edit) else ""
        if not role or role in known or role in told:
            continue
        told.add(role)
        near = _near(role, known)
        if near or not settings.roles:
            yield Stranger(one.place, role, near)


def _near(role: str, known: list[str]) -> str:
    close = meant(role, known)
    if close:
        return close
    found = difflib.get_close_matches(role.casefold(), known, n=1, cutoff=_CLOSE)
    return f"did you mean {found[0]!r}?" if found else ""
