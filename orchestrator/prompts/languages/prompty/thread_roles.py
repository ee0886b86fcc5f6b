"""The roles of messages that come as data: a thread's are the conversation's, not the author's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import ValidationError

__all__ = ["check_thread_roles"]

_SPOKEN = ("user", "assistant", "tool", "function")
_INSTRUCTING = ("system", "developer")


def check_thread_roles(
    name: str, value: Any, *, strict: bool, source: str | None
) -> Iterator[Diagnostic]:
    """What is said against the roles of a thread's messages that are dicts.

    Args:
        name: The input.
        value: Its value.
        strict: Refuse messages that would be the system text.
        source: The template's file, for messages.

    Raises:
        ValidationError: A role is none, or is one that a strict thread may not have.
    """
    given = value if isinstance(value, list | tuple) else ()
    instructing = []
    for at, one in enumerate(given):
        role = one.get("role", "user") if isinstance(one, Mapping) else "user"
        if role in _INSTRUCTING:
            instructing.append((f"{name}[{at}]", role))
        elif role not in _SPOKEN:
            raise ValidationError(
                f"{name}[{at}] has the role {str(role)[:40]!r}; there are "
                f"{', '.join((*_SPOKEN, *_INSTRUCTING))}"
            )
    if not instructing:
        return
    where, role = instructing[0]
    message = f"{where} has the role {role!r}: it is system text that the author did not write"
    if strict:
        raise ValidationError(f"{message}, and the thread is strict")
    yield Diagnostic(
        severity="warning",
        code="instructing-thread",
        message=message,
        suggestion=f"leave such messages out; with strict: true for {name!r} they are an error",
        file=source,
    )
