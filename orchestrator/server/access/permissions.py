"""What a caller has used in the server's name has to be allowed."""

from __future__ import annotations

from orchestrator.errors import AccessDenied
from orchestrator.server.operations import Caller


def check_access(caller: Caller, resource: str) -> None:
    """Sees to it that a caller may have something used in the server's name.

    Args:
        caller: Who is calling.
        resource: An ARN, an id or an `s3://` address.

    Raises:
        AccessDenied: They may not.
    """
    if not caller.may_use(resource):
        raise AccessDenied(
            f"this access key may not use {resource!r}: whoever runs the server can allow it",
            resource=resource,
        )
