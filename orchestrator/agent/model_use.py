"""The models that an agent and those it leads use, and whether they can answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from orchestrator.engine.plan import Member, Plan
from orchestrator.models import Model, weights

State = Literal["ready", "missing", "remote", "file"]


@dataclass(frozen=True, slots=True)
class ModelUse:
    """A model, and what it is for.

    Attributes:
        id: The model's id.
        used_for: Stages by the agents that have them, or `embeddings`.
        state: `ready` when its weights are here and run; `missing` when they are not; `remote` for
            one that another machine answers for, which is not asked; `file` for replies in a file.
        weights: The name of its weights in the registry; empty for others.
        reason: Why it cannot answer; empty otherwise.
    """

    id: str
    used_for: tuple[str, ...]
    state: State
    weights: str = ""
    reason: str = ""


def iter_members(plan: Plan) -> Iterator[Member]:
    """The collaborators of an agent, and those of theirs."""
    for member in plan.collaborators.values():
        yield member
        if member.agent is not None:
            yield from iter_members(member.agent)


def list_plans(plan: Plan) -> list[Plan]:
    """The agent, and all that it leads in this process."""
    return [plan, *(it.agent for it in iter_members(plan) if it.agent is not None)]


def uses_embedding_weights(plan: Plan) -> bool:
    """Whether the embedded model for embeddings is used anywhere in an agent's team."""
    parts = [
        part
        for one in list_plans(plan)
        for part in (
            *one.knowledge_bases.values(),
            one.guardrail,
            *(stage.model for stage in one.stages.values() if stage.enabled),
        )
    ]
    embedders = (getattr(part, "embedder", None) for part in parts)
    return any(getattr(one, "id", "") == weights.EMBEDDING for one in embedders)


def list_model_uses(plan: Plan) -> list[ModelUse]:
    """The models that an agent's team uses; none is asked, and nothing is loaded."""
    found: dict[str, dict[str, None]] = {}
    models: dict[str, Model] = {}
    for number, one in enumerate(list_plans(plan)):
        for stage in one.stages.values():
            if stage.enabled:
                models[stage.model.model_id] = stage.model
                name = f"{one.name}: {stage.stage}" if number else stage.stage
                found.setdefault(stage.model.model_id, {})[name] = None
    uses = [_describe(models[id], tuple(names)) for id, names in found.items()]
    if uses_embedding_weights(plan):
        uses.append(_describe_weights("local", weights.find(weights.EMBEDDING), ("embeddings",)))
    return uses


def _describe(model: Model, used_for: tuple[str, ...]) -> ModelUse:
    from orchestrator.models.recording import ReplayModel
    from orchestrator.models.scripted_model import ScriptedModel

    id = model.model_id
    if isinstance(model, ScriptedModel | ReplayModel):
        return ModelUse(id, used_for, "file")
    if not id.startswith("local:"):
        return ModelUse(id, used_for, "remote")
    known = _find_by_name()
    name = id.removeprefix("local:")
    if name in known:
        return _describe_weights(id, known[name], used_for)
    reason = _find_missing_runtime("chat")
    return ModelUse(id, used_for, "missing" if reason else "ready", reason=reason)


def _find_by_name() -> Mapping[str, weights.Weights]:
    return {one.weights.name: one.weights for one in weights.available()}


def _describe_weights(id: str, wanted: weights.Weights, used_for: tuple[str, ...]) -> ModelUse:
    paths = {one.weights.name: one.path for one in weights.available()}
    path: Path | None = paths[wanted.name]
    reason = _find_missing_runtime(wanted.kind)
    if path is None:
        reason = "its weights are not on this machine"
    state: State = "missing" if reason else "ready"
    return ModelUse(id, used_for, state, wanted.name, reason)


def _find_missing_runtime(kind: str) -> str:
    from orchestrator.support.lazy_imports import describe_missing_extra

    runtime, extra = weights.RUNTIMES[kind]
    if find_spec(runtime) is not None:
        return ""
    return describe_missing_extra("the embedded model needs", extra, runtime)
