"""A server of knowledge bases, and what its tests ask of it through boto3."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.testing import FakeEmbedder

MODEL = "arn:aws:bedrock:us-east-1::foundation-model/amazon.titan-embed-text-v2:0"
VECTORS = {
    "type": "VECTOR",
    "vectorKnowledgeBaseConfiguration": {"embeddingModelArn": MODEL},
}
STORAGE = {
    "type": "OPENSEARCH_SERVERLESS",
    "opensearchServerlessConfiguration": {
        "collectionArn": "arn:aws:aoss:us-east-1:000000000000:collection/abcdefghij",
        "vectorIndexName": "index",
        "fieldMapping": {"vectorField": "v", "textField": "t", "metadataField": "m"},
    },
}
ROLE = "arn:aws:iam::000000000000:role/knowledge"
RUNNING = ("STARTING", "IN_PROGRESS", "STOPPING")


class Gate(FakeEmbedder):
    """An embedder that lets texts pass only while it is open."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = Event()
        self.open = Event()

    def embed(self, texts: Any) -> Any:
        self.entered.set()
        assert self.open.wait(60)
        return super().embed(texts)


def client_of(service: str, url: str, key: str = "AKIDEXAMPLE", secret: str = "secret") -> Any:
    """An unmodified client of boto3's, which tries once."""
    return boto3.client(
        service,
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}, read_timeout=60),
    )


class Caller:
    """One who calls the server."""

    def __init__(self, world: ServerState, url: str, *key: str) -> None:
        self.world = world
        self.agent = client_of("bedrock-agent", url, *key)
        self.runtime = client_of("bedrock-agent-runtime", url, *key)

    def base(self, name: str = "handbook", **members: Any) -> str:
        """Makes a knowledge base; gives its id."""
        made = self.agent.create_knowledge_base(
            name=name, roleArn=ROLE, knowledgeBaseConfiguration=VECTORS, **members
        )
        return str(made["knowledgeBase"]["knowledgeBaseId"])

    def source(self, base: str, bucket: str, prefix: str = "", **members: Any) -> str:
        """Creates a data source over a bucket; returns its id."""
        made = self.agent.create_data_source(
            knowledgeBaseId=base,
            dataSourceConfiguration=s3_source(bucket, prefix),
            **{"name": bucket, **members},
        )
        return str(made["dataSource"]["dataSourceId"])

    def ingested(self, base: str, source: str) -> dict[str, Any]:
        """Runs an ingestion job to its end; gives it."""
        ids = {"knowledgeBaseId": base, "dataSourceId": source}
        begun = self.agent.start_ingestion_job(**ids)["ingestionJob"]
        return self.ended(ids | {"ingestionJobId": begun["ingestionJobId"]})

    def ended(self, ids: Mapping[str, str]) -> dict[str, Any]:
        """The job when it has ended."""
        for _ in polled():
            job: dict[str, Any] = self.agent.get_ingestion_job(**ids)["ingestionJob"]
            if job["status"] not in RUNNING:
                return job
        raise AssertionError("the job did not end")

    def found(self, base: str, query: str, **search: Any) -> list[dict[str, Any]]:
        """What Retrieve finds."""
        configuration = {"vectorSearchConfiguration": search} if search else {}
        answer = self.runtime.retrieve(
            knowledgeBaseId=base,
            retrievalQuery={"text": query},
            **({"retrievalConfiguration": configuration} if configuration else {}),
        )
        return list(answer["retrievalResults"])


def s3_source(bucket: str, prefix: str = "") -> dict[str, Any]:
    """The dataSourceConfiguration of a bucket."""
    prefixes = {"inclusionPrefixes": [prefix]} if prefix else {}
    return {"type": "S3", "s3Configuration": {"bucketArn": f"arn:aws:s3:::{bucket}", **prefixes}}


def refused(call: Callable[..., Any], **params: Any) -> tuple[str, str]:
    """The code and the message of the error that a call ends with."""
    with pytest.raises(ClientError) as error:
        call(**params)
    told = error.value.response["Error"]
    return str(told["Code"]), str(told["Message"])


def polled(seconds: float = 60.0) -> Iterator[None]:
    """Goes on for a while, without waiting."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield


def two_tenants(folder: Path, allow: str = "*") -> Path:
    """The file of two access keys, `AKIDTENANTA` and `AKIDTENANTB`."""
    path = folder / "keys.yaml"
    entries = [
        {
            "accessKeyId": f"AKIDTENANT{name}",
            "secretAccessKey": f"secret-key-of-tenant-{name}",
            "tenant": f"tenant-{name}",
            "allow": [allow],
        }
        for name in "AB"
    ]
    path.write_text(json.dumps(entries))
    path.chmod(0o600)
    return path


def tenant(server: Caller, name: str) -> Caller:
    """Who has one of the two keys."""
    secret = f"secret-key-of-tenant-{name}"
    return Caller(server.world, server.agent.meta.endpoint_url, f"AKIDTENANT{name}", secret)


@contextmanager
def running(embedder: Any = None, **settings: Any) -> Iterator[Caller]:
    """A server that embeds texts without a model, and one who calls it."""
    given = Settings(port=0, **settings)
    with (
        ServerState(given, embedder=embedder or FakeEmbedder()) as world,
        serve_in_thread(world) as url,
    ):
        yield Caller(world, url)


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Writes files into a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder
