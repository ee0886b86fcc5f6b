"""The part of `Agent` that makes others of it: for a tenant, or with something changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self

from orchestrator.actions import Executor
from orchestrator.engine.plan import Override, Plan
from orchestrator.errors import ValidationError
from orchestrator.models import Model, resolve_model

_MOST_TENANTS = 1_000  # whose plans an agent keeps


class AgentVariants:
    """The same agent, but for something; what was compiled is shared where it is the same."""

    plan: Plan
    _make_plan: partial[Plan]  # what `with_changes` compiles again
    # The plan of a tenant and the one that it was made of: servers ask for it at each request
    _tenant_plans: dict[str, tuple[Plan, Plan]]

    def for_tenant(self, tenant: str) -> Self:
        """The same agent for one tenant: what it keeps of sessions is the tenant's own.

        Everything compiled is shared. Sessions, memories and the code interpreter's folders are
        not, also those of collaborators: the same session id is another session for each tenant.
        Lambda functions and MCP servers that store data by session ids do not see the tenant.

        Args:
            tenant: Any text that names the tenant; empty for the agent as it was without tenants.

        Raises:
            ValidationError: It is no text.
        """
        if not isinstance(tenant, str):
            kind = type(tenant).__name__
            raise ValidationError(f"a tenant is named by a text, and not by a {kind}")
        agent = copy(self)
        known = self._tenant_plans.get(tenant)
        if known is None or not any(plan is self.plan for plan in known):
            if len(self._tenant_plans) >= _MOST_TENANTS:
                self._tenant_plans.clear()
            known = self._tenant_plans[tenant] = self.plan, self.plan.for_tenant(tenant)
        _, agent.plan = known
        return agent

    def with_models(self, change: Callable[[Model], Model]) -> Self:
        """The same agent and team, whose models are those that `change` makes of them.

        `change` is called once for each model. It has to keep the `model_id`, for which the
        prompts were made: wrap a model to count, record or replay it.
        """
        agent = copy(self)
        agent._tenant_plans = {}
        agent.plan = self.plan.with_models(_once_for_each(change))
        return agent

    def with_executors(self, change: Callable[[Executor], Executor]) -> Self:
        """The same agent and team, whose actions are carried out by what `change` makes.

        `change` is called for each operation with who carries it out. Prompts stay as they are.
        """
        agent = copy(self)
        agent._tenant_plans = {}
        agent.plan = self.plan.with_executors(change)
        return agent

    def with_changes(
        self,
        *,
        prompts: Mapping[str, str | Mapping[str, Any] | Override] | None = None,
        model: str | Model | None = None,
        instruction: str | None = None,
    ) -> Self:
        """The same agent, but for some of its prompts, its model or its instruction.

        It has the sessions and the memory of this one. What `with_models` and `with_executors` have
        changed is as it was before.

        Args:
            prompts: By prompt types, the text of a template, in the language and with the settings
                that the stage has; or what `Agent(prompts=...)` takes.
            model: Instead of the agent's model; stages with a model of their own keep it.
            instruction: Instead of the agent's instruction.

        Raises:
            DefinitionError: The changed agent is wrong; `TemplateError` when a template is.
            ValidationError: There is no such stage.
        """
        from orchestrator.agent.overrides import change_overrides

        changes: dict[str, Any] = {}
        if prompts:
            known = self._make_plan.keywords["overrides"]
            changes["overrides"] = change_overrides(self.plan, known, prompts)
        if model is not None:
            changes["model"] = resolve_model(model)
        if instruction is not None:
            changes["instruction"] = instruction
        agent = copy(self)
        agent._tenant_plans = {}
        agent._make_plan = partial(self._make_plan, **changes)
        agent.plan = replace(agent._make_plan(), alias_arn=self.plan.alias_arn)
        if self.plan.tenant:
            agent.plan = agent.plan.for_tenant(self.plan.tenant)
        return agent


def _once_for_each(change: Callable[[Model], Model]) -> Callable[[Model], Model]:
    made: dict[int, Model] = {}  # the models live as long as the plan that is changed

    def find(model: Model) -> Model:
        if id(model) not in made:
            made[id(model)] = change(model)
        return made[id(model)]

    return find
