"""boto3 clients, made once and shared by all threads.

A process's first client takes 44 ms and 8 MB to make, the later ones share AWS's descriptions of
its services. Credentials, endpoints (`AWS_ENDPOINT_URL` and its kin) and profiles are boto3's own;
see "Configuring credentials" in boto3's documentation.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.support.aws.failures import (
    Target,
    find_region,
    translate_errors,
    without_credentials,
    without_region,
)
from orchestrator.support.aws.replies import bound_replies
from orchestrator.support.forks import ForkSafeLock


class Settings(NamedTuple):
    """What a client is made of; equal settings share one client."""

    service: str  # boto3's name of the service
    region: str | None = None  # the region; that of the environment or the profile when `None`
    # A profile of AWS's configuration files; the environment's when `None`
    profile: str | None = None
    endpoint_url: str | None = None  # another address than the region's
    connections: int = 64  # connections at once
    connect_timeout: float = 10.0  # seconds to wait for a connection
    read_timeout: float = 60.0  # seconds to wait for the next bytes
    max_attempts: int = 4  # tries of one request, with botocore's standard retries and backoff
    deadline: float | None = None  # seconds after which a failed try is not repeated
    validated: bool = True  # whether boto3 checks parameters before it sends them


# What of the environment decides whose client it is: a process that changes it gets another one.
_ENVIRONMENT = tuple(
    """
    AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_BEARER_TOKEN_BEDROCK AWS_PROFILE
    AWS_DEFAULT_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE
    AWS_ROLE_ARN AWS_ROLE_SESSION_NAME AWS_WEB_IDENTITY_TOKEN_FILE
    AWS_CONTAINER_CREDENTIALS_FULL_URI AWS_CONTAINER_CREDENTIALS_RELATIVE_URI
    AWS_ENDPOINT_URL AWS_IGNORE_CONFIGURED_ENDPOINT_URLS AWS_USE_FIPS_ENDPOINT
    AWS_USE_DUALSTACK_ENDPOINT AWS_CA_BUNDLE REQUESTS_CA_BUNDLE
    HTTP_PROXY http_proxy HTTPS_PROXY https_proxy ALL_PROXY all_proxy NO_PROXY no_proxy
    """.split()
)
# When a call began, in the context that botocore keeps of it.
STARTED = "orchestrator_start"
_clients: dict[tuple[Any, ...], Any] = {}
_lock = ForkSafeLock()
_served: set[int] = set()


@contextmanager
def serving_at(port: int) -> Iterator[None]:
    """Around the life of a process that answers for AWS at `port`, of any address of this machine.

    What it does not have it looks for in AWS. When the environment has its own address in AWS's
    place (`AWS_ENDPOINT_URL`), it would ask itself, and again, until nobody waits any more: no
    client of its address is made.
    """
    _served.add(port)
    try:
        yield
    finally:
        _served.discard(port)


def region_of(id: str) -> str | None:
    """The region that an ARN names; `None` for one without, and for any other id."""
    parts = id.split(":")
    return parts[3] or None if parts[0] == "arn" and len(parts) > 5 else None


def get_shared_client(
    settings: Settings, target: Target, prepare: Callable[[Any], None] | None = None
) -> Any:
    """The client for `settings`, made at the first call; equal ones are shared.

    Messages name `target`; `prepare` changes a new client before its first request.

    Raises:
        AccessDenied: There are no credentials or no region; nothing was sent or cached.
        ResourceNotFound: It would ask the server that this process is; see `serving_at`.
    """
    own = f"AWS_ENDPOINT_URL_{settings.service.upper().replace('-', '_')}"
    key = (settings, prepare, os.environ.get(own), *map(os.environ.get, _ENVIRONMENT))
    with _lock:
        found = _clients.get(key)
        if found is None:
            with translate_errors(target):
                found = _create_client(settings, target)
            if prepare is not None:
                prepare(found)
            _clients[key] = found
    return found


def _create_client(settings: Settings, target: Target) -> Any:
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, NoRegionError

    session = _session(settings)
    bearer = settings.service.startswith("bedrock") and "AWS_BEARER_TOKEN_BEDROCK" in os.environ
    if not bearer and _load_credentials(session) is None:
        raise without_credentials(target)
    config = Config(
        connect_timeout=settings.connect_timeout,
        read_timeout=settings.read_timeout,
        max_pool_connections=settings.connections,
        parameter_validation=settings.validated,
        retries={"mode": "standard", "total_max_attempts": settings.max_attempts},
        tcp_keepalive=True,
        user_agent_extra="bedrock-orchestrator",
    )
    try:
        client = session.client(
            settings.service,
            region_name=find_region(session.region_name),
            endpoint_url=settings.endpoint_url,
            config=config,
        )
    except NoRegionError:
        raise without_region(target) from None
    except ValueError as error:
        if isinstance(error, BotoCoreError):
            raise
        raise ValidationError(
            f"{target.what} cannot be asked: the endpoint that is to be asked for it is no http:// "
            "or https:// address; correct endpoint_url=..., AWS_ENDPOINT_URL or the profile's"
        ) from None
    if settings.endpoint_url is None and _is_served(client.meta.endpoint_url):
        raise ResourceNotFound(
            f"{target.what} is not on this server, and is not looked for in AWS: in the server's "
            "environment AWS's address is the server's own; start it without AWS_ENDPOINT_URL"
        )
    bound_replies(client)
    if settings.deadline is not None:
        _limit_retries(client, settings.service, settings.deadline)
    return client


def _load_credentials(session: Any) -> Any:
    with _translate_source_errors():
        found = session.get_credentials()
    if hasattr(found, "refresh_needed"):
        get_frozen = found.get_frozen_credentials

        def get_frozen_credentials() -> Any:
            with _translate_source_errors():
                return get_frozen()

        found.get_frozen_credentials = get_frozen_credentials
    return found


@contextmanager
def _translate_source_errors() -> Iterator[None]:
    # botocore lets through what goes wrong in a source of credentials: no JSON from a program, no
    # such file, or credentials that have expired when they come.
    from botocore.exceptions import BotoCoreError, CredentialRetrievalError

    try:
        yield
    except (AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, BotoCoreError):
            raise
        kind = type(error).__name__
        raise CredentialRetrievalError(provider="credentials", error_msg=kind) from None


def _is_served(url: str) -> bool:
    parts = urlsplit(url)
    port = parts.port or {"https": 443}.get(parts.scheme, 80)
    if port not in _served:
        return False
    try:
        found = socket.getaddrinfo(parts.hostname, 0, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    return any(map(_is_here, found))


def _is_here(found: tuple[Any, ...]) -> bool:
    family, kind, protocol, _, address = found
    try:
        with socket.socket(family, kind, protocol) as own:
            # Which no system allows with another machine's address.
            own.bind(address)
    except OSError:
        return False
    return True


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


def _limit_retries(client: Any, service: str, seconds: float) -> None:
    def start(context: dict[str, Any], **_: Any) -> None:
        context[STARTED] = time.monotonic()

    def stop(request_dict: dict[str, Any], **_: Any) -> bool | None:
        started = request_dict["context"].get(STARTED)
        # False, as the first answer, ends the retries; None leaves them to botocore's own handler.
        return False if started and time.monotonic() - started >= seconds else None

    client.meta.events.register("before-call", start)
    client.meta.events.register_first(f"needs-retry.{service}", stop)


ALIAS_ARN = re.compile(
    r"arn:aws[a-z-]*:bedrock:(?P<region>[a-z0-9-]{1,20}):(?P<account>[0-9]{12}):agent-alias/"
    r"(?P<agent>[0-9A-Za-z]{10})/(?P<alias>[0-9A-Za-z]{10})"
)
"""The ARN of an agent's alias."""


def read_object(bucket: str, key: str, most: int, what: str) -> bytes:
    """The content of an object, of which at most one byte more than `most` is read.

    The caller refuses what is longer. Messages call the object `what`, and add its place.

    Raises:
        DependencyFailed: It is not there, or may not be read; `AccessDenied` is a kind of it.
    """
    place = f"s3://{bucket}/{key}"
    target = Target(
        f"{what} {place!r}",
        place,
        "allow s3:GetObject",
        quoted=frozenset(("AccessDenied", "AllAccessDisabled")),
        callers=False,
    )
    client = get_shared_client(Settings("s3", read_timeout=30.0), target)
    with translate_errors(target):
        return body_of(client.get_object(Bucket=bucket, Key=key)["Body"], most)


def body_of(stream: Any, most: int) -> bytes:
    """A streamed body, of which at most one byte more than `most` is read; the stream is closed.

    Raises:
        BotoCoreError: It broke off.
    """
    try:
        body: bytes = stream.read(most + 1)
        if len(body) <= most:
            # Botocore compares the length only where it finds the end.
            stream.read(1)
        return body
    finally:
        stream.close()
