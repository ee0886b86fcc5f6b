"""What went wrong at AWS, as an error of the tree.

AWS's own words stay where they help (what is wrong with a request, who lacks which
permission), never where they repeat what was sent: signatures, tokens, values of the request.
Whatever of them enters an error goes through `redact`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from orchestrator.errors import (
    AccessDenied,
    DependencyFailed,
    ModelNotReady,
    OrchestratorError,
    ResourceNotFound,
    ThrottlingError,
    ValidationError,
)
from orchestrator.support.aws.replies import get_sent_credentials
from orchestrator.support.redaction import redact

LOCAL_MODEL = "the model 'local'"
"""What `Target.instead` is for a model."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a request to AWS is for, as its errors describe it."""

    what: str  # the thing with its name, such as `the knowledge base 'ABCDEFGHIJ'`
    resource: str  # its name, for the errors' `resource`
    allow: str  # what lets one use it, such as `allow bedrock:Retrieve`
    # Where to look when there is no such thing
    find: str = "check its name, the account and the region"
    instead: str = ""  # what could be used without an account; may be empty
    # The codes of errors whose text is repeated; `None` for all. Services that are given an agent's
    # data, and may put it into their errors, have only a few.
    quoted: frozenset[str] | None = None
    # Whether the caller has chosen what is asked, so that a thing that is not there, or a request
    # that is refused, is his mistake and no failed dependency
    callers: bool = True
    # Whether sessions or documents are stored in it; a failure that may pass, such as throttling,
    # is then reported with `DependencyFailed.is_outage`
    is_store: bool = False
    # What the client was asked for; the environment's when `None`
    region: str | None = None
    profile: str | None = None


class UnusableCredentials(Exception):
    """Credentials that cannot be sent; the text says why, without them."""


_SIGN_IN = frozenset(
    """
    ExpiredToken ExpiredTokenException IncompleteSignature InvalidAccessKeyId InvalidClientTokenId
    InvalidSignatureException InvalidToken InvalidTokenException MissingAuthenticationToken
    MissingAuthenticationTokenException SignatureDoesNotMatch UnrecognizedClientException
    """.split()
)
_TIMES = {"RequestExpired", "RequestInTheFuture", "RequestTimeTooSkewed"}
_THROTTLED = frozenset(
    """
    ProvisionedThroughputExceededException RequestLimitExceeded ServiceQuotaExceededException
    SlowDown Throttling ThrottlingException TooManyRequestsException TransactionInProgressException
    """.split()
)
_REFUSED = {"AccessDenied", "AccessDeniedException", "AllAccessDisabled"}
_MISSING = {"NoSuchBucket", "NoSuchKey", "ResourceNotFoundException"}
_CREDENTIALS = re.compile("Credential|Token|SSO|Login|Profile|Config")
_CONFIGURATION = frozenset(
    """
    ConfigParseError InfiniteLoopConfigError InvalidConfigError InvalidEndpointConfigurationError
    ProfileNotFound
    """.split()
)
_CLOCK = re.compile("Signature expired|Signature not yet current")
_NO_SUCH_MODEL = re.compile(r"model identifier|model ID .* (?:invalid|not (?:found|exist))")
# What of botocore's report on wrong parameters is names; the rest of it repeats the values.
_PARAMETER = re.compile(r'for parameter ([\w.\[\]]+)|parameter in ([\w.\[\]]+): "(\w+)"')


@contextmanager
def translate_errors(target: Target) -> Iterator[None]:
    """Raises what boto3, its HTTP client or AWS raise within as errors of the tree.

    Raises:
        OrchestratorError: See `failure`.
    """
    try:
        yield
    except OrchestratorError:
        raise
    except Exception as error:
        found = failure(error, target)
        if found is None:
            raise
        raise found from None


def failure(error: Exception, target: Target) -> OrchestratorError | None:
    """The error of the tree for one of boto3's, of its HTTP client's or of AWS's.

    `None` for any other, which is a defect of this program. An error that may repeat what was sent
    is stripped of its text, lest it is printed as the context of the one that is raised.
    """
    from botocore.eventstream import ParserError
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        NoRegionError,
        ParamValidationError,
    )
    from botocore.parsers import ResponseParserError
    from urllib3.exceptions import HTTPError

    kind = type(error).__name__
    if isinstance(error, ClientError):
        return _of_service(error, target)
    if isinstance(error, UnusableCredentials):
        text = f"no usable AWS credentials for {target.what}: {error}; {_setup(target)}"
        return _deny(text, target, signed_in=False)
    if isinstance(error, ParamValidationError):
        return _of_parameters(error, target)
    if isinstance(error, NoRegionError):
        return without_region(target)
    if kind in _CONFIGURATION:
        return _of_configuration(error, target)
    if isinstance(error, BotoCoreError) and _CREDENTIALS.search(kind):
        text = f"no usable AWS credentials for {target.what} ({kind}): {_setup(target)}"
        return _deny(text, target, signed_in=False)
    if isinstance(
        error,
        # Botocore's own reading of deep JSON ends in a `RecursionError`.
        BotoCoreError | HTTPError | ParserError | ResponseParserError | OSError | RecursionError,
    ):
        return _of_network(kind, target)
    return None


def _of_configuration(error: Any, target: Target) -> AccessDenied:
    kind = type(error).__name__
    if kind == "ProfileNotFound":
        return AccessDenied(
            f"no usable AWS credentials for {target.what}: AWS's configuration has no such profile "
            f"({kind})",
            resource=target.resource,
            signed_in=False,
            hint=f"asked with the profile {error.kwargs['profile']!r}; `aws configure "
            "list-profiles` lists those that there are",
        )
    return AccessDenied(
        f"AWS's configuration cannot be used for {target.what} ({kind}): correct it in the "
        "environment or in AWS's configuration file",
        resource=target.resource,
        signed_in=False,
        hint=_redact(error),
    )


def _of_network(kind: str, target: Target) -> DependencyFailed:
    if kind == "SSLError":
        text = (
            f"{target.what} could not be asked safely ({kind}): check the endpoint's name and "
            "certificate; AWS_CA_BUNDLE names a file with the authorities that are trusted"
        )
    else:
        text = (
            f"{target.what} could not be reached, or the answer broke off ({kind}); check the "
            f"network, {_describe_region(target)} and the endpoint"
        )
    is_outage = target.is_store and kind != "SSLError"
    return DependencyFailed(text, resource=target.resource, is_outage=is_outage)


def find_region(configured: str | None) -> str | None:
    """The region that is asked, with the one that boto3 finds in its configuration."""
    # boto3 itself reads only AWS_DEFAULT_REGION; the other SDKs and Lambda say AWS_REGION.
    return configured or os.environ.get("AWS_REGION")


def _find_region_of(target: Target) -> str | None:
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    configured = target.region
    if not configured:
        try:
            configured = Session(profile=target.profile).get_config_variable("region")
        except BotoCoreError:  # which was, or will be, told by itself
            configured = os.environ.get("AWS_DEFAULT_REGION")
    return find_region(configured)


def _describe_region(target: Target) -> str:
    region = _find_region_of(target)
    return f"the region {region!r}" if region else "the region"


def without_credentials(target: Target) -> AccessDenied:
    """The error when there are no credentials."""
    text = f"no AWS credentials were found for {target.what}: {_setup(target)}"
    return _deny(text, target, signed_in=False)


def without_region(target: Target) -> AccessDenied:
    """The error when no region is known."""
    return _deny(
        f"no AWS region is known for {target.what}: set AWS_REGION, pass region=..., or name a "
        "region in the profile",
        target,
        signed_in=False,
    )


def is_unsent(error: Exception) -> bool:
    """Whether a request that ended in `error` certainly did not arrive, or was not begun."""
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        return _status(error) < 500
    return isinstance(
        error,
        exceptions.ConnectTimeoutError
        | exceptions.EndpointConnectionError
        | exceptions.ProxyConnectionError
        | exceptions.SSLError
        | exceptions.NoCredentialsError
        | exceptions.PartialCredentialsError
        | exceptions.ParamValidationError
        | UnusableCredentials,
    )


def is_unanswered(error: Exception) -> bool:
    """Whether a request that ended in `error` may have arrived, and its answer did not."""
    from botocore.eventstream import ParserError
    from botocore.exceptions import HTTPClientError
    from botocore.parsers import ResponseParserError
    from urllib3.exceptions import HTTPError

    broken = HTTPClientError | HTTPError | ParserError | ResponseParserError | OSError
    return isinstance(error, broken | RecursionError) and not is_unsent(error)


def get_safe_message(error: Any) -> str:
    """AWS's message without the request's values that it may repeat; empty when there is none."""
    text = str(error.response.get("Error", {}).get("Message") or "").strip()
    before, quote, rest = text.partition("'")
    _, behind, names = rest.rpartition("' at '")  # (Bedrock: "Value 'x' at 'inputText' …")
    return _redact(f"{before}'…{behind}{names}" if quote and behind else text)


def _redact(text: object) -> str:
    return redact(text, get_sent_credentials())


def code_of(error: Any) -> str:
    """The name of AWS's exception; empty when AWS did not say."""
    response = getattr(error, "response", None) or {}  # of a broken connection it is `None`
    code = _redact(response.get("Error", {}).get("Code") or "")
    # In event streams the names begin with a small letter.
    return code[:1].upper() + code[1:]


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)


def _setup(target: Target) -> str:
    otherwise = f"; or use {target.instead}, which needs no account" if target.instead else ""
    return (
        "set AWS_PROFILE (after `aws configure` or `aws sso login`) or AWS_ACCESS_KEY_ID and "
        f"AWS_SECRET_ACCESS_KEY, and AWS_REGION{otherwise}"
    )


def _deny(text: str, target: Target, *, signed_in: bool) -> AccessDenied:
    """The error of credentials, with a hint at whose they were."""
    asked = _describe_credentials(target)
    profile = asked.profile and f" --profile {shlex.quote(asked.profile)}"
    hints = [f"asked with {asked.text}"]
    if signed_in:
        hints.append(f"`aws sts get-caller-identity{profile}` says whose credentials these are")
    elif asked.profile:
        hints.append(f"`aws sso login{profile}` signs in")
    if target.instead == LOCAL_MODEL:
        hints.append("--model local needs no account")
    hint = "; ".join(hints)
    return AccessDenied(text, resource=target.resource, signed_in=signed_in, hint=hint)


class _Credentials(NamedTuple):
    text: str
    profile: str = ""


def _describe_credentials(target: Target) -> _Credentials:
    # In boto3's order: a profile that is passed, keys of the environment, its profile.
    env = os.environ
    region = _find_region_of(target)
    place = f" in the region {region}" if region else ""
    profile = target.profile
    if profile is None and env.get("AWS_ACCESS_KEY_ID"):
        return _Credentials(f"AWS_ACCESS_KEY_ID of the environment{place}")
    profile = profile or env.get("AWS_PROFILE") or env.get("AWS_DEFAULT_PROFILE")
    if profile:
        return _Credentials(f"the profile {profile!r}{place}", profile)
    return _Credentials(f"the default profile{place}")


def _of_parameters(error: Any, target: Target) -> OrchestratorError:
    found = _PARAMETER.findall(str(error.kwargs.get("report", "")))
    error.args, error.kwargs = (type(error).__name__,), {}
    wrong = ", ".join(".".join(filter(None, names)) for names in found)
    text = f"{target.what} cannot be asked that; missing, unknown or of another kind: {wrong}"
    return _mistake(ValidationError, text, target)


def _of_service(error: Any, target: Target) -> OrchestratorError:
    code, text = code_of(error), get_safe_message(error)
    request = _redact(error.response.get("ResponseMetadata", {}).get("RequestId") or "")
    error.args = (code,)
    known = [code] if code not in ("", "Unknown") else []
    place = ", ".join([*known, f"request {request}"] if request else known)
    place = f" ({place})" if place else ""
    shows_text = text and (target.quoted is None or code in target.quoted)
    kind = _kind(code, _status(error), text)
    found = _build_error(kind, place, f": {text}" if shows_text else "", target)
    if isinstance(found, DependencyFailed) and target.is_store:
        found.is_outage = kind == "throttled" or (kind == "failed" and _status(error) >= 500)
    return found


_Kind = Literal[
    "clock", "sign in", "denied", "not ready", "throttled", "missing", "wrong", "failed"
]


def _kind(code: str, status: int, text: str) -> _Kind:
    if code.isdigit():  # AWS did not say; botocore's parser repeats the status
        code = ""
    if code in _TIMES or _CLOCK.search(text):
        return "clock"
    if code in _SIGN_IN or (status == 401 and not code):
        return "sign in"
    if code in _REFUSED or status in (401, 403):
        return "denied"
    if code == "ModelNotReadyException":
        return "not ready"
    if code in _THROTTLED or status == 429:
        return "throttled"
    if code in _MISSING or status == 404 or _NO_SUCH_MODEL.search(text):
        return "missing"
    return "wrong" if code == "ValidationException" or (status == 400 and not code) else "failed"


def _build_error(kind: _Kind, place: str, words: str, target: Target) -> OrchestratorError:
    what, resource = target.what, target.resource
    match kind:
        case "clock":
            text = (
                f"AWS refused the time of the request for {what}{place}: set this machine's clock"
            )
            return _deny(text, target, signed_in=True)
        case "sign in":
            return _deny(
                f"AWS refused the credentials for {what}{place}: they are wrong or have expired; "
                f"sign in again: {_setup(target)}",
                target,
                signed_in=False,
            )
        case "denied":
            text = f"access to {what} was denied{place}{words} — {target.allow}"
            return _deny(text, target, signed_in=True)
        case "not ready":
            text = f"{what} is still being made ready{place}; try again in a minute"
            return ModelNotReady(text, resource=resource)
        case "throttled":
            text = f"{what} refused more requests for now, after retries{place}{words}"
            return ThrottlingError(text, resource=resource)
        case "missing":
            text = f"there is no such thing as {what}{place}{words} — {target.find}"
            return _mistake(ResourceNotFound, text, target)
        case "wrong":
            return _mistake(ValidationError, f"{what} refused the request{place}{words}", target)
        case "failed":
            return DependencyFailed(f"{what} failed{place}{words}", resource=resource)


def _mistake(kind: type[ValidationError], text: str, target: Target) -> OrchestratorError:
    return kind(text) if target.callers else DependencyFailed(text, resource=target.resource)
