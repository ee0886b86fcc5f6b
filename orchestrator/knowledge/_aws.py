"""The boto3 client of Bedrock's knowledge bases, and its errors as errors of the tree."""

from __future__ import annotations

import os
import re
from functools import cache
from threading import Lock
from typing import Any

from orchestrator.errors import (
    AccessDenied,
    DependencyFailed,
    OrchestratorError,
    ResourceNotFound,
    ThrottlingError,
    ValidationError,
)
from orchestrator.models._bedrock_errors import said

__all__ = ["call", "client_for"]

_SETUP = (
    "set AWS_PROFILE (after `aws configure` or `aws sso login`) or AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, and AWS_REGION; or use a local knowledge base, which needs no account"
)
_THROTTLED = ("ServiceQuotaExceededException", "ThrottlingException", "TooManyRequestsException")
_REFUSED = (
    *("AccessDeniedException", "ExpiredTokenException", "InvalidSignatureException"),
    *("MissingAuthenticationTokenException", "UnrecognizedClientException"),
)
# botocore repeats the request's values, which Bedrock calls sensitive: only names are taken.
_NAMES = re.compile(r'for parameter ([\w.\[\]]+)|parameter in ([\w.\[\]]+): "(\w+)"')

# What of the environment decides whose client it is: a process that changes it gets another one.
_ENVIRONMENT = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"),
    *("AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK"),
    *("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_ENDPOINT_URL"),
    "AWS_ENDPOINT_URL_BEDROCK_AGENT_RUNTIME",
)
_making = Lock()


def client_for(region: str | None, endpoint_url: str | None) -> Any:
    """The shared `bedrock-agent-runtime` client, made at the first call.

    Raises:
        AccessDenied: There is no region.
    """
    with _making:
        return _client(region, endpoint_url, tuple(map(os.environ.get, _ENVIRONMENT)))


@cache
def _client(region: str | None, endpoint_url: str | None, environment: tuple[Any, ...]) -> Any:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import NoRegionError

    session = boto3.Session(region_name=region)
    try:
        return session.client(
            "bedrock-agent-runtime",
            region_name=session.region_name or os.environ.get("AWS_REGION"),
            endpoint_url=endpoint_url,
            config=Config(
                connect_timeout=10,
                read_timeout=60,
                retries={"mode": "standard", "total_max_attempts": 4},
                user_agent_extra="bedrock-orchestrator",
            ),
        )
    except NoRegionError:
        raise AccessDenied(
            "no AWS region is known for Bedrock's knowledge bases: set AWS_REGION, pass "
            "region=..., or name a region in the profile"
        ) from None


def call(client: Any, operation: str, what: str, resource: str, request: dict[str, Any]) -> Any:
    """Calls an operation.

    Args:
        client: A `bedrock-agent-runtime` client.
        operation: Its method.
        what: The thing in messages, such as `the knowledge base 'ABCDEFGHIJ'`.
        resource: The thing's id, for the error's `resource`.
        request: The request.

    Raises:
        ValidationError: The request is wrong; ResourceNotFound: the thing is not there.
        AccessDenied, ThrottlingError, DependencyFailed: The service or the way to it failed.
    """
    from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError
    from urllib3.exceptions import HTTPError

    try:
        return getattr(client, operation)(**request)
    except ParamValidationError as error:
        found = _NAMES.findall(str(error.kwargs.get("report", "")))
        wrong = ", ".join(".".join(filter(None, names)) for names in found)
        raise ValidationError(
            f"{what} cannot be asked that; missing, unknown or of another kind: {wrong}"
        ) from None
    except ClientError as error:
        failure = _of_service(error, what, resource)
    except (BotoCoreError, HTTPError, OSError) as error:
        failure = _of_the_way(error, what, resource)
    raise failure


def _of_the_way(error: Exception, what: str, resource: str) -> OrchestratorError:
    name = type(error).__name__
    if any(word in name for word in ("Credential", "Token", "SSO", "Profile")):
        return AccessDenied(
            f"no usable AWS credentials for {what} ({name}): {_SETUP}", resource=resource
        )
    return DependencyFailed(
        f"{what} could not be reached, or its answer broke off ({name}); check the network, the "
        "region and the endpoint",
        resource=resource,
    )


def _of_service(error: Any, what: str, resource: str) -> OrchestratorError:
    code = str(error.response.get("Error", {}).get("Code") or "")
    meta = error.response.get("ResponseMetadata", {})
    status = int(meta.get("HTTPStatusCode") or 0)
    request = meta.get("RequestId")
    place = ", ".join(part for part in (code, request and f"request {request}") if part)
    text = f"({place}): {said(error)}"
    if code in _REFUSED or status in (401, 403):
        return AccessDenied(
            f"access to {what} was denied {text} — sign in again, or allow bedrock:Retrieve and "
            "bedrock:Rerank",
            resource=resource,
        )
    if code in _THROTTLED or status == 429:
        return ThrottlingError(
            f"{what} refused more requests for now, after retries {text}", resource=resource
        )
    if code == "ResourceNotFoundException" or status == 404:
        return ResourceNotFound(f"Bedrock does not have {what} in this region {text}")
    if code == "ValidationException" or (status == 400 and not code):
        return ValidationError(f"{what} refused the request {text}")
    return DependencyFailed(f"{what} failed {text}", resource=resource)
