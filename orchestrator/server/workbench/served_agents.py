"""A server's agents in its workbench: those in folders, and those made through its API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator.agent.agent import Agent
from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.models.prices import parse_prices
from orchestrator.server.access.guards import is_loopback
from orchestrator.server.ids import TEST_ALIAS
from orchestrator.server.operations import Caller, Fault
from orchestrator.server.settings import Settings
from orchestrator.server.workbench.app import build_workbench
from orchestrator.server.workbench.projects import Project, Projects
from orchestrator.server.workbench.security import ROOT

if TYPE_CHECKING:
    from orchestrator.server.agents.registry import Agents
    from orchestrator.server.state import ServerState


def check_workbench(settings: Settings) -> None:
    """Refuses a workbench that others than this machine's user could reach.

    Raises:
        ValidationError: The server listens on another address, or is for others; or it has several
            processes, each of which would have a workbench with a token of its own.
    """
    if not settings.workbench:
        if settings.price:
            raise ValidationError("--price is for the workbench: give --workbench, too")
        return
    parse_prices(settings.price)
    reason = ""
    if not is_loopback(settings.host):
        reason = f"on {settings.host!r} others than this machine could reach it: leave --host out"
    elif settings.open or settings.keys is not None:
        option = "--open" if settings.open else "--keys"
        reason = f"with {option} the server is for others, whose sessions it would show"
    elif settings.workers > 1:
        reason = f"it runs in one process, and not in {settings.workers}: leave --workers out"
    if reason:
        raise ValidationError(
            f"--workbench shows all that agents were told, and saves templates; {reason}"
        )


class WorkbenchDoor:
    """The server's application, and the workbench beside it.

    Attributes:
        address: Where the workbench is, below the server's URL, with its token.
    """

    def __init__(self, app: ASGIApp, state: ServerState) -> None:
        """Puts them side by side.

        Raises:
            ValidationError: The server's settings are for no workbench.
        """
        check_workbench(state.settings)
        self._app = app
        projects = ServedProjects(state)
        state.on_close(projects.jobs.close)
        self._gate = build_workbench(projects, state.settings)
        self.address = f"{ROOT}/#t={self._gate.token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands a request to whom it is for."""
        is_own = scope["type"] == "http" and f"{scope['path']}/".startswith(f"{ROOT}/")
        await (self._gate if is_own else self._app)(scope, receive, send)


class ServedProjects(Projects):
    """The agents that a server has now, by their ids."""

    def __init__(self, state: ServerState) -> None:
        """Takes the agents of an open server, which closes them itself."""
        super().__init__((), prices=parse_prices(state.settings.price))
        self._state = state

    def all(self) -> list[Project]:
        """All of them: those in folders first, also those that are wrong."""
        agents = self._state.agents
        folders = agents.folders.all()
        found: list[Project] = [
            ServedProject(self._state, one.agent_id, TEST_ALIAS, one.name, one.folder)
            for one in folders
        ]
        known = {one.agent_id for one in folders}
        for agent_id, alias_id, name, description in agents.list_invocable(Caller()):
            if agent_id not in known:
                made = ServedProject(self._state, agent_id, alias_id, name)
                made.instruction = description
                found.append(made)
        return found

    def find(self, key: str) -> Project:
        """The one with an id.

        Raises:
            ResourceNotFound: There is none.
        """
        found = next((one for one in self.all() if one.key == key), None)
        if found is None:
            raise ResourceNotFound(f"the server has no agent {key!r}")
        return found

    def close(self) -> None:
        """Ends the jobs of pages; agents and sessions are the server's."""
        self.jobs.close()


class ServedProject(Project):
    """An alias of a server's agent."""

    def __init__(
        self,
        state: ServerState,
        agent_id: str,
        alias_id: str,
        name: str,
        folder: Path | None = None,
    ) -> None:
        self._agents: Agents = state.agents
        self._settings = state.settings
        self._ids = agent_id, alias_id
        self._folder = folder
        is_draft = alias_id == TEST_ALIAS
        self.key = agent_id if is_draft else f"{agent_id}.{alias_id}"
        self.name = name if is_draft else f"{name} ({alias_id})"
        self.instruction = ""
        self.sessions = state.sessions
        self.model = None
        self.has_folder = folder is not None

    def list_stand_ins(self) -> list[str]:
        """The options of the server that replace parts of its agents."""
        names = ("model", "models", "lambdas", "buckets", "guardrails")
        return [f"`{name}`" for name in names if getattr(self._settings, name)]

    @property
    def folder(self) -> Path:
        """The folder that it is in.

        Raises:
            ValidationError: It was made through the API.
        """
        if self._folder is None:
            raise ValidationError(
                f"the agent {self.name!r} was made through the API, and has no folder: "
                "`orchestrator pull` brings it into one"
            )
        return self._folder

    def agent(self) -> Agent:
        """The agent as the server has it now.

        Raises:
            OrchestratorError: It is wrong, or not there any more.
        """
        try:
            return self._agents.resolve_alias(Caller(), *self._ids)
        except Fault as fault:
            raise ValidationError(fault.message) from fault

    @contextmanager
    def use(self) -> Iterator[Agent]:
        """The agent as the server has it now, which the server keeps open."""
        yield self.agent()

    def close(self) -> None:
        """Leaves it to the server."""
