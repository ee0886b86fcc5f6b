"""Errors in OpenAI's shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.server.operations import Fault
from orchestrator.server.rest import describe_error

_KINDS: Mapping[str, tuple[str, str | None]] = {
    "AccessDeniedException": ("permission_error", "access_denied"),
    "ConflictException": ("invalid_request_error", "conflict"),
    "DependencyFailedException": ("server_error", "dependency_failed"),
    "ModelNotReadyException": ("server_error", "model_not_ready"),
    "ResourceNotFoundException": ("invalid_request_error", "not_found"),
    "ServiceQuotaExceededException": ("invalid_request_error", "limit_exceeded"),
    "ThrottlingException": ("rate_limit_error", "rate_limit_exceeded"),
    "ValidationException": ("invalid_request_error", None),
}


def build_error(fault: Fault) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the body for an exception of the service."""
    name, status, message = describe_error(fault)
    kind, code = _KINDS.get(name, ("server_error", None))
    return status, {"error": {"message": message, "type": kind, "param": None, "code": code}}
