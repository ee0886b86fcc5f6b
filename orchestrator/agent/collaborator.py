"""An agent in the team of another, as `Agent(collaborators=...)` takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.engine.plan import Member, Plan
from orchestrator.engine.remote import RemoteAgent
from orchestrator.errors import DefinitionError

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent

__all__ = ["Collaborator"]


@dataclass(frozen=True, slots=True)
class Collaborator:
    """An agent that a supervisor may give work to.

    Attributes:
        agent: The agent; a `RemoteAgent`, such as `BedrockAgent`, runs elsewhere.
        instruction: When to give it work, for the supervisor's model.
        name: Its name in the team; the agent's own name when empty.
        relay_conversation_history: Whether it reads the supervisor's conversation with the user;
            otherwise it knows only what it was sent itself.
    """

    agent: Agent | RemoteAgent
    instruction: str
    name: str = ""
    relay_conversation_history: bool = False

    def as_member(self) -> Member:
        """The collaborator, as a plan takes it.

        Raises:
            DefinitionError: An agent elsewhere has no name in the team, or it is no agent.
        """
        agent, relay = self.agent, self.relay_conversation_history
        if isinstance(agent, RemoteAgent):
            if not self.name:
                raise DefinitionError(f"give the collaborator {agent.alias_arn!r} a name")
            return Member(self.name, self.instruction, None, agent, relay)
        plan = getattr(agent, "plan", None)
        if not isinstance(plan, Plan):
            raise DefinitionError(
                f"a collaborator is an Agent, such as Agent.load(folder), or a BedrockAgent, and "
                f"not {agent!r}"
            )
        return Member(self.name or agent.name, self.instruction, plan, None, relay)
