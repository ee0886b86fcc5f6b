"""What tests of the agents' API share: a real server with a scripted model, and boto3's clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.testing import ScriptedModel

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
CLAUDE_3 = "anthropic.claude-3-sonnet-20240229-v1:0"
ID = "VACATIONS1"
ROLE = "arn:aws:iam::123456789012:role/AgentRole"
INSTRUCTION = "You help employees with their vacations, and with nothing else at all."
LAMBDA = "arn:aws:lambda:us-east-1:123456789012:function:vacations"
FUNCTIONS = [
    {
        "name": "get_days",
        "description": "The vacation days that an employee has left.",
        "parameters": {"employee": {"type": "string", "required": True}},
    }
]
OPENAPI = json.dumps(
    {
        "openapi": "3.0.0",
        "info": {"title": "t", "version": "1"},
        "paths": {
            "/days": {
                "get": {
                    "operationId": "getDays",
                    "description": "Vacation days.",
                    "responses": {"200": {"description": "ok"}},
                }
            }
        },
    }
)


class Answering(ScriptedModel):
    """A model whose replies a function of the request gives."""

    def __init__(self, answer: Callable[[ModelRequest], Any]) -> None:
        super().__init__([], CLAUDE)
        self.answer = answer

    def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        return ScriptedModel([self.answer(request)], CLAUDE).complete(request)


BASE = {
    "name": "handbook",
    "roleArn": "arn:aws:iam::123456789012:role/BaseRole",
    "knowledgeBaseConfiguration": {
        "type": "VECTOR",
        "vectorKnowledgeBaseConfiguration": {
            "embeddingModelArn": "arn:aws:bedrock:us-east-1::foundation-model/titan"
        },
    },
}


def says(text: str) -> str:
    return f"<thinking>I know it.</thinking><answer>{text}</answer>"


def calls(name: str, arguments: Mapping[str, Any], id: str = "t-1") -> list[dict[str, Any]]:
    use = {"toolUseId": id, "name": name, "input": dict(arguments)}
    return [{"text": "<thinking>I call.</thinking>"}, {"toolUse": use}]


def members(name: str = "claims", **given: Any) -> dict[str, Any]:
    """The parameters of CreateAgent."""
    return {
        "agentName": name,
        "foundationModel": CLAUDE,
        "instruction": INSTRUCTION,
        "agentResourceRoleArn": ROLE,
        **given,
    }


def by_caller(name: str = "hr", **given: Any) -> dict[str, Any]:
    """The parameters of CreateAgentActionGroup, apart from whose it is."""
    return {
        "actionGroupName": name,
        "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
        "functionSchema": {"functions": FUNCTIONS},
        **given,
    }


def by_lambda(name: str = "hr", arn: str = LAMBDA) -> dict[str, Any]:
    return by_caller(name, actionGroupExecutor={"lambda": arn})


@dataclass
class Served:
    """A server that runs, and its clients."""

    world: ServerState
    url: str
    model: Any

    def __post_init__(self) -> None:
        self.control = self.as_key("anybody").client("bedrock-agent", **self._at())
        self.runtime = self.as_key("anybody").client("bedrock-agent-runtime", **self._at())

    @cached_property
    def models(self) -> Any:
        """A client of the models."""
        return self.client("bedrock-runtime")

    def clients(self, service: str) -> Any:
        """A client of a service, made once."""
        known = self.__dict__.setdefault("_clients", {})
        if service not in known:
            known[service] = self.client(service)
        return known[service]

    def client(self, service: str, key: str = "anybody", secret: str = "x" * 20) -> Any:
        """A client of a service, with a key."""
        return self.as_key(key, secret).client(service, **self._at())

    def _at(self) -> dict[str, Any]:
        # One try: what is refused is to be seen at once.
        config = Config(retries={"total_max_attempts": 1})
        return {"endpoint_url": self.url, "config": config}

    @staticmethod
    @cache  # a session reads AWS's descriptions of its services anew
    def as_key(key: str, secret: str = "x" * 20) -> boto3.Session:
        return boto3.Session(
            aws_access_key_id=key, aws_secret_access_key=secret, region_name="us-east-1"
        )

    def control_as(self, key: str, secret: str) -> Any:
        return self.as_key(key, secret).client("bedrock-agent", **self._at())

    def runtime_as(self, key: str, secret: str) -> Any:
        return self.as_key(key, secret).client("bedrock-agent-runtime", **self._at())

    def create(self, name: str = "claims", **given: Any) -> str:
        """The id of a new agent."""
        id: str = self.control.create_agent(**members(name, **given))["agent"]["agentId"]
        return id

    def add(self, agent_id: str, **given: Any) -> str:
        """The id of a new action group."""
        made = self.control.create_agent_action_group(
            agentId=agent_id, agentVersion="DRAFT", **given
        )
        id: str = made["agentActionGroup"]["actionGroupId"]
        return id

    def prepare(self, agent_id: str) -> dict[str, Any]:
        """The agent, prepared or failed."""
        assert self.control.prepare_agent(agentId=agent_id)["agentStatus"] == "PREPARING"
        found: dict[str, Any] = self.control.get_agent(agentId=agent_id)["agent"]
        return found

    def alias(self, agent_id: str, name: str = "live", **given: Any) -> dict[str, Any]:
        made = self.control.create_agent_alias(agentId=agent_id, agentAliasName=name, **given)
        found: dict[str, Any] = made["agentAlias"]
        return found

    def ready(self, name: str = "claims", **given: Any) -> str:
        """The id of a new agent that is prepared."""
        id = self.create(name, **given)
        assert self.prepare(id)["agentStatus"] == "PREPARED"
        return id

    def ask(
        self, agent_id: str, alias_id: str = "TSTALIASID", text: str = "Hello?", **given: Any
    ) -> str:
        """The answer of an agent, or what it returns control for."""
        session = given.pop("sessionId", f"s-{agent_id}-{alias_id}")
        runtime = given.pop("client", self.runtime)
        answer = runtime.invoke_agent(
            agentId=agent_id, agentAliasId=alias_id, sessionId=session, inputText=text, **given
        )
        # botocore leaves the connection open when the stream has an error.
        with closing(answer["completion"]) as stream:
            events = list(stream)
        text = "".join(it["chunk"]["bytes"].decode() for it in events if "chunk" in it)
        controls = [
            it["returnControl"]["invocationInputs"] for it in events if "returnControl" in it
        ]
        return text or json.dumps(controls)


@contextmanager
def served(
    script: Sequence[Any] | Callable[[Any], Any] = (),
    *,
    model: Model | None = None,
    lambdas: Mapping[str, Callable[..., Any]] | None = None,
    files: Mapping[str, str] | None = None,
    answers_for: str = "*",
    **settings: Any,
) -> Iterator[Served]:
    """A server whose model answers from a script, whatever model of `answers_for` is named.

    Functions stand for Lambda functions in `lambdas`, and handler files in `files`.
    """
    answers = model or (
        Answering(script) if callable(script) else ScriptedModel(list(script), CLAUDE)
    )
    given = Settings(port=0, shutdown_seconds=1.0, lambdas=files or {}, **settings)
    with ServerState(given, models={answers_for: answers}, lambdas=lambdas) as world:
        with serve_in_thread(world) as url:
            yield Served(world, url, answers)


@contextmanager
def refused(name: str, text: str = "") -> Iterator[None]:
    """Expects an exception that the operation models."""
    with pytest.raises(ClientError) as found:
        yield
    error = found.value.response["Error"]
    assert error["Code"] == name, error
    assert text in error["Message"], error


def write_keys(file: Path, secret: str, **tenants: Sequence[str]) -> Path:
    """A file of access keys: of each tenant, what it may use; the key of `one` is `AKIDONE`."""
    entries = [
        {
            "accessKeyId": f"AKID{tenant.upper()}",
            "secretAccessKey": secret,
            "tenant": tenant,
            "allow": list(allow),
        }
        for tenant, allow in tenants.items()
    ]
    file.write_text(json.dumps(entries))
    file.chmod(0o600)
    return file


def definition(**given: Any) -> dict[str, Any]:
    """An agent in a folder, as its file has it."""
    return {
        "agentId": ID,
        "agentName": "vacations",
        "foundationModel": CLAUDE,
        "instruction": INSTRUCTION,
        **given,
    }


def write_agent(folder: Path, data: Mapping[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "agent.json").write_text(json.dumps(data))
    return folder
