"""An operation's members in JSON that no request of that operation brought."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.server.wire.models import operation_model
from orchestrator.server.wire.problems import Problems
from orchestrator.server.wire.scalars import Walk
from orchestrator.server.wire.shapes import get_read_walks


def read_members(
    service: str, operation: str, names: frozenset[str], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Members as a boto3 caller would give them, checked against botocore's service model.

    Args:
        service: The service, such as `bedrock-runtime`.
        operation: The operation, such as `Converse`.
        names: The members of its input that are read; others in `given` are passed over.
        given: JSON.

    Raises:
        ValidationError: A member is wrong.
    """
    problems = Problems()
    found: dict[str, Any] = _compile_walk(service, operation, names)(given, None, problems)
    if problems:
        raise ValidationError(str(problems))
    return found


@cache
def _compile_walk(service: str, operation: str, names: frozenset[str]) -> Walk:
    shape: Any = operation_model(service, operation).input_shape
    return get_read_walks(service).structure(shape, names=names).walk
