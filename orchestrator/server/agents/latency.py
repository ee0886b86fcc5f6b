"""Models of AWS that answer faster (Bedrock: `performanceConfig.latency`)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any

from orchestrator.agent.agent import Agent
from orchestrator.agent.source import optimize_model
from orchestrator.engine.plan import Member, Plan, StagePlan
from orchestrator.support.lru_cache import LruCache

_OPTIMIZED = "optimized"
_MOST = 64


def is_optimized(configurations: Mapping[str, Any] | None) -> bool:
    """Whether a configuration with a `performanceConfig` asks for latency-optimised models."""
    return ((configurations or {}).get("performanceConfig") or {}).get("latency") == _OPTIMIZED


class OptimizedAgents:
    """Agents with latency-optimised models: of the agents that were asked so last."""

    def __init__(self) -> None:
        self._plans: LruCache[tuple[Plan, Plan]] = LruCache(_MOST)

    def of(self, agent: Agent) -> Agent:
        """The same agent, all of whose models of Amazon Bedrock are latency-optimised."""
        own = agent.plan
        # Kept with the plan itself, so that no other one can get its id meanwhile.
        _, plan = self._plans.get(str(id(own)), lambda: (own, _optimize_plan(own)))
        quick = copy(agent)
        quick.plan = plan
        return quick


def _optimize_plan(plan: Plan) -> Plan:
    features = plan.features
    team = [_optimize_member(one) for one in features.collaborators]
    stages = {name: _optimize_stage(one) for name, one in plan.stages.items()}
    return replace(plan, stages=stages, features=replace(features, collaborators=team))


def _optimize_stage(stage: StagePlan) -> StagePlan:
    return replace(stage, model=optimize_model(stage.model))


def _optimize_member(member: Member) -> Member:
    return member if member.agent is None else replace(member, agent=_optimize_plan(member.agent))
