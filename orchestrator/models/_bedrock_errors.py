"""What went wrong at Bedrock, as an error of the tree.

AWS's own words are kept where they help (what is wrong with a request, who lacks which
permission), never where they repeat what was sent: signatures, tokens, values of the request.
"""

from __future__ import annotations

import re
from typing import Any

from orchestrator.errors import (
    AccessDenied,
    DependencyFailed,
    ModelNotReady,
    OrchestratorError,
    ResourceNotFound,
    ThrottlingError,
    ValidationError,
)

__all__ = ["SETUP", "mapped", "said"]

SETUP = (
    "set AWS_PROFILE (after `aws configure` or `aws sso login`) or AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, and AWS_REGION; or use the model 'local', which needs no account"
)

_SIGN_IN = {
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "InvalidTokenException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_THROTTLED = {
    "ServiceQuotaExceededException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}
_VALUE = re.compile(r"'.*' at '", re.DOTALL)
_NO_SUCH_MODEL = re.compile(r"model identifier|model ID .* (?:invalid|not (?:found|exist))")
_LONGEST = 400


def said(error: Any) -> str:
    """AWS's message without the request's values that it may repeat; empty when there is none."""
    text = str(error.response.get("Error", {}).get("Message") or "").strip()
    text = _VALUE.sub("'…' at '", text)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def mapped(error: Exception, model_id: str) -> OrchestratorError | None:
    """The error of the tree for one of botocore's or of its HTTP client's.

    `None` for any other, which is a defect of this program. A service's error is stripped of its
    text, which may repeat the request's signature and token, lest it is printed as the context of
    the one that is raised.
    """
    from botocore.eventstream import ParserError
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError
    from urllib3.exceptions import HTTPError

    if isinstance(error, ClientError):
        failure = _of_service(error, model_id)
        error.args = (error.response.get("Error", {}).get("Code", "Unknown"),)
        return failure
    if isinstance(error, BotoCoreError) and _concerns_credentials(error):
        return AccessDenied(
            f"no usable AWS credentials for the model {model_id!r} "
            f"({type(error).__name__}): {SETUP}",
            resource=model_id,
        )
    if isinstance(error, BotoCoreError | HTTPError | ParserError | ResponseParserError | OSError):
        return DependencyFailed(
            f"the model {model_id!r} could not be reached, or its answer broke off "
            f"({type(error).__name__}); check the network, the region and the endpoint",
            resource=model_id,
        )
    return None


def _concerns_credentials(error: Exception) -> bool:
    words = ("Credential", "Token", "SSO", "Login", "Profile", "NoRegion", "Config")
    return any(word in type(error).__name__ for word in words)


def _of_service(error: Any, model_id: str) -> OrchestratorError:
    # In event streams the names of exceptions begin with a small letter.
    code = str(error.response.get("Error", {}).get("Code") or "")
    code = code[:1].upper() + code[1:]
    meta = error.response.get("ResponseMetadata", {})
    place = ", ".join(
        part
        for part in (code, meta.get("RequestId") and f"request {meta['RequestId']}")
        if part and part != "Unknown"
    )
    return _classified(code, int(meta.get("HTTPStatusCode") or 0), said(error), model_id, place)


def _classified(code: str, status: int, text: str, model_id: str, place: str) -> OrchestratorError:
    if code in _SIGN_IN or (status == 401 and not code):
        return AccessDenied(
            f"AWS refused the credentials for the model {model_id!r} ({place}): they are wrong or "
            f"have expired; sign in again: {SETUP}",
            resource=model_id,
        )
    if code == "AccessDeniedException" or status in (401, 403):
        return AccessDenied(
            f"access to the model {model_id!r} was denied ({place}): {text} — ask for access to "
            "the model in the Bedrock console of this region, and allow bedrock:InvokeModel and "
            "bedrock:InvokeModelWithResponseStream",
            resource=model_id,
        )
    if code == "ModelNotReadyException":
        return ModelNotReady(
            f"the model {model_id!r} is still being made ready ({place}); try again in a minute",
            resource=model_id,
        )
    if code in _THROTTLED or status == 429:
        return ThrottlingError(
            f"the model {model_id!r} refused more requests for now, after retries ({place}): "
            f"{text}",
            resource=model_id,
        )
    return _about_the_model(code, status, text, model_id, place)


def _about_the_model(
    code: str, status: int, text: str, model_id: str, place: str
) -> OrchestratorError:
    if code == "ResourceNotFoundException" or status == 404 or _NO_SUCH_MODEL.search(text):
        return ResourceNotFound(
            f"Bedrock has no model {model_id!r} in this region ({place}): {text} — "
            "`aws bedrock list-foundation-models` and `list-inference-profiles` name what it has"
        )
    if code == "ValidationException" or (status == 400 and not code):
        return ValidationError(f"the model {model_id!r} refused the request ({place}): {text}")
    return DependencyFailed(f"the model {model_id!r} failed ({place}): {text}", resource=model_id)
