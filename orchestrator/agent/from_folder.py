"""Agents in folders: what `Agent` is made of, from an `agent.yaml` and the files beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.agent.features import features_of, memory_store
from orchestrator.agent.overrides import overrides_of, resolve_named_model
from orchestrator.definition import build_action_groups, load_definition
from orchestrator.definition.knowledge_base import build_knowledge_bases
from orchestrator.engine.plan import Plan
from orchestrator.memory import MemoryStore
from orchestrator.models import Model
from orchestrator.sessions import Sessions, SessionStore

__all__ = ["folder_agent"]


def folder_agent(
    path: Path,
    model: str | Model | None,
    memory: MemoryStore | str | Path | None,
    sessions: Sessions | SessionStore | str | Path | None,
    compiled: Callable[..., Plan],
    level: int = 1,
    models: Callable[[str], Model | None] | None = None,
) -> dict[str, Any]:
    """What `Agent` is made of, from a folder.

    Args:
        path: The folder, or its `agent.yaml`.
        model: Used instead of every model that the definition names.
        memory: Keeps what is remembered, if the agent has a memory.
        sessions: Where sessions live; a memory that is not given is kept beside them.
        compiled: Makes an `Agent` of such arguments, and gives its plan.
        level: How many agents lead to this one, itself included.
        models: Gives the model that is used for one that is named, if it is another.

    Raises:
        DefinitionError: The definition is wrong, with file, line and column.
        ResourceNotFound: There is no such folder or file.
    """

    def load_collaborator(folder: Path) -> Plan:
        return compiled(**folder_agent(folder, model, None, None, compiled, level + 1, models))

    definition = load_definition(path)
    root = path if path.is_dir() else path.parent
    own = [root / name for name in ("templates", "memory")]
    kept = memory_store(memory, sessions) if definition.memory_configuration else None
    spec: str | Model | None = model
    if spec is None and definition.foundation_model is not None:
        named = definition.foundation_model
        spec = resolve_named_model(definition, named, root, "foundationModel", instead=models)
    if spec is None:
        raise definition.source.error(
            "there is no foundationModel; name one, such as `foundationModel: local`"
        )
    return {
        "name": definition.agent_name,
        "instruction": definition.instruction,
        "model": spec,
        "action_groups": build_action_groups(definition, root),
        "knowledge_bases": build_knowledge_bases(definition, root),
        "templates": own[0] if any(map(Path.is_dir, own)) else None,
        "prompts": overrides_of(definition, root, replaced=model is not None, models=models),
        "limits": definition.limits.as_limits() if definition.limits else None,
        "idle_session_ttl": definition.idle_session_ttl_in_seconds,
        "agent_id": definition.agent_id or "",
        "features": features_of(definition, root, load_collaborator, kept, level),
    }
