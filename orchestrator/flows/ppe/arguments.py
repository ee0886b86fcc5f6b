"""Which arguments a script takes: those that it declares, and those that it reads."""

from __future__ import annotations

from orchestrator.flows.ppe.nodes import Edit, Say, Script
from orchestrator.flows.ppe.output import inputs_of
from orchestrator.flows.ppe.scope import ALL, find_read_names
from orchestrator.flows.ppe.uses import Uses, statements_in

__all__ = ["arguments_of"]


def arguments_of(script: Script) -> tuple[list[str], frozenset[str] | None]:
    """The arguments that a script wants, and all names that may be given.

    The latter are `None` where it reads everything (`this`, `prompt`).
    """
    uses = Uses(script)
    declared = [one.name for one in inputs_of(script.front.get("input"))]
    wanted = dict.fromkeys((*declared, *(it.name for it in uses.read if it.name not in uses.given)))
    if uses.names & ALL:
        return list(wanted), None
    # A bare word of a call is a text, unless there is such a variable: so it may be one.
    words = {
        name
        for link in script.calls
        for one in link.arguments
        for name in find_read_names(one.node)
    }
    texts = [it.text for it in statements_in(script.body) if isinstance(it, Say | Edit)]
    searched = {it.name for text in texts for it in text.inlines if it.kind == "regex"}
    return list(wanted), frozenset({*uses.given, *uses.names, *words, *searched})
