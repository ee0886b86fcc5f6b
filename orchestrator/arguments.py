"""What `Agent(...)` is given: checked before anything is compiled, so that nothing is ignored."""

from __future__ import annotations

from orchestrator.errors import DefinitionError
from orchestrator.stages import MOST_LEVELS, SINGLE_KNOWLEDGE_BASE, Features

__all__ = ["check_features"]

_COMPAT = frozenset({SINGLE_KNOWLEDGE_BASE})


def check_features(name: str, features: Features) -> None:
    """Refuses what cannot be, or would have no effect.

    Args:
        name: The agent's name.
        features: What it has besides.

    Raises:
        DefinitionError: Something in it is wrong.
    """
    if unknown := set(features.aws_compat) - _COMPAT:
        raise DefinitionError(
            f"agent {name!r} has unknown aws_compat options {sorted(unknown)}; there is "
            f"{', '.join(sorted(_COMPAT))}"
        )
    names = [one.name for one in features.collaborators]
    if twice := {one for one in names if names.count(one) > 1}:
        raise DefinitionError(
            f"agent {name!r} has two collaborators of the name {min(twice)!r}; rename one"
        )
    if "User" in names:
        raise DefinitionError(f"a collaborator of agent {name!r} is called 'User'; rename it")
    deepest = max((one.agent.depth for one in features.collaborators if one.agent), default=0)
    if deepest >= MOST_LEVELS:
        raise DefinitionError(
            f"agent {name!r} leads agents that lead agents, {deepest + 1} levels deep; the most "
            f"are {MOST_LEVELS}"
        )
