"""Where scripts wait for their caller: an action group whose calls return control."""

from __future__ import annotations

from orchestrator.actions import ActionGroup, ReturnControl

PAUSING = "flowcontrol"
"""The action group."""

BREAKPOINT = "breakpoint"
"""Its function of a breakpoint; answered with `continue` or `step`."""

USER = "user"
"""Its function of a question to the user; answered with the user's text."""


def build_pause_group() -> ActionGroup:
    """The action group."""
    return ActionGroup(
        PAUSING,
        executor=ReturnControl(),
        functions=[
            {
                "name": BREAKPOINT,
                "description": "The script waits at a breakpoint: answer 'continue' or 'step'.",
                "parameters": {"line": {"type": "integer"}, "statement": {"type": "string"}},
            },
            {
                "name": USER,
                "description": "The script waits for the user's text.",
                "parameters": {"text": {"type": "string"}},
            },
        ],
    )
