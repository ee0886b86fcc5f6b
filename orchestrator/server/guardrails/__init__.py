"""Guardrails that a server has: made through the API of `bedrock`, or read from files.

- `store`: where guardrails and their versions are, and which one an id or ARN means.
- `assessment`: texts checked by one, in the words of `bedrock-runtime`.
- `handlers`: the operations of `bedrock`.
- `apply`: ApplyGuardrail and InvokeGuardrailChecks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.server.operations import Operations

if TYPE_CHECKING:
    from orchestrator.server.guardrails.store import GuardrailStore


def operations_of(guardrails: GuardrailStore) -> Operations:
    """Guardrails made, shown and tagged (`bedrock`), and applied (`bedrock-runtime`)."""
    from functools import partial

    from orchestrator.server.guardrails import apply, handlers

    return {
        "bedrock": {name: partial(it, guardrails) for name, it in handlers.HANDLERS.items()},
        "bedrock-runtime": {name: partial(it, guardrails) for name, it in apply.HANDLERS.items()},
    }
