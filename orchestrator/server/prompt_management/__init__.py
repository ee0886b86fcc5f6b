"""Prompts of Prompt management: stored under an ARN, and filled when a caller names one.

- `store`: where prompts and their versions are, and which one an ARN means.
- `converse`: a stored prompt in the place of Converse's model.
- `handlers`: the operations of `bedrock-agent`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.server.operations import Operations

if TYPE_CHECKING:
    from orchestrator.server.prompt_management.store import PromptStore


def operations_of(prompts: PromptStore) -> Operations:
    """CreatePrompt, GetPrompt, UpdatePrompt, DeletePrompt, ListPrompts and CreatePromptVersion."""
    from functools import partial

    from orchestrator.server.prompt_management.handlers import HANDLERS

    return {"bedrock-agent": {name: partial(it, prompts) for name, it in HANDLERS.items()}}
