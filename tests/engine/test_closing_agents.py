"""An agent can be closed: what it and its team hold ends before the process does."""

from __future__ import annotations

from orchestrator import ActionGroup, Agent, Collaborator
from orchestrator.actions import ActionResult, Call, CallContext
from orchestrator.testing import ScriptedModel

FUNCTIONS = [{"name": "ping", "description": "Pings.", "parameters": {}}]
INSTRUCTION = "You look after the machines that people ask about."


class Server:
    """An executor that holds something."""

    def __init__(self) -> None:
        self.closed = 0

    def call(self, call: Call, context: CallContext) -> ActionResult:
        return ActionResult("pong")

    def close(self) -> None:
        self.closed += 1


class Index:
    """A knowledge base that holds something."""

    id = "MANUALS001"
    description = "Manuals."

    def __init__(self) -> None:
        self.closed = 0

    def retrieve(self, query: str, configuration: object = None) -> list[dict[str, object]]:
        return []

    def close(self) -> None:
        self.closed += 1


def agent(name: str, server: Server, **more: object) -> Agent:
    group = ActionGroup("machines", functions=FUNCTIONS, executor=server)
    return Agent(name, INSTRUCTION, ScriptedModel([]), action_groups=[group], **more)  # type: ignore[arg-type]


def test_an_agent_closes_what_it_holds() -> None:
    server, index = Server(), Index()
    with agent("ops", server, knowledge_bases=[index]):
        assert (server.closed, index.closed) == (0, 0)
    assert (server.closed, index.closed) == (1, 1)


def test_a_supervisor_closes_its_team() -> None:
    own, other = Server(), Server()
    team = [Collaborator(agent("machines", other), "Machines.")]
    agent("lead", own, collaborators=team).close()
    assert (own.closed, other.closed) == (1, 1)


def test_what_holds_nothing_needs_no_closing() -> None:
    Agent("plain", INSTRUCTION, ScriptedModel([])).close()
