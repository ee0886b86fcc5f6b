"""Teams of agents whose models play parts of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crew import Actor

from orchestrator import Agent, Collaborator

Plan = Mapping[str, Any]
Member = Agent | Collaborator


def agent(name: str, plan: Plan, *team: Member, **options: Any) -> Agent:
    """An agent that plays `plan`: replies by words of the question, one for each step.

    Args:
        name: Its name.
        plan: From words of a question to the replies: a text, a mapping from tool names to their
            arguments, a list of messages `(agent, text)`, or an exception.
        *team: Its collaborators.
        **options: As for `Agent`.
    """
    members = [
        one if isinstance(one, Collaborator) else Collaborator(one, f"Sees to {one.name}.")
        for one in team
    ]
    model = options.pop("model", None) or Actor(name, plan)
    return Agent(name, f"You are {name}.", model, collaborators=members, **options)


def model_of(one: Agent) -> Actor:
    """The model of an agent."""
    model = one.plan.orchestration.model
    assert isinstance(model, Actor)
    return model
