"""Errors in OpenAI's shape."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from orchestrator.errors import OrchestratorError
from orchestrator.server.operations import Fault

__all__ = ["error_body"]

_LOG = logging.getLogger("orchestrator.server")

_KINDS: Mapping[str, tuple[int, str, str | None]] = {
    "AccessDeniedException": (403, "permission_error", "access_denied"),
    "ConflictException": (409, "invalid_request_error", "conflict"),
    "DependencyFailedException": (502, "server_error", "dependency_failed"),
    "ModelNotReadyException": (503, "server_error", "model_not_ready"),
    "ResourceNotFoundException": (404, "invalid_request_error", "not_found"),
    "ServiceQuotaExceededException": (400, "invalid_request_error", "limit_exceeded"),
    "ThrottlingException": (429, "rate_limit_error", "rate_limit_exceeded"),
    "ValidationException": (400, "invalid_request_error", None),
}


def error_body(error: BaseException, request_id: str) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the body for an error.

    What neither is a `Fault` nor an error of this package is a mistake of ours: it is logged, and
    the caller learns nothing but the request's id.

    Args:
        error: What was raised.
        request_id: The request's id.
    """
    if isinstance(error, Fault):
        name, message = error.name, error.message
    elif isinstance(error, OrchestratorError):
        name, message = error.bedrock_name, error.message
    else:
        _LOG.error("request %s failed", request_id, exc_info=error)
        name = ""
        message = f"Something went wrong in the server. Its log says more: {request_id}."
    status, kind, code = _KINDS.get(name, (500, "server_error", None))
    return status, {"error": {"message": message, "type": kind, "param": None, "code": code}}
