"""Who speaks in a script: the roles that models know, those of its chat, and what is neither."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from orchestrator.flows.ppe.nodes import Edit, Say, Script, Statement
from orchestrator.flows.ppe.suggestions import suggest_name
from orchestrator.flows.steps import Place

__all__ = ["ROLES", "UnknownRole", "find_unknown_roles"]

ROLES = ("system", "user", "assistant")
"""The roles that models know."""

_CLOSE = 0.8


class UnknownRole(NamedTuple):
    """A role that nobody knows.

    Attributes:
        place: Its message.
        role: What is written.
        meant: The role that is meant, as a question; empty when it is near none.
    """

    place: Place
    role: str
    meant: str


def find_unknown_roles(script: Script, statements: Iterable[Statement]) -> Iterator[UnknownRole]:
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
        near = _suggest_role(role, known)
        if near or not settings.roles:
            yield UnknownRole(one.place, role, near)


def _suggest_role(role: str, known: list[str]) -> str:
    close = suggest_name(role, known)
    if close:
        return close
    found = difflib.get_close_matches(role.casefold(), known, n=1, cutoff=_CLOSE)
    return f"did you mean {found[0]!r}?" if found else ""
