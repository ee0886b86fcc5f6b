"""A real server of scripted models, and what tests ask it with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config

from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.server.operations import Caller, Request
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
NOVA = "us.amazon.nova-lite-v1:0"
HELLO = [{"role": "user", "content": [{"text": "Hello"}]}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"toolSpec": {"name": "weather", "description": "Now.", "inputSchema": {"json": SCHEMA}}}
TOOL_USE = {"toolUse": {"toolUseId": "t-1", "name": "weather", "input": {"city": "Zürich"}}}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "Rain?", "signature": "c2ln"}}}
REDACTED = {"reasoningContent": {"redactedContent": "c2VjcmV0"}}
THINKS = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


@dataclass
class Served:
    """A server that runs, and its client."""

    url: str
    client: Any
    model: Any


def client_of(url: str, service: str = "bedrock-runtime") -> Any:
    """An unmodified client of boto3's, which tries once."""
    return boto3.client(
        service,
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="secret",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=60),
    )


@contextmanager
def served(model: Model, **settings: Any) -> Iterator[Served]:
    """A server whose every model is `model`."""
    given = Settings(port=0, **settings)
    with ServerState(given, models={"*": model}) as world, serve_in_thread(world) as url:
        with closing(client_of(url)) as client:
            yield Served(url, client, model)


def request(params: Mapping[str, Any], caller: Caller | None = None) -> Request:
    """A call, as a handler gets it."""
    return Request("bedrock-runtime", "", dict(params), caller or Caller(), "0f-1e")


def body(value: Any) -> dict[str, Any]:
    """The parameters of InvokeModel for a JSON body."""
    return {"modelId": CLAUDE, "body": json.dumps(value).encode()}


class Failing(Model):
    """Says some pieces, then fails."""

    model_id = CLAUDE

    def __init__(self, error: Exception, *pieces: str) -> None:
        self.error = error
        self.pieces = pieces

    def complete(self, request: ModelRequest) -> ModelReply:
        raise self.error

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        yield from self.pieces
        raise self.error
