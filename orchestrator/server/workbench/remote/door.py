"""Which pages and actions are a remote agent's, and what stands in place of those that it lacks."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from orchestrator.errors import ResourceNotFound
from orchestrator.server.workbench.projects import Projects
from orchestrator.server.workbench.remote.asking import RemoteActions
from orchestrator.server.workbench.remote.pages import RemotePages
from orchestrator.server.workbench.remote.server import RemoteAgent, RemoteServer
from orchestrator.server.workbench.remote.sessions import RemoteSessions

Page = Callable[[Projects, Request], Response]
Action = Callable[[Request], Awaitable[Response]]

_KEY = re.compile(r"remote-(?P<server>[0-9]{1,3})-(?P<agent>\w{10})-(?P<alias>\w{10})", re.ASCII)
_NOT_GIVEN = (
    "the API of a remote server does not give this: where prompts come from, what-if, forks "
    "and earlier sessions are the server's own, and `orchestrator serve --workbench` "
    "shows them beside it"
)


class RemoteDoor:
    """Leads requests for agents of remote servers to their pages.

    The servers are those of the command line: a page names one by its number, and never by an
    address.
    """

    def __init__(self, projects: Projects) -> None:
        self._servers: Sequence[RemoteServer] = projects.servers
        sessions = RemoteSessions()
        self._pages = RemotePages(sessions, projects.prices)
        self._actions = RemoteActions(sessions)

    def describe_servers(self) -> list[dict[str, Any]]:
        """The servers with their agents; this asks them."""
        return [self._pages.describe_server(one) for one in self._servers]

    def wrap_page(self, path: str, page: Page) -> Page:
        """A page, which for remote agents is another one; `path` is below an agent's."""
        other = self._pages.pages.get(path)

        def show(projects: Projects, request: Request) -> Response:
            agent = self._find(request)
            if agent is None:
                return page(projects, request)
            if other is None:
                raise ResourceNotFound(_NOT_GIVEN)
            return other(agent, request)

        return show

    def wrap_action(self, path: str, action: Action) -> Action:
        """An action, which for remote agents is another one."""
        other = {
            "/sessions/{session}/ask": self._actions.ask,
            "/sessions/{session}/end": self._actions.end,
            "/sessions/{session}/delete": self._actions.forget,
            "/memory/forget": self._actions.forget_memory,
        }.get(path)

        async def act(request: Request) -> Response:
            agent = self._find(request)
            if agent is None:
                return await action(request)
            if other is None:
                raise ResourceNotFound(_NOT_GIVEN)
            return await other(agent, request)

        return act

    def _find(self, request: Request) -> RemoteAgent | None:
        """The remote agent of a request; `None` where it is for another one."""
        found = _KEY.fullmatch(request.path_params.get("agent", ""))
        if found is None or not self._servers:
            return None
        number = int(found["server"])
        if number >= len(self._servers):
            raise ResourceNotFound(f"the workbench has no server {number}")
        return RemoteAgent(self._servers[number], found["agent"], found["alias"])
