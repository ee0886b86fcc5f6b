"""What tests of the runtime API share: a real server of some agents, and boto3's own client."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from orchestrator.models import Model
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.testing import ScriptedModel

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
INSTRUCTION = "You help employees with their vacations, and with nothing else at all."
AGENT_ID, ALIAS_ID = "VACATIONS1", "TSTALIASID"
LAMBDA = "arn:aws:lambda:us-east-1:000000000000:function:vacations"
FUNCTIONS = [
    {
        "name": "get_days",
        "description": "The vacation days that an employee has left.",
        "parameters": {
            "employee": {"type": "string", "description": "Who.", "required": True},
        },
    },
    {
        "name": "book",
        "description": "Books vacation days.",
        "parameters": {"days": {"type": "integer", "description": "How many.", "required": True}},
        "requireConfirmation": "ENABLED",
    },
]


def definition(**members: Any) -> dict[str, Any]:
    """The members of an agent's `agent.yaml`."""
    return {
        "agentId": AGENT_ID,
        "agentName": "vacations",
        "foundationModel": CLAUDE,
        "instruction": INSTRUCTION,
        **members,
    }


def group(executor: Mapping[str, Any], name: str = "hr") -> dict[str, Any]:
    return {
        "actionGroupName": name,
        "actionGroupExecutor": dict(executor),
        "functionSchema": {"functions": FUNCTIONS},
    }


BY_LAMBDA = group({"lambda": LAMBDA})
BY_CALLER = group({"customControl": "RETURN_CONTROL"})
ASKS_USER = {
    "actionGroupName": "UserInputAction",
    "parentActionGroupSignature": "AMAZON.UserInput",
}


def calls(name: str, arguments: dict[str, Any], id: str = "t-1") -> list[dict[str, Any]]:
    """A reply that calls a tool."""
    use = {"toolUseId": id, "name": name, "input": arguments}
    return [{"text": "<thinking>I call.</thinking>"}, {"toolUse": use}]


def says(text: str) -> str:
    return f"<thinking>I know it.</thinking><answer>{text}</answer>"


class HumanResources:
    """A Lambda function of the action group, and the events that it got."""

    def __init__(self, text: str = "12 days") -> None:
        self.text = text
        self.events: list[dict[str, Any]] = []

    def __call__(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        self.events.append(event)
        return {
            "messageVersion": "1.0",
            "response": {
                "actionGroup": event["actionGroup"],
                "function": event["function"],
                "functionResponse": {"responseBody": {"TEXT": {"body": self.text}}},
            },
        }


@dataclass
class Runtime:
    """A server that runs, and a client of it."""

    world: ServerState
    client: Any
    url: str
    model: Any

    def invoke(self, text: str = "", session_id: str = "s-1", **params: Any) -> dict[str, Any]:
        """One InvokeAgent; the answer's members, its events in `events` and its text."""
        given = {"agentId": AGENT_ID, "agentAliasId": ALIAS_ID, "inputText": text, **params}
        return told(self.client.invoke_agent(sessionId=session_id, **given))

    @contextmanager
    def as_caller(self, key: str, secret: str) -> Iterator[Runtime]:
        """The same server, called with other credentials."""
        with closing(client_of(self.url, key, secret)) as client:
            yield replace(self, client=client)

    def inline(self, text: str = "", session_id: str = "s-1", **params: Any) -> dict[str, Any]:
        """One InvokeInlineAgent, likewise."""
        given = {"foundationModel": CLAUDE, "instruction": INSTRUCTION, **params}
        return told(self.client.invoke_inline_agent(sessionId=session_id, inputText=text, **given))


def told(response: dict[str, Any]) -> dict[str, Any]:
    with closing(response.pop("completion")) as stream:
        events = list(stream)
    chunks = [event["chunk"] for event in events if "chunk" in event]
    text = b"".join(chunk.get("bytes", b"") for chunk in chunks).decode()
    return {**response, "events": events, "chunks": chunks, "text": text}


def kinds(answer: Mapping[str, Any]) -> list[str]:
    """The names of the events, traces by what they tell."""
    found = []
    for event in answer["events"]:
        ((name, members),) = event.items()
        if name == "trace":
            ((trace, steps),) = members["trace"].items()
            name = next(it for it in steps if it != "traceId") if "Trace" in trace else trace
        found.append(name)
    return found


def write_agent(folder: Path, members: Mapping[str, Any], **files: str) -> Path:
    """An agent's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "agent.yaml").write_text(json.dumps(members))
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@contextmanager
def running(
    model: Model | None = None,
    agents: Path | None = None,
    *,
    lambdas: Mapping[str, Callable[..., Any]] | None = None,
    models: Mapping[str, Model] | None = None,
    embedder: Any = "local",
    **settings: Any,
) -> Iterator[Runtime]:
    """A server of a folder's agents, all of whose models are `model`, or as `models` says."""
    model = model or ScriptedModel([], CLAUDE)
    given = Settings(port=0, agents=agents, **settings)
    opened = ServerState(
        given, models={"*": model} if models is None else models, lambdas=lambdas, embedder=embedder
    )
    with opened as world, serve_in_thread(world) as url, closing(client_of(url)) as client:
        yield Runtime(world, client, url, model)


def client_of(url: str, key: str = "AKIDEXAMPLE", secret: str = "secret") -> Any:
    """An unmodified client of boto3's, which tries once; to be closed."""
    return boto3.client(
        "bedrock-agent-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}, read_timeout=60),
    )
