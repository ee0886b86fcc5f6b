"""Servers of one's own, and agents that use everything that can be carried."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
import yaml
from botocore.config import Config

from orchestrator.server.agents import store
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.testing import ScriptedModel
from orchestrator.transfer import Document, Options, PushResult, Remote, files_of, push, read_agent
from orchestrator.transfer.push_steps import Waiter

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
ROLE = "arn:aws:iam::123456789012:role/AmazonBedrockExecutionRoleForAgents_1"
FUNCTION = "arn:aws:lambda:eu-central-1:123456789012:function:claims"
PARSER = "arn:aws:lambda:eu-central-1:123456789012:function:parser"
TEMPLATE = json.dumps(
    {
        "anthropic_version": "bedrock-2023-05-31",
        "system": "You are a sailor.\n$instruction$",
        "messages": [
            {"role": "user", "content": "$question$"},
            {"role": "assistant", "content": "$agent_scratchpad$"},
        ],
    },
    indent=2,
)
SCHEMA = {
    "openapi": "3.0.0",
    "info": {"title": "claims", "version": "1"},
    "paths": {
        "/claims/{id}": {
            "get": {
                "operationId": "getClaim",
                "description": "Details of one claim.",
                "parameters": [
                    {
                        "name": "id",
                        "in": "path",
                        "required": True,
                        "description": "Its number.",
                        "schema": {"type": "string"},
                    }
                ],
                "responses": {"200": {"description": "The claim."}},
            }
        }
    },
}
FUNCTIONS = [
    {
        "name": "book_visit",
        "description": "Book a visit of an assessor.",
        "parameters": {"day": {"type": "string", "description": "The day.", "required": True}},
        "requireConfirmation": "ENABLED",
    }
]
INSTRUCTION = "You help the customers of an insurer with what they ask about their claims."
NOW = Waiter(sleep=lambda seconds: None)


def whole(**members: Any) -> dict[str, Any]:
    """An agent that has one of everything but collaborators."""
    return {
        "agentName": "claims",
        "description": "Answers questions about claims.",
        "instruction": INSTRUCTION,
        "foundationModel": CLAUDE,
        "idleSessionTTLInSeconds": 900,
        "agentResourceRoleArn": ROLE,
        "tags": {"team": "claims", "stage": "test"},
        "actionGroups": [
            {
                "actionGroupName": "visits",
                "functionSchema": {"functions": FUNCTIONS},
                "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
            },
            {
                "actionGroupName": "claims",
                "description": "Everything about claims.",
                "apiSchema": {"payload": json.dumps(SCHEMA, indent=2)},
                "actionGroupExecutor": {"lambda": FUNCTION},
            },
            {
                "actionGroupName": "ask",
                "parentActionGroupSignature": "AMAZON.UserInput",
                "actionGroupState": "DISABLED",
            },
        ],
        "knowledgeBases": [
            {"knowledgeBaseId": "KB00000001", "description": "The rules."},
            {
                "knowledgeBaseId": "KB00000002",
                "description": "Older rules.",
                "knowledgeBaseState": "DISABLED",
            },
        ],
        "guardrailConfiguration": {"guardrailIdentifier": "abc123", "guardrailVersion": "1"},
        "promptOverrideConfiguration": {
            "promptConfigurations": [
                {
                    "promptType": "ORCHESTRATION",
                    "promptCreationMode": "OVERRIDDEN",
                    "promptState": "ENABLED",
                    "basePromptTemplate": TEMPLATE,
                    "inferenceConfiguration": {
                        "temperature": 0.0,
                        "topP": 0.9,
                        "topK": 100,
                        "maximumLength": 1024,
                        "stopSequences": ["</stop>"],
                    },
                    "parserMode": "OVERRIDDEN",
                }
            ],
            "overrideLambda": PARSER,
        },
        "memoryConfiguration": {
            "enabledMemoryTypes": ["SESSION_SUMMARY"],
            "storageDays": 20,
            "sessionSummaryConfiguration": {"maxRecentSessions": 5},
        },
        **members,
    }


def plain(name: str, **members: Any) -> dict[str, Any]:
    """An agent that only talks."""
    return {
        "agentName": name,
        "instruction": INSTRUCTION,
        "foundationModel": CLAUDE,
        "agentResourceRoleArn": ROLE,
        **members,
    }


def led(name: str, *, folder: str = "", instruction: str = "Its own questions.") -> dict[str, Any]:
    """A collaborator in a folder."""
    return {
        "collaboratorName": name,
        "agentDescriptor": {"folder": folder or name},
        "collaborationInstruction": instruction,
    }


def write(folder: Path, data: Mapping[str, Any]) -> Path:
    """Writes an agent's folder by hand: one file, as people do."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "agent.yaml").write_text(yaml.safe_dump(dict(data), sort_keys=False))
    return folder


def texts(folder: Path) -> dict[str, str]:
    """All files of a folder."""
    return {
        it.relative_to(folder).as_posix(): it.read_bytes().decode()
        for it in sorted(folder.rglob("*"))
        if it.is_file()
    }


@dataclass(frozen=True)
class Place:
    """A server, and clients of it."""

    url: str
    world: ServerState

    @property
    def client(self) -> Any:
        return self._client("bedrock-agent")

    @property
    def runtime(self) -> Any:
        return self._client("bedrock-agent-runtime")

    @property
    def remote(self) -> Remote:
        return Remote(self.client, "us-east-1", None, self.url)

    def push(self, document: Document, **options: Any) -> PushResult:
        return push(document, self.remote, Options(**options), wait=NOW)

    def pull(self, agent_id: str, **options: Any) -> dict[str, str]:
        return files_of(read_agent(self.remote, agent_id, **options))

    def _client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="x",
            aws_secret_access_key="x",
            config=Config(retries={"total_max_attempts": 1}),
        )


@contextmanager
def place(replies: Sequence[Any] = (), **settings: Any) -> Iterator[Place]:
    """A server of its own, whose model answers from a script."""
    model = ScriptedModel(list(replies), CLAUDE)
    given = Settings(port=0, shutdown_seconds=1.0, **settings)
    with (
        # Who waits for it does so by a clock of the tests', which does not go on by itself.
        patch.object(store, "PREPARING_SECONDS", 0.0),
        ServerState(given, models={"*": model}) as world,
        serve_in_thread(world) as url,
    ):
        yield Place(url, world)
