"""boto3 clients, made once and shared by all threads; and what AWS's errors mean.

boto3 is imported when the first client is made. Credentials, endpoints (`AWS_ENDPOINT_URL_LAMBDA`
and its kin) and profiles are boto3's own; see "Configuring credentials" in boto3's documentation.
"""

from __future__ import annotations

import os
import re
from threading import Lock
from typing import Any

from orchestrator.errors import AccessDenied, DependencyFailed, ThrottlingError

__all__ = ["body_of", "failure", "never_sent", "shared_client"]

SETUP = (
    "set AWS_PROFILE (after `aws configure` or `aws sso login`) or AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY"
)

# What of the environment decides whose client it is: a process that changes it gets another one.
_ENVIRONMENT = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_LAMBDA",
    "AWS_ENDPOINT_URL_S3",
)
_SIGN_IN = {
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_THROTTLED = {"SlowDown", "Throttling", "ThrottlingException", "TooManyRequestsException"}
_REFUSED = {"AccessDenied", "AccessDeniedException", "AllAccessDisabled"}
_NOT_FOUND = {"NoSuchBucket", "NoSuchKey", "ResourceNotFoundException"}

_clients: dict[tuple[Any, ...], Any] = {}
_lock = Lock()


def shared_client(
    service: str, region: str | None, what: str, *, read_timeout: float, connections: int = 64
) -> Any:
    """The client for a service in a region, made at the first call; equal ones are shared.

    Args:
        service: boto3's name of it.
        region: The region; boto3's own choice when `None`.
        what: What it is for, with its name, for messages.
        read_timeout: Seconds to wait for an answer.
        connections: Connections at once.

    Raises:
        AccessDenied: There are no credentials or no region; nothing was sent.
    """
    key = (service, region, read_timeout, *map(os.environ.get, _ENVIRONMENT))
    with _lock:
        found = _clients.get(key)
        if found is None:
            found = _clients[key] = _made(service, region, what, read_timeout, connections)
    return found


def _made(
    service: str, region: str | None, what: str, read_timeout: float, connections: int
) -> Any:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    try:
        session: Any = boto3.Session()
        if session.get_credentials() is None:
            raise AccessDenied(f"no AWS credentials were found for {what}: {SETUP}")
        return session.client(
            service,
            # boto3 itself reads only AWS_DEFAULT_REGION; the other SDKs and Lambda say AWS_REGION.
            region_name=region or session.region_name or os.environ.get("AWS_REGION"),
            config=Config(
                connect_timeout=10.0,
                read_timeout=read_timeout,
                max_pool_connections=connections,
                retries={"mode": "standard", "total_max_attempts": 4},
                tcp_keepalive=True,
                user_agent_extra="bedrock-orchestrator",
            ),
        )
    except BotoCoreError as error:
        raise failure(error, what) from None


def body_of(stream: Any, most: int) -> bytes:
    """A streamed body, of which at most one byte more than `most` is read; the stream is closed.

    Raises:
        BotoCoreError: It broke off.
    """
    try:
        body: bytes = stream.read(most + 1)
        if len(body) <= most:
            stream.read(1)  # botocore compares the length only where it finds the end
        return body
    finally:
        stream.close()


def failure(error: Exception, what: str, resource: str = "") -> DependencyFailed:
    """An error of boto3, of its HTTP client or of AWS, as one of the tree.

    AWS's own words are kept only where they say which permission is missing; elsewhere they may
    repeat what was sent. The text of `error` itself is emptied, since it becomes the new one's
    context.

    Args:
        error: What boto3 raised.
        what: What was used, with its name.
        resource: The new error's `resource`.
    """
    from botocore.exceptions import ClientError

    if not isinstance(error, ClientError):
        kind = type(error).__name__
        if re.search("Credential|Token|SSO|Login|Profile|NoRegion|Config", kind):
            return AccessDenied(f"no usable AWS credentials for {what} ({kind}): {SETUP}")
        return DependencyFailed(
            f"{what} could not be reached, or its answer broke off ({kind}); check the network, "
            "the region and the endpoint",
            resource=resource,
        )
    code = str(error.response.get("Error", {}).get("Code") or "")
    text = str(error.response.get("Error", {}).get("Message") or "")[:400]
    meta = error.response.get("ResponseMetadata", {})
    request = f", request {meta['RequestId']}" if meta.get("RequestId") else ""
    error.args = (code,)
    return _classified(code, text, f"({code}{request})", what, resource)


def _classified(code: str, text: str, place: str, what: str, resource: str) -> DependencyFailed:
    if code in _SIGN_IN:
        return AccessDenied(
            f"AWS refused the credentials for {what} {place}: they are wrong or have expired; "
            f"{SETUP}",
            resource=resource,
        )
    if code in _REFUSED or code in ("401", "403"):
        return AccessDenied(f"access to {what} was denied {place}: {text}", resource=resource)
    if code in _THROTTLED or code == "429":
        return ThrottlingError(
            f"{what} refused more requests for now, after retries {place}", resource=resource
        )
    if code in _NOT_FOUND or code == "404":
        return DependencyFailed(
            f"there is no such thing as {what} {place}; check its name, account and region",
            resource=resource,
        )
    return DependencyFailed(f"{what} failed {place}", resource=resource)


def never_sent(error: Exception) -> bool:
    """Whether a request that ended in `error` certainly did not arrive, or was not begun."""
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0) < 500
    return isinstance(
        error,
        exceptions.ConnectTimeoutError
        | exceptions.EndpointConnectionError
        | exceptions.ProxyConnectionError
        | exceptions.SSLError
        | exceptions.NoCredentialsError
        | exceptions.PartialCredentialsError
        | exceptions.ParamValidationError,
    )
