"""Agents at AWS, or behind any endpoint that speaks its API: the client, and reading with it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from orchestrator.definition.fields import AGENT_ID_PATTERN
from orchestrator.errors import DependencyFailed, ValidationError
from orchestrator.support.aws import (
    Settings,
    Target,
    body_of,
    bound_replies,
    get_shared_client,
    translate_errors,
)
from orchestrator.support.aws.clients import ALIAS_ARN
from orchestrator.support.documents import MAX_BYTES, decode
from orchestrator.transfer.document import to_operation_name

DRAFT = "DRAFT"

# Parts of one list that are read; an endpoint that lists more is not believed.
_MOST_PARTS = 1000

_MOST_BYTES = 20_000_000
_SECONDS = 60.0
_SILENT_SECONDS = 300.0
_ATTEMPTS = 4
_REGION = "us-east-1"
_CONTROL, _RUNTIME = "bedrock-agent", "bedrock-agent-runtime"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def connect(
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
    *,
    attempts: int = _ATTEMPTS,
) -> Remote:
    """Makes the client, with boto3's own credentials.

    A server on this machine that asks for no keys needs none: without credentials the requests to
    it are not signed.

    Args:
        endpoint_url: Another address than AWS's.
        region: The region; that of the environment or the profile when `None`.
        profile: A profile of AWS's configuration files.
        attempts: How often a request is sent that fails.

    Raises:
        AccessDenied: There are no credentials, or no region.
    """
    if endpoint_url is None:
        client = _make_client(_Place(_CONTROL, region, profile, None, attempts))
        return Remote(client, region, profile)
    place = _Place(_CONTROL, _find_region(region), profile, endpoint_url, attempts)
    client = _make_endpoint_client(place, endpoint_url)
    _bound_answers(client)
    return Remote(client, place.region, profile, endpoint_url)


def connect_runtime(
    endpoint_url: str, region: str | None = None, profile: str | None = None
) -> Any:
    """Makes the client that invokes the agents of an endpoint; arguments are as for `connect`.

    It sends nothing twice: an agent may have acted on a request whose answer was lost.

    Raises:
        AccessDenied: There are no credentials.
    """
    place = _Place(_RUNTIME, _find_region(region), profile, endpoint_url, 1)
    client = _make_endpoint_client(place, endpoint_url)
    bound_replies(client)
    return client


def _find_region(region: str | None) -> str:
    named = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return region or named or _REGION


class _Place(NamedTuple):
    service: str
    region: str | None
    profile: str | None
    endpoint_url: str | None
    attempts: int

    @property
    def read_timeout(self) -> float:
        # An agent may be silent while its actions run.
        return _SILENT_SECONDS if self.service == _RUNTIME else _SECONDS


def _make_endpoint_client(place: _Place, endpoint_url: str) -> Any:
    parts = urlsplit(endpoint_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValidationError(
            f"the endpoint {endpoint_url!r} is no address such as 'http://127.0.0.1:8080'"
        )
    unsigned = _make_unsigned_client(place) if parts.hostname in _LOOPBACK else None
    return unsigned or _make_client(place)


def _bound_answers(client: Any) -> None:
    # botocore reads whatever an endpoint sends, for as long as it sends.
    def send(request: Any, **_: Any) -> Any:
        # With a stream, nothing of the body is read yet.
        request.stream_output = True
        response = client._endpoint.http_session.send(request)
        # botocore has no other place between an answer's head and its body.
        response._content = _read_body(response.raw)
        return response

    client.meta.events.register("before-send.bedrock-agent", send, unique_id="bounded-answers")


def _read_body(raw: Any) -> bytes:
    until, pieces, size = time.monotonic() + _SECONDS, [], 0
    for piece in raw.stream(65_536):
        size += len(piece)
        if size > _MOST_BYTES or time.monotonic() > until:
            raw.close()
            raise DependencyFailed(
                f"the endpoint's answer is larger than {_MOST_BYTES:,} bytes, or took longer than "
                f"{_SECONDS:g} seconds"
            )
        pieces.append(piece)
    return b"".join(pieces)


def _make_target(
    what: str, operation: str = "", *, region: str | None = None, profile: str | None = None
) -> Target:
    # The names of permissions begin with `bedrock`, whatever boto3 calls the service.
    allow = f"allow bedrock:{operation}" if operation else "allow it"
    find = "check its id, the region and the endpoint"
    return Target(what, "", allow, find=find, region=region, profile=profile)


def _make_client(place: _Place) -> Any:
    settings = Settings(
        place.service,
        region=place.region,
        profile=place.profile,
        endpoint_url=place.endpoint_url,
        read_timeout=place.read_timeout,
        max_attempts=place.attempts,
        deadline=_SECONDS,
    )
    what = place.endpoint_url or "Amazon Bedrock"
    target = _make_target(what, region=place.region, profile=place.profile)
    return get_shared_client(settings, target)


def _make_unsigned_client(place: _Place) -> Any | None:
    # A server without keys takes unsigned requests; with credentials there is nothing to change.
    import boto3
    import botocore.session
    from botocore import UNSIGNED
    from botocore.config import Config

    core = botocore.session.Session(profile=place.profile)
    # Nobody who asks a server on this machine wants to wait for the credentials of a cloud's.
    core.set_config_variable("metadata_service_num_attempts", 0)
    target = _make_target("the endpoint", region=place.region, profile=place.profile)
    with translate_errors(target):
        if core.get_credentials() is not None:
            return None
    session: Any = boto3.Session(botocore_session=core, region_name=place.region)
    config = Config(
        signature_version=UNSIGNED,
        user_agent_extra="bedrock-orchestrator",
        read_timeout=place.read_timeout,
        retries={"mode": "standard", "total_max_attempts": place.attempts},
    )
    return session.client(place.service, endpoint_url=place.endpoint_url, config=config)


@dataclass(frozen=True, slots=True)
class Remote:
    """A client of `bedrock-agent`, whose failures are errors of this package.

    Attributes:
        client: boto3's client.
        region: The region that was asked for.
        profile: The profile that was asked for.
        endpoint_url: The endpoint that was asked for; `None` for AWS's own.
    """

    client: Any
    region: str | None = None
    profile: str | None = None
    endpoint_url: str | None = None

    def call(self, what: str, operation: str, **params: Any) -> dict[str, Any]:
        """Calls an operation.

        Args:
            what: What it is about, for messages, such as `the agent 'ABCDEFGHIJ'`.
            operation: The name of the client's method.
            params: Its parameters; those that are `None` are left out.

        Raises:
            OrchestratorError: It failed.
        """
        title = to_operation_name(operation)
        members = {name: value for name, value in params.items() if value is not None}
        target = _make_target(what, title, region=self.region, profile=self.profile)
        with translate_errors(target):
            try:
                answer: dict[str, Any] = getattr(self.client, operation)(**members)
            # botocore's parser raises these for answers that are not what the API's model says.
            except (AttributeError, RecursionError, TypeError, ValueError) as error:
                raise DependencyFailed(
                    f"the endpoint's answer about {what} is not {title}'s: {error}"
                ) from None
        return answer

    def pages(self, what: str, operation: str, key: str, **params: Any) -> Iterator[dict[str, Any]]:
        """The items of all pages of a list.

        Raises:
            DependencyFailed: The list does not end.
            OrchestratorError: It failed otherwise.
        """
        token: str | None = None
        count, seen = 0, {token}
        while True:
            answer = self.call(what, operation, nextToken=token, **params)
            count += 1  # an empty page, too: an endpoint may give such without end
            for item in answer.get(key) or ():
                count += 1
                if count > _MOST_PARTS:
                    raise DependencyFailed(f"{operation} for {what} listed more than {_MOST_PARTS}")
                yield item
            token = answer.get("nextToken")
            if not token:
                return
            # An endpoint that repeats a token would never end.
            if token in seen:
                raise DependencyFailed(f"{operation} for {what} gave the same page again")
            seen.add(token)

    def read_schema(self, place: Mapping[str, Any]) -> str:
        """The text of an API schema in Amazon S3, read with the same profile and region.

        Raises:
            DefinitionError: It is too large, or is no text.
            DependencyFailed: It is not there, or may not be read.
        """
        bucket, key = str(place.get("s3BucketName")), str(place.get("s3ObjectKey"))
        address = f"s3://{bucket}/{key}"
        target = Target(
            f"the schema {address!r}",
            address,
            "allow s3:GetObject",
            quoted=frozenset(("AccessDenied",)),
            callers=False,
            region=self.region,
            profile=self.profile,
        )
        settings = Settings(
            "s3", region=self.region, profile=self.profile, read_timeout=30.0, deadline=30.0
        )
        with translate_errors(target):
            answer = get_shared_client(settings, target).get_object(Bucket=bucket, Key=key)
            return decode(body_of(answer["Body"], MAX_BYTES), address)


def check_id(value: object, what: str) -> str:
    """An id, if it is one.

    Raises:
        ValidationError: It is none.
    """
    if isinstance(value, str) and re.fullmatch(AGENT_ID_PATTERN, value):
        return value
    raise ValidationError(f"{value!r} is no id of {what}: ten letters and digits")


def parse_alias_arn(arn: object) -> tuple[str, str] | None:
    """Agent and alias of an alias's ARN; `None` for anything else."""
    found = ALIAS_ARN.fullmatch(str(arn))
    return (found["agent"], found["alias"]) if found else None
