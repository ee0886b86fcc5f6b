"""A real server of agents in folders, and plain HTTP to ask it with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from orchestrator.models import Model
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
INSTRUCTION = "You help employees with their vacations, and with nothing else at all."
BY_CALLER = {"customControl": "RETURN_CONTROL"}


def function(name: str, confirms: bool = False) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"Does {name}.",
        "parameters": {
            "employee": {"type": "string", "required": True},
            "days": {"type": "integer"},
        },
        "requireConfirmation": "ENABLED" if confirms else "DISABLED",
    }


def group(*functions: dict[str, Any], executor: Any = None) -> dict[str, Any]:
    return {
        "actionGroupName": "hr",
        "actionGroupExecutor": executor or BY_CALLER,
        "functionSchema": {"functions": list(functions)},
    }


def write_agent(folder: Path, name: str, **members: Any) -> None:
    """An agent's folder."""
    folder.mkdir(parents=True)
    made = {"agentName": name, "instruction": INSTRUCTION, "foundationModel": CLAUDE, **members}
    (folder / "agent.yaml").write_text(json.dumps(made))


def calls(*named: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """A reply that calls tools."""
    return [
        {"toolUse": {"toolUseId": f"t-{number}", "name": name, "input": arguments}}
        for number, (name, arguments) in enumerate(named)
    ]


def says(text: str) -> str:
    return f"<thinking>I know it.</thinking><answer>{text}</answer>"


@dataclass
class Heard:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of server-sent events; what is no JSON stays text."""
        *blocks, rest = self.body.decode("ascii").split("\n\n")
        assert rest == ""
        assert all(block.startswith("data: ") and "\n" not in block for block in blocks)
        return [_json_or_text(block.removeprefix("data: ")) for block in blocks]


def _json_or_text(text: str) -> Any:
    return text if text == "[DONE]" else json.loads(text)


@dataclass
class Server:
    """A server that runs."""

    url: str
    model: Any
    world: ServerState

    def open(self) -> HTTPConnection:
        return HTTPConnection(self.url.removeprefix("http://"), timeout=60)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Heard:
        """One request; `headers` have `_` for `-`."""
        connection = self.open()
        try:
            content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, content, {"Content-Type": "application/json", **named})
            response = connection.getresponse()
            told = {name.lower(): value for name, value in response.getheaders()}
            return Heard(response.status, told, response.read())
        finally:
            connection.close()

    def complete(self, *messages: dict[str, Any], **members: Any) -> Heard:
        """One chat completion."""
        headers = members.pop("headers", {})
        body = {"model": "vacations", "messages": list(messages), **members}
        return self.ask("POST", "/v1/chat/completions", body, **headers)


@contextmanager
def served(model: Model, agents: Path | None, **settings: Any) -> Iterator[Server]:
    """A server of a folder's agents, all of whose models are `model`."""
    given = Settings(port=0, agents=agents, **settings)
    with ServerState(given, models={"*": model}) as world, serve_in_thread(world) as url:
        yield Server(url, model, world)


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def tool(call: Mapping[str, Any], text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call["id"], "content": text}
