"""Aliases that lead to an agent as it is now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from orchestrator.errors import DependencyFailed
from orchestrator.transfer.compare import is_same_content
from orchestrator.transfer.pull import find_alias_id, read_alias_version, read_single_agent
from orchestrator.transfer.push_steps import Sender
from orchestrator.transfer.remote import DRAFT, check_id, parse_alias_arn

NEW_ALIAS = "arn:aws:bedrock:us-east-1:000000000000:agent-alias/0000000000/0000000000"
"""Stands in a dry run for the ARN of an alias that is not made."""


def ensure_alias(
    sender: Sender, agent: str, agent_id: str, wanted: Mapping[str, Any], name: str, arn: str = ""
) -> str:
    """The ARN of an alias that leads to a version with an agent's content.

    The alias is made when there is none. One that leads to an older version gets a new one; one
    that leads to the working draft is left alone.

    Args:
        sender: Sends the changes.
        agent: The agent's name.
        agent_id: Its id; empty in the dry run of a new agent.
        wanted: Its content.
        name: The alias's name or id.
        arn: The ARN of the alias to use instead, if it is one of this agent.

    Raises:
        OrchestratorError: The endpoint failed, or told something that cannot be.
    """
    return _AliasUpdater(sender, agent, agent_id, wanted).ensure(name, arn)


class _AliasUpdater:
    def __init__(
        self, sender: Sender, agent: str, agent_id: str, wanted: Mapping[str, Any]
    ) -> None:
        self.sender = sender
        self.remote = sender.remote
        self.agent = agent
        self.agent_id = agent_id
        self.wanted = wanted

    def ensure(self, name: str, arn: str) -> str:
        ids = parse_alias_arn(arn)
        alias_id = ids[1] if ids and ids[0] == self.agent_id else ""
        if not alias_id and self.agent_id:
            alias_id = find_alias_id(self.remote, self.agent_id, name)
        if not alias_id:
            with self.sender.step(self.agent, "create", f"the alias {name!r}"):
                answer = self.sender.send(
                    self.agent, "create_agent_alias", agentId=self.agent_id, agentAliasName=name
                )
                if self.sender.dry_run:
                    return NEW_ALIAS
                alias_id = check_id(
                    (answer.get("agentAlias") or {}).get("agentAliasId"), "an alias"
                )
                return self.wait_until_ready(alias_id)
        if self.is_behind(alias_id):
            self.move(alias_id)
        return self.wait_until_ready(alias_id)

    def fetch_alias(self, alias_id: str) -> dict[str, Any]:
        """What GetAgentAlias tells."""
        answer = self.remote.call(
            f"the alias {alias_id!r}",
            "get_agent_alias",
            agentId=self.agent_id,
            agentAliasId=alias_id,
        )
        alias: dict[str, Any] = answer.get("agentAlias") or {}
        return alias

    def is_behind(self, alias_id: str) -> bool:
        """Whether the version that an alias leads to is not what the agent is to be."""
        version = read_alias_version(self.remote, self.agent_id, alias_id)
        if version == DRAFT:
            return False
        there = read_single_agent(self.remote, self.agent_id, version)
        return not is_same_content(there.data, self.wanted)

    def move(self, alias_id: str) -> None:
        """Has an alias lead to a new version, which is made when none is named."""
        alias = self.fetch_alias(alias_id)
        name = str(alias.get("agentAliasName"))
        with self.sender.step(self.agent, "move", f"the alias {name!r} to a new version"):
            self.sender.send(
                self.agent,
                "update_agent_alias",
                agentId=self.agent_id,
                agentAliasId=alias_id,
                agentAliasName=name,
                description=alias.get("description") or None,
            )
            if self.sender.dry_run:
                return
            self.wait_until_ready(alias_id)
            if self.is_behind(alias_id):
                raise DependencyFailed(
                    f"the alias {name!r} still leads to the version before; route it to a new one"
                )

    def wait_until_ready(self, alias_id: str) -> str:
        """Waits until an alias can be used, and gives its ARN."""
        arn = ""

        def look() -> tuple[str, Collection[str]]:
            nonlocal arn
            alias = self.fetch_alias(alias_id)
            arn = str(alias.get("agentAliasArn"))
            return str(alias.get("agentAliasStatus")), alias.get("failureReasons") or []

        self.sender.wait.wait_for_status(f"the alias {alias_id!r}", look, ("PREPARED",))
        if parse_alias_arn(arn) != (self.agent_id, alias_id):
            raise DependencyFailed(f"{arn!r} is not the ARN of the alias {alias_id!r}")
        return arn
