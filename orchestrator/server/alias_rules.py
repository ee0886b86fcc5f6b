"""Rules of versions and aliases, which agents and flows share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.server.ids import TEST_ALIAS
from orchestrator.server.operations import conflict_error

Data = Mapping[str, Any]


def refuse_test_alias(alias_id: str, kind: str) -> None:
    """Refuses to change the alias of `DRAFT`; `kind` is what has it, such as `agent`.

    Raises:
        ValidationError: It is that alias.
    """
    if alias_id == TEST_ALIAS:
        raise ValidationError(
            f"the alias {TEST_ALIAS} belongs to every {kind} and cannot be changed or deleted"
        )


def check_version_unused(version: str, owner: str, users: Iterable[str], params: Data) -> None:
    """Refuses to delete a version that aliases lead to, unless the request skips that.

    `owner` names what has the version, such as `the agent 'ABC'`, and `users` are aliases' ids.

    Raises:
        Fault: ConflictException.
    """
    used = list(users)
    if used and not params.get("skipResourceInUseCheck"):
        raise conflict_error(
            f"the version {version!r} of {owner} is used by the aliases {', '.join(used)}; point "
            "them to another one, or set skipResourceInUseCheck"
        )


def check_unused(owner: str, alias_count: int, params: Data) -> None:
    """Refuses to delete what has aliases, unless the request skips that.

    Raises:
        Fault: ConflictException.
    """
    if alias_count and not params.get("skipResourceInUseCheck"):
        raise conflict_error(
            f"{owner} has aliases ({alias_count}), which may be in use; delete them first, or set "
            "skipResourceInUseCheck"
        )
