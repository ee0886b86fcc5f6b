"""What tests of the workbench share: an agent in a folder, a running workbench, and its client."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orchestrator import Agent
from orchestrator.models import ModelReply, ModelRequest
from orchestrator.models.prices import Price
from orchestrator.server.settings import Settings
from orchestrator.server.workbench.projects import Projects
from orchestrator.server.workbench.run import run_in_thread
from orchestrator.testing import ScriptedModel

MODEL = "anthropic.claude-3-5-sonnet-20240620-v1:0"
ACTIONS = '''
from orchestrator import action


@action
def get_price(item: str) -> str:
    """The price of an item.

    Args:
        item: What it is.
    """
    with open(__file__ + ".calls", "a") as file:
        file.write(item + "\\n")
    return f"{item} costs 12 euros."
'''
DEFINITION = """
agentName: shop
foundationModel: anthropic.claude-3-5-sonnet-20240620-v1:0
instruction: You answer questions about the prices of a shop.
actionGroups:
  - actionGroupName: prices
    actionGroupExecutor:
      python: actions.py
  - actionGroupName: orders
    actionGroupExecutor:
      customControl: RETURN_CONTROL
    functionSchema:
      functions:
        - name: order
          description: Orders an item.
          requireConfirmation: ENABLED
          parameters:
            item: {type: string, description: What., required: true}
        - name: stock
          description: How many there are.
          parameters:
            item: {type: string, description: What., required: true}
"""


def call(name: str, thinking: str = "I look.", **values: Any) -> list[dict[str, Any]]:
    """A reply that calls a function."""
    use = {"toolUseId": f"t-{name}", "name": name, "input": values}
    return [{"text": f"<thinking>{thinking}</thinking>"}, {"toolUse": use}]


def price(item: str = "tea", **more: Any) -> list[dict[str, Any]]:
    """A reply that asks for a price."""
    return call("prices__get_price", item=item, **more)


def answer(text: str) -> str:
    return f"<answer>{text}</answer>"


def write_shop(folder: Path) -> Path:
    """The folder of an agent with an action, and one whose calls are the caller's."""
    own = folder / "shop"
    own.mkdir(parents=True)
    (own / "agent.yaml").write_text(DEFINITION)
    (own / "actions.py").write_text(ACTIONS)
    return own


TEAM = """
agentName: team
foundationModel: anthropic.claude-3-5-sonnet-20240620-v1:0
instruction: You lead those who know the prices of a shop.
agentCollaboration: SUPERVISOR
agentCollaborators:
  - collaboratorName: tea
    agentDescriptor: {folder: tea}
    collaborationInstruction: Ask it about tea.
  - collaboratorName: milk
    agentDescriptor: {folder: milk}
    collaborationInstruction: Ask it about milk.
"""


class TeamModel(ScriptedModel):
    """The model of a team: the lead asks both others at the same time, and they answer."""

    def __init__(self) -> None:
        super().__init__([], MODEL)

    def complete(self, request: ModelRequest) -> ModelReply:
        last = str(request.messages[-1]["content"])
        if "toolResult" in last:
            reply: Any = answer("Both answered.")
        elif "Ask both" in last:
            asked = [{"recipient": who, "content": "How much?"} for who in ("tea", "milk")]
            sent = "AgentCommunication__sendMessage"
            reply = [
                {"toolUse": {"toolUseId": f"t-{number}", "name": sent, "input": one}}
                for number, one in enumerate(asked)
            ]
        else:
            reply = answer("Twelve.")
        return ScriptedModel([reply], MODEL).complete(request)


def write_team(folder: Path) -> Path:
    """The folder of an agent that leads two others."""
    own = folder / "team"
    for name, text in (("", TEAM), ("tea", DEFINITION), ("milk", DEFINITION)):
        (own / name).mkdir(parents=True, exist_ok=True)
        head, _, _ = text.partition("actionGroups:")
        named = head.replace("agentName: shop", f"agentName: {name}")
        (own / name / "agent.yaml").write_text(named)
    return own


def made_calls(folder: Path) -> list[str]:
    """What the action was called with."""
    file = folder / "actions.py.calls"
    return file.read_text().split() if file.exists() else []


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.text.splitlines()]


@dataclass
class Client:
    """Sends requests as they are written: no library rewrites their headers."""

    host: str
    port: int
    headers: dict[str, str] = field(default_factory=dict)
    root: str = "/workbench"

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        given = {"Host": f"{self.host}:{self.port}", **self.headers}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        with closing(http.client.HTTPConnection(self.host, self.port, timeout=60)) as connection:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                connection.putheader(name, value)
            if data is not None:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            reply = connection.getresponse()
            found = {name.lower(): value for name, value in reply.getheaders()}
            return Answer(reply.status, found, reply.read().decode())

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", f"{self.root}{path}", **{"Accept": "application/json", **headers})

    def page(self, path: str) -> Answer:
        return self.get(path, Accept="text/html")

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        own = {"Content-Type": "application/json", "X-Workbench": "1"}
        return self.send("POST", f"{self.root}{path}", body, **{**own, **headers})


@dataclass
class Workbench:
    url: str  # with the token
    client: Client  # knows the token
    stranger: Client  # does not
    projects: Projects
    folder: Path
    model: ScriptedModel

    @property
    def agent(self) -> Agent:
        return self.projects.all()[0].agent()

    @property
    def token(self) -> str:
        return self.url.partition("#t=")[2]


def enter(url: str) -> tuple[Client, Client]:
    """The clients of a workbench's address: one that knows its token, and one that does not."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    stranger = Client(parts.hostname, parts.port)
    entered = stranger.post("/enter", {"token": url.partition("#t=")[2]})
    cookie = entered.headers["set-cookie"].partition(";")[0]
    known = Client(parts.hostname, parts.port, {"Cookie": cookie}, entered.json["root"])
    return known, stranger


@contextmanager
def workbench(
    folder: Path,
    script: Sequence[Any] = (),
    *more: Path,
    model: ScriptedModel | None = None,
    prices: Mapping[str, Price] | None = None,
) -> Iterator[Workbench]:
    """A running workbench over agents, whose model answers what is written."""
    own = folder if (folder / "agent.yaml").exists() else write_shop(folder)
    model = model or ScriptedModel(script, model_id=MODEL)
    projects = Projects([own, *more], model=model, prices=prices)
    with closing(projects), run_in_thread(projects, Settings(port=0)) as url:
        yield Workbench(url, *enter(url), projects, own, model)


@contextmanager
def streaming(bench: Workbench, path: str, body: Any) -> Iterator[Iterator[dict[str, Any]]]:
    """The lines of an answer as they come."""
    client = bench.client
    headers = {**client.headers, "Content-Type": "application/json", "X-Workbench": "1"}
    with closing(http.client.HTTPConnection(client.host, client.port, timeout=60)) as connection:
        connection.request("POST", f"{client.root}{path}", json.dumps(body), headers)
        reply = connection.getresponse()
        assert reply.status == 200
        yield (json.loads(line) for line in reply)
        reply.close()
