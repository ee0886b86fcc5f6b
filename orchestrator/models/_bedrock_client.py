"""One boto3 client for each configuration, and the short way of a request into its body.

The first client takes 44 ms and 8 MB to make, so it is made once and shared by all threads. boto3
walks every nested value of a request twice, to validate and to serialise it: 8 ms of CPU for a
history of 200 steps. Here the body is put together from messages that were encoded once
(`Encoded`), and handed over through botocore's events; endpoint, signature, retries and errors stay
botocore's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

from orchestrator.errors import AccessDenied
from orchestrator.message import Message
from orchestrator.models._bedrock_errors import SETUP, mapped
from orchestrator.models._bedrock_frames import Frames

__all__ = ["Connection", "Encoded", "Settings", "connect", "prepare"]


class Settings(NamedTuple):
    """What a client is made of; equal settings share one client."""

    region: str | None
    profile: str | None
    endpoint_url: str | None
    max_concurrency: int
    connect_timeout: float
    read_timeout: float
    max_attempts: int
    deadline: float


class Connection(NamedTuple):
    """A client, and threads for asynchronous callers, as many as it has connections."""

    client: Any
    workers: ThreadPoolExecutor


class Encoded(list[Message]):
    """A request's messages, with the whole request's body as JSON text."""

    __slots__ = ("body",)

    def __init__(self, messages: Sequence[Message], body: str) -> None:
        super().__init__(messages)
        self.body = body


_connections: dict[tuple[Any, ...], Connection] = {}
_lock = Lock()

# What of the environment decides whose client it is: a process that changes it gets another one.
_ENVIRONMENT = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
)


def connect(settings: Settings, model_id: str) -> Connection:
    """The shared connection for `settings`, made at the first call.

    Raises:
        AccessDenied: There are no credentials or no region; nothing was sent, nothing is kept.
    """
    key = (settings, *map(os.environ.get, _ENVIRONMENT))
    with _lock:
        found = _connections.get(key)
        if found is None:
            found = _connections[key] = Connection(
                _client(settings, model_id),
                ThreadPoolExecutor(settings.max_concurrency, "orchestrator-bedrock"),
            )
    return found


def _session(settings: Settings) -> Any:
    import boto3
    import botocore.session

    core = botocore.session.Session(profile=settings.profile)
    # Parsing AWS's service descriptions is most of what a client costs; all sessions share them.
    core.register_component("data_loader", _loader(core.get_config_variable("data_path")))
    return boto3.Session(botocore_session=core, region_name=settings.region)


@cache
def _loader(data_path: str | None) -> Any:
    from botocore.loaders import create_loader

    return create_loader(data_path)


def _client(settings: Settings, model_id: str) -> Any:
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, NoRegionError

    try:
        session = _session(settings)
        if "AWS_BEARER_TOKEN_BEDROCK" not in os.environ and session.get_credentials() is None:
            raise AccessDenied(
                f"no AWS credentials were found for the model {model_id!r}: {SETUP}",
                resource=model_id,
            )
        client = session.client(
            "bedrock-runtime",
            # boto3 itself reads only AWS_DEFAULT_REGION; the other SDKs and Lambda say AWS_REGION.
            region_name=session.region_name or os.environ.get("AWS_REGION"),
            endpoint_url=settings.endpoint_url,
            config=Config(
                connect_timeout=settings.connect_timeout,
                read_timeout=settings.read_timeout,
                max_pool_connections=settings.max_concurrency,
                parameter_validation=False,
                retries={"mode": "standard", "total_max_attempts": settings.max_attempts},
                tcp_keepalive=True,
                user_agent_extra="bedrock-orchestrator",
            ),
        )
    except NoRegionError:
        raise AccessDenied(
            f"no AWS region is known for the model {model_id!r}: set AWS_REGION, pass region=..., "
            "or name a region in the profile",
            resource=model_id,
        ) from None
    except BotoCoreError as error:
        raise mapped(error, model_id) or error from None
    prepare(client)
    _limit_retries(client, settings.deadline)
    return client


def prepare(client: Any) -> None:
    """Lets `client` take `Encoded` messages and read streams faster; twice changes nothing.

    The handlers stand at the events' general names, so that more specific ones, such as those of
    botocore's Stubber, see the request's plain parameters first.
    """
    events = client.meta.events
    events.register("before-parameter-build", _take_body, unique_id="orchestrator-take-body")
    events.register("before-call", _put_body, unique_id="orchestrator-put-body")
    events.register(
        "before-parse.bedrock-runtime.ConverseStream", _put_stream, unique_id="orchestrator-stream"
    )


def _take_body(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    body = getattr(params.get("messages"), "body", None)
    if body is not None:
        context["orchestrator_body"] = body
        for name in [name for name in params if name != "modelId"]:
            del params[name]


def _put_body(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    body = context.pop("orchestrator_body", None)
    if body is not None:
        # Half a surrogate pair has no UTF-8; the model is shown a question mark.
        params["body"] = body.encode("utf-8", "replace")
        params["headers"]["Content-Type"] = "application/json"


def _put_stream(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any
) -> None:
    if response_dict["status_code"] == 200:
        customized_response_dict["stream"] = Frames(response_dict["body"])


def _limit_retries(client: Any, seconds: float) -> None:
    def start(context: dict[str, Any], **_: Any) -> None:
        context["orchestrator_start"] = time.monotonic()

    def stop(request_dict: dict[str, Any], **_: Any) -> bool | None:
        started = request_dict["context"].get("orchestrator_start")
        # False, as the first answer, ends the retries; None leaves them to botocore's own handler.
        return False if started and time.monotonic() - started >= seconds else None

    client.meta.events.register("before-call", start)
    client.meta.events.register_first("needs-retry.bedrock-runtime", stop)
