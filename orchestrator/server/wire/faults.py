"""An error to an exception that an operation, or its event stream, models."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from traceback import format_tb
from typing import Any

from orchestrator.errors import OrchestratorError
from orchestrator.server.operations import Fault
from orchestrator.support.logs import FRAMES, get_logger

_LOG = get_logger("orchestrator.server")

_CAUSES = 5
INTERNAL = "InternalServerException"
UNMODELLED: Mapping[str, int] = {
    "ExpiredTokenException": 403,
    "IncompleteSignatureException": 400,
    "InvalidSignatureException": 403,
    "MissingAuthenticationTokenException": 403,
    "RequestEntityTooLargeException": 413,
    "RequestTimeoutException": 408,
    "SerializationException": 400,
    "UnknownOperationException": 404,
    "UnrecognizedClientException": 403,
}
"""Exceptions that every service of AWS has and no model names, with their HTTP statuses."""

_INSTEAD: Mapping[str, tuple[str, ...]] = {
    "BadGatewayException": ("DependencyFailedException", "ModelErrorException"),
    "ConflictException": ("ValidationException",),
    "DependencyFailedException": (
        "ModelErrorException",
        "ModelStreamErrorException",
        "BadGatewayException",
    ),
    "ModelErrorException": ("ModelStreamErrorException", "DependencyFailedException"),
    "ModelNotReadyException": ("DependencyFailedException", "ServiceUnavailableException"),
    "ModelStreamErrorException": ("ModelErrorException", "DependencyFailedException"),
    "ModelTimeoutException": ("DependencyFailedException", "ServiceUnavailableException"),
    "ServiceUnavailableException": ("ThrottlingException",),
    "AccessDeniedException": ("ValidationException",),
    "ResourceNotFoundException": ("ValidationException",),
    "ServiceQuotaExceededException": ("ValidationException",),
    # A few operations of `bedrock` know no wrong request; the server's own fault would be retried.
    "ValidationException": ("AccessDeniedException",),
}
"""What an exception becomes where it is not modelled; the first that is."""


def as_fault(error: BaseException, request_id: str) -> Fault:
    """An error as an exception of the service.

    Any exception that is neither a `Fault` nor an `OrchestratorError` is a defect of this program:
    it is logged, and the caller reads nothing but the request's id.
    """
    if isinstance(error, Fault):
        return error
    if isinstance(error, OrchestratorError):
        resource = getattr(error, "resource", "")
        members = {"resourceName": resource} if resource else {}
        return Fault(error.bedrock_name, error.message, **members)
    log_failure(error, request_id)
    return Fault(INTERNAL, f"Something went wrong in the server. Its log says more: {request_id}.")


class WrongOutput(Exception):
    """A handler returned what its operation does not model; the text holds no values."""


def log_failure(error: BaseException, request_id: str) -> None:
    """Logs an error of this program: what was raised, and where.

    The error's own text is left out, since it may hold what nobody else may read.
    """
    names: list[str] = []
    frames: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(names) < _CAUSES:
        text = f": {cause}" if isinstance(cause, WrongOutput) else ""
        names.append(f"{type(cause).__name__}{text}")
        frames += [f"{names[-1]}\n", *format_tb(cause.__traceback__)]
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    reason = " because of ".join(names)
    _LOG.error("request %s failed: %s", request_id, reason, extra={FRAMES: "".join(frames)})


def choose_exception(name: str, modelled: Collection[str]) -> str:
    """The exception of those that are modelled which says the most of one called `name`."""
    for one in (name, *_INSTEAD.get(name, ())):
        if one in modelled:
            return one
    return name if name in UNMODELLED else INTERNAL


def get_members(fault: Fault) -> dict[str, Any]:
    """A fault's members, its message with them."""
    return {**fault.members, "message": fault.message}
