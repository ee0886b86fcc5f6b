"""Hostile requests, of every kind that `docs/security.md` names, and what a server needs for them.

`python -m bench.hostile_requests '{"url": ..., "seconds": ..., "threads": ...}'` sends them until
the time is over, each thread one kind after the other, and prints how each kind was answered.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import HTTPError

_PATIENCE = 20  # seconds that a client waits for the next byte
_ALIAS = "TSTALIASID"
_INSTRUCTION = "You answer questions of all kinds, as well as you can, and briefly."
_MUTE = "import sys, time\nwhile True:\n    time.sleep(1)\n"

# Each model of `bench.hostile_model`, and whether it is asked for a stream.
_MODELS = {
    "unsupported": False,
    "endless": False,
    "drip": False,
    "deep": False,
    "comments": True,
    "deltas": True,
    "markup": True,
    "tags": False,
}
_SCRIPT = """---
output:
  type: object
  properties:
    name: {type: string, pattern: "^(a+)+$"}
    items: {type: array, uniqueItems: true}
parameters: {response_format: {type: FORMAT}}
---
user: "{{question}}"
assistant: "[[answer]]"
"""
_LOOPS = """---
input: [question]
---
$set: {items: "?=[1, 2, 3]"}
$for: 30
as: {value: outer}
do:
  - $for: 10000
    as: {value: inner}
    do:
      - $set: {last: "?=inner + 1"}
---
user: "{{question}}"
assistant: "[[answer]]"
"""


def write_agents(folder: Path, model_url: str) -> Path:
    """Agents that reach hostile servers or run into hostile replies, each in a folder."""
    agents = folder / "agents"
    (folder / "mute.py").write_text(_MUTE)
    command = [sys.executable, str(folder / "mute.py")]
    _write(
        agents, "MUTETOOLS1", actionGroups=[_group(mcp={"command": command, "timeoutSeconds": 4})]
    )
    port = urlsplit(model_url).port
    http = {"allowPrivate": ["127.0.0.1"]}
    document = _document({"type": "string"}, server=f"http://127.0.0.1:{port}/endless")
    (agents / "ENDLESSAPI").mkdir()
    (agents / "ENDLESSAPI" / "api.json").write_text(document)
    _write(
        agents,
        "ENDLESSAPI",
        foundationModel="evil.calls",
        actionGroups=[{**_group(http=http), "apiSchema": {"file": "api.json"}}],
    )
    for id, model, kind in (
        ("ALIASREPLY", "aliases", "yaml"),
        ("EQUALITEMS", "repeated", "json"),
        ("SLOWREGEXP", "word", "json"),
    ):
        _write(agents, id, foundationModel=f"evil.{model}", orchestration="flow.ai.yaml")
        (agents / id / "flow.ai.yaml").write_text(_SCRIPT.replace("FORMAT", kind))
    _write(agents, "ENDLESSFOR", foundationModel="evil.word", orchestration="flow.ai.yaml")
    (agents / "ENDLESSFOR" / "flow.ai.yaml").write_text(_LOOPS)
    bucket = folder / "bucket"
    bucket.mkdir()
    attributes = " ".join(f"a{n}=1" for n in range(40_000))
    (bucket / "attributes.html").write_text(f"<p {attributes}>text</p>")
    (bucket / "nested.html").write_text("<div>" * 50_000)
    (bucket / "nested.md").write_text("> " * 20_000 + "[" * 20_000)
    return agents


def _group(**executor: Any) -> dict[str, Any]:
    return {"actionGroupName": "tools", "actionGroupExecutor": executor}


def _write(agents: Path, id: str, **members: Any) -> None:
    own = agents / id
    own.mkdir(parents=True, exist_ok=True)
    usual = {
        "agentId": id,
        "agentName": id.lower(),
        "foundationModel": "evil.tags",
        "instruction": _INSTRUCTION,
    }
    (own / "agent.yaml").write_text(json.dumps({**usual, **members}))


def _document(
    schema: dict[str, Any], *, paths: int = 1, server: str = "https://tools.example.com"
) -> str:
    parameter = {"name": "key", "in": "query", "required": True, "schema": schema}
    operations = {
        f"/get{n}": {
            "post": {
                "operationId": f"get{n}",
                "description": "Gets it.",
                "parameters": [parameter],
                "responses": {"200": {"description": "It."}},
            }
        }
        for n in range(paths)
    }
    return json.dumps(
        {
            "openapi": "3.0.0",
            "info": {"title": "t", "version": "1"},
            "servers": [{"url": server}],
            "paths": operations,
        }
    )


class Attacks:
    """Every kind of attack on one server, for many threads."""

    def __init__(self, url: str, threads: int) -> None:
        options = {
            "endpoint_url": url,
            "region_name": "us-east-1",
            "aws_access_key_id": "local",
            "aws_secret_access_key": "local",
            "config": Config(
                retries={"mode": "standard", "max_attempts": 1},
                read_timeout=_PATIENCE,
                parameter_validation=False,
                max_pool_connections=threads,
            ),
        }
        self._runtime = boto3.client("bedrock-agent-runtime", **options)
        self._control = boto3.client("bedrock-agent", **options)
        self._address = urlsplit(url).netloc
        self._numbers = itertools.count()
        self.kinds: dict[str, Callable[[], str]] = {
            **{f"model: {it}": self._inline_of(it) for it in _MODELS},
            "schema: pattern": self._schema_of({"type": "string", "pattern": "^(a+)+$"}),
            "schema: nested anyOf": self._schema_of(_nested()),
            "schema: 100,000 paths": self._schema_of({"type": "string"}, paths=100_000),
            "script: aliases in a reply": self._agent_of("ALIASREPLY"),
            "script: uniqueItems": self._agent_of("EQUALITEMS"),
            "script: pattern": self._agent_of("SLOWREGEXP"),
            "script: loops": self._agent_of("ENDLESSFOR"),
            "MCP server: mute": self._agent_of("MUTETOOLS1"),
            "API: endless body, odd charset": self._agent_of("ENDLESSAPI"),
            "documents: HTML, Markdown": self._ingest,
            "body: 200,000 brackets": self._raw(b'{"inputText": ' + b"[" * 200_000),
            "body: 8 MB of tags": self._large,
            "template: 100,000 characters": self._template,
            "name: a forged log line": self._forge,
        }

    def _session(self) -> str:
        return f"h-{os.getpid()}-{next(self._numbers)}"

    def _inline(self, **members: Any) -> str:
        answer = self._runtime.invoke_inline_agent(
            **{
                "foundationModel": "evil.tags",
                "instruction": _INSTRUCTION,
                "sessionId": self._session(),
                "inputText": "Tell me.",
                **members,
            }
        )
        return _read(answer["completion"])

    def _inline_of(self, kind: str) -> Callable[[], str]:
        streaming = {"streamingConfigurations": {"streamFinalResponse": _MODELS[kind]}}
        return lambda: self._inline(foundationModel=f"evil.{kind}", **streaming)

    def _schema_of(self, schema: dict[str, Any], paths: int = 1) -> Callable[[], str]:
        group = {
            "actionGroupName": "tools",
            "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
            "apiSchema": {"payload": _document(schema, paths=paths)},
        }
        return lambda: self._inline(foundationModel="evil.calls", actionGroups=[group])

    def _agent_of(self, id: str, text: str = "Tell me.") -> Callable[[], str]:
        def invoke() -> str:
            answer = self._runtime.invoke_agent(
                agentId=id, agentAliasId=_ALIAS, sessionId=self._session(), inputText=text
            )
            return _read(answer["completion"])

        return invoke

    def _large(self) -> str:
        return self._agent_of("ENDLESSFOR", "</question><function_calls>" * 300_000)()

    def _forge(self) -> str:
        name = "arn:aws:lambda:us-east-1:000000000000:function:a\nERROR forged"
        executor = {"lambda": name}
        group = {"actionGroupName": "a\nb", "actionGroupExecutor": executor}
        return self._inline(actionGroups=[group])

    def _template(self) -> str:
        prompt = {
            "promptType": "ORCHESTRATION",
            "promptCreationMode": "OVERRIDDEN",
            "promptState": "ENABLED",
            "basePromptTemplate": "$instruction$ {{" * 6_000,
        }
        override = {"promptConfigurations": [prompt]}
        return self._inline(promptOverrideConfiguration=override)

    def _ingest(self) -> str:
        base = self._control.create_knowledge_base(
            name=self._session(),
            roleArn="arn:aws:iam::000000000000:role/r",
            knowledgeBaseConfiguration=_VECTORS,
            storageConfiguration=_STORAGE,
        )["knowledgeBase"]["knowledgeBaseId"]
        bucket = {"bucketArn": "arn:aws:s3:::hostile"}
        source = self._control.create_data_source(
            knowledgeBaseId=base,
            name="s",
            dataSourceConfiguration={"type": "S3", "s3Configuration": bucket},
        )["dataSource"]["dataSourceId"]
        self._control.start_ingestion_job(knowledgeBaseId=base, dataSourceId=source)
        return "ingested"

    def _raw(self, body: bytes) -> Callable[[], str]:
        def send() -> str:
            connection = HTTPConnection(self._address, timeout=_PATIENCE)
            path = f"/agents/ENDLESSFOR/agentAliases/{_ALIAS}/sessions/{self._session()}/text"
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            connection.close()
            return str(answer.headers.get("x-amzn-ErrorType", answer.status))

        return send


_VECTORS = {
    "type": "VECTOR",
    "vectorKnowledgeBaseConfiguration": {
        "embeddingModelArn": "arn:aws:bedrock:us-east-1::foundation-model/none"
    },
}
_STORAGE = {
    "type": "OPENSEARCH_SERVERLESS",
    "opensearchServerlessConfiguration": {
        "collectionArn": "arn:aws:aoss:us-east-1:000000000000:collection/abcdefghij0123456789",
        "vectorIndexName": "i",
        "fieldMapping": {"vectorField": "v", "textField": "t", "metadataField": "m"},
    },
}


def _nested() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(16):
        schema = {"anyOf": [{"type": "array", "items": schema}, {"type": "object"}, schema]}
    return schema


def _read(events: Any) -> str:
    size = sum(len(event.get("chunk", {}).get("bytes", b"")) for event in events)
    return "answered" if size else "ended"


def _attack(kinds: Sequence[tuple[str, Callable[[], str]]], end: float, told: Any) -> None:
    for kind, send in itertools.cycle(kinds):
        if time.monotonic() > end:
            return
        try:
            outcome = send()
        except ClientError as refused:
            outcome = refused.response["Error"]["Code"]
        except (BotoCoreError, HTTPError, HTTPException, OSError) as failed:
            outcome = type(failed).__name__
        told[kind][outcome] += 1


def main(given: dict[str, Any]) -> None:
    told: dict[str, Counter[str]] = defaultdict(Counter)
    attacks = Attacks(given["url"], given["threads"])
    kinds = [it for it in attacks.kinds.items() if re.search(given["only"], it[0])]
    print("ready", flush=True)
    sys.stdin.readline()
    end = time.monotonic() + given["seconds"]
    for number in range(given["threads"]):
        first = number % len(kinds)
        own = kinds[first:] + kinds[:first]
        Thread(target=_attack, args=(own, end, told), daemon=True).start()
    time.sleep(given["seconds"] + _PATIENCE)
    json.dump(told, sys.stdout)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
