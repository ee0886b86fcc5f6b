"""What tests of the door share: keys, signers that are botocore's own, and raw requests."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from orchestrator.server.access.guards import RawRequest

ID, SECRET = "AKIDTEAMA", "the-secret-of-team-a-0001"
OTHER_ID, OTHER_SECRET = "AKIDTEAMB", "the-secret-of-team-b-0002"
API_KEY = "api-key-of-team-c-0003"
TOKEN = "session-token-of-team-d-0004"
KEYS = [
    {"accessKeyId": ID, "secretAccessKey": SECRET, "tenant": "team-a", "allow": ["s3://claims/*"]},
    {"accessKeyId": OTHER_ID, "secretAccessKey": OTHER_SECRET, "tenant": "team-b"},
    {"apiKey": API_KEY, "tenant": "team-c"},
    {
        "accessKeyId": "AKIDTEAMD",
        "secretAccessKey": "the-secret-of-team-d-0004",
        "sessionToken": TOKEN,
        "tenant": "team-d",
    },
]


def write_keys(folder: Path, keys: Any = KEYS) -> Path:
    """A file of keys that only its owner reads."""
    file = folder / "keys.json"
    file.write_text(keys if isinstance(keys, str) else json.dumps(keys))
    file.chmod(0o600)
    return file


def signed(
    method: str = "POST",
    url: str = "http://127.0.0.1:8080/agents/",
    body: bytes = b"{}",
    headers: Mapping[str, str] | None = None,
    *,
    who: tuple[str, ...] = (ID, SECRET),
    region: str = "us-east-1",
    service: str = "bedrock",
) -> Any:
    """A request that botocore has signed, prepared for sending."""
    request = AWSRequest(method=method, url=url, data=body, headers=dict(headers or {}))
    SigV4Auth(Credentials(*who), service, region).add_auth(request)
    return request.prepare()


def presented(prepared: Any) -> RawRequest:
    """A signed request as the server sees it."""
    parts = urlsplit(prepared.url)
    headers = {"Host": parts.netloc, **prepared.headers}
    return RawRequest(
        prepared.method,
        parts.path.encode(),
        parts.query.encode(),
        [(name.lower().encode(), _bytes(value)) for name, value in headers.items()],
    )


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("latin-1")


def now() -> datetime:
    return datetime.now(UTC)


def client(url: str, service: str = "bedrock-agent", who: tuple[str, ...] = (ID, SECRET)) -> Any:
    """boto3's own client, which tries once."""
    return boto3.client(
        service,
        endpoint_url=url,
        region_name="eu-central-1",
        aws_access_key_id=who[0],
        aws_secret_access_key=who[1],
        aws_session_token=who[2] if len(who) > 2 else None,
        config=Config(retries={"total_max_attempts": 1}),
    )


class Raw:
    """An answer as it came."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.getheaders()}
        self.body = answer.read()

    @property
    def error(self) -> str:
        return self.headers.get("x-amzn-errortype", "")

    @property
    def message(self) -> str:
        return str(json.loads(self.body)["message"])


def send(
    url: str,
    method: str = "POST",
    path: str = "/agents/",
    body: bytes = b"{}",
    headers: Mapping[str, str] | None = None,
) -> Raw:
    """Sends a request as it is."""
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    with closing(http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)) as connection:
        connection.request(
            method, path, body, {"Content-Type": "application/json", **(headers or {})}
        )
        return Raw(connection.getresponse())


def send_signed(prepared: Any, body: bytes | None = None, **changed: str) -> Raw:
    """Sends what was signed; `body` and `changed` headers are sent instead of what was signed."""
    parts = urlsplit(prepared.url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    headers = {name: _bytes(value).decode() for name, value in prepared.headers.items()}
    headers |= {name.replace("_", "-"): value for name, value in changed.items()}
    sent = (prepared.body or b"") if body is None else body
    origin = f"{parts.scheme}://{parts.netloc}"
    return send(origin, prepared.method, path, sent, headers)
