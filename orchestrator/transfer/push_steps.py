"""Steps that change an agent at an endpoint: sent, awaited and reported; or only reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from orchestrator.errors import DependencyFailed
from orchestrator.transfer.remote import Remote

_DONE = {
    "create": "created",
    "update": "updated",
    "delete": "deleted",
    "change": "changed",
    "prepare": "prepared",
    "move": "moved",
    "add": "added",
    "take away": "took away",
}

_AT_WORK = ("CREATING", "PREPARING", "UPDATING", "VERSIONING")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was done, or in a dry run would be.

    Attributes:
        agent: The agent's name.
        verb: `create`, `update`, `delete`, `change`, `prepare`, `move`, `add` or `take away`.
        what: What it was done to, such as `the action group 'claims'`.
    """

    agent: str
    verb: str
    what: str

    @property
    def text_when_done(self) -> str:
        """The step, once it is done."""
        return f"{_DONE[self.verb]} {self.what}"

    @property
    def dry_run_text(self) -> str:
        """The step in a dry run."""
        return f"would {self.verb} {self.what}"


@dataclass(frozen=True, slots=True)
class Waiter:
    """How to wait for what takes time at the service."""

    seconds: float = 300.0  # how long at most
    # Seconds before the second look; each further wait is twice as long, up to two
    first: float = 0.1
    sleep: Callable[[float], object] = time.sleep  # waits for a number of seconds

    def wait_for_status(
        self,
        what: str,
        look: Callable[[], tuple[str, Collection[str]]],
        done: Collection[str] = ("PREPARED", "NOT_PREPARED"),
    ) -> None:
        """Waits until a status is one of `done`.

        Raises:
            DependencyFailed: It failed, or took too long.
        """
        waited, pause = 0.0, self.first
        while True:
            status, reasons = look()
            if status in done:
                return
            # FAILED, or a status that the API does not have yet: waiting longer would not help.
            if status not in _AT_WORK:
                why = "; ".join(map(str, reasons))
                raise DependencyFailed(f"{what} is {status}{': ' if why else ''}{why}")
            if waited >= self.seconds:
                raise DependencyFailed(f"{what} is {status} after {waited:.0f} seconds")
            self.sleep(pause)
            waited, pause = waited + pause, min(2 * pause, 2.0)


@dataclass(slots=True)
class Sender:
    """Sends what changes an agent."""

    remote: Remote  # where to
    dry_run: bool = False  # whether nothing is sent
    report: Callable[[Step], None] | None = None  # gets every step, once it is done
    wait: Waiter = field(default_factory=Waiter)  # how to wait
    steps: list[Step] = field(default_factory=list)  # the steps that were reported

    @contextmanager
    def step(self, agent: str, verb: str, what: str) -> Iterator[None]:
        """What is done within is one step."""
        yield
        step = Step(agent, verb, what)
        self.steps.append(step)
        if self.report is not None:
            self.report(step)

    def send(self, agent: str, operation: str, **params: Any) -> dict[str, Any]:
        """Sends a request that changes something; nothing in a dry run.

        Raises:
            OrchestratorError: It failed.
        """
        if self.dry_run:
            return {}
        return self.remote.call(f"the agent {agent!r}", operation, **params)

    def fetch_agent(self, agent_id: str) -> dict[str, Any]:
        """The answer of GetAgent."""
        answer = self.remote.call(f"the agent {agent_id!r}", "get_agent", agentId=agent_id)
        agent: dict[str, Any] = answer.get("agent") or {}
        return agent

    def wait_until_settled(self, agent_id: str) -> None:
        """Waits until an agent can be changed again."""
        # AWS refuses changes of an agent that is CREATING, UPDATING or PREPARING.
        if self.dry_run:
            return

        def look() -> tuple[str, Collection[str]]:
            agent = self.fetch_agent(agent_id)
            return str(agent.get("agentStatus")), agent.get("failureReasons") or []

        self.wait.wait_for_status(f"the agent {agent_id!r}", look)
