"""What handlers of operations take, return and share: plain data, and its usual checks.

A handler is a function of a `Request`. What it gives back has the members of the operation's output
in botocore's service model, as boto3 would hand them to its caller: `bytes` for blobs, `datetime`s
with a zone for timestamps. `wire` checks and writes it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from orchestrator.message import clean


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is calling."""

    tenant: str = ""  # whose agents, sessions and memories the call may see; empty without keys
    # Patterns (`*`, `?`) of what its agents may use in the server's name: ARNs of Lambdas, `s3://`
    # addresses, ids of models, knowledge bases and guardrails of AWS
    allow: tuple[str, ...] = ("*",)

    def may_use(self, resource: str) -> bool:
        """Whether the caller's agents may use something in the server's name.

        The ARN of a Lambda is compared part by part, as it is read: what a pattern has between two
        colons matches nothing beyond them, but for a `*` at its end.
        """
        parts = resource.split(":")
        if parts[:1] != ["arn"] or parts[2:3] != ["lambda"]:
            return any(fnmatchcase(resource, pattern) for pattern in self.allow)
        return any(_matches(parts, pattern.split(":")) for pattern in self.allow)


def _matches(parts: list[str], patterns: list[str]) -> bool:
    """Whether an ARN's parts match those of a pattern; one that ends in `*` leaves the rest out."""
    if patterns[-1] == "*" and len(patterns) < len(parts):
        patterns = patterns + ["*"] * (len(parts) - len(patterns))
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


@dataclass(frozen=True, slots=True)
class Request:
    """One call of an operation, checked against the service's model."""

    service: str  # boto3's name of the service, such as `bedrock-agent-runtime`
    operation: str  # the operation's name, such as `InvokeAgent`
    params: dict[str, Any]  # as a boto3 caller would give them; those left out are absent
    caller: Caller = Caller()
    id: str = ""  # the request's id, a UUID, which is in the answer's headers


StreamEvent = tuple[str, Mapping[str, Any]]
"""An event's name and its members, such as `("chunk", {"bytes": b"Hello"})`."""


@dataclass(frozen=True, slots=True)
class EventStream:
    """An answer that is sent event by event."""

    # What it raises becomes the stream's last frame, an exception. It is closed when the client
    # has gone.
    events: AsyncGenerator[StreamEvent, None]
    # The answer's other members, such as `sessionId`
    members: Mapping[str, Any] = field(default_factory=dict)


class Fault(Exception):
    """A modelled exception of a service.

    Attributes:
        name: Its name in the service's model, such as `ConflictException`.
        message: What is wrong and what to do about it.
        members: Its other members, such as `resourceName`.
    """

    def __init__(self, name: str, message: str, **members: Any) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        # It may quote what a caller has sent, and is written as UTF-8.
        self.message = clean(message)
        self.members = clean(members)


def conflict_error(message: str) -> Fault:
    """The error of a change that what is there forbids."""
    return Fault("ConflictException", message)


def not_found_error(what: str, id: str) -> Fault:
    """The error that says that something is not there."""
    return Fault(
        "ResourceNotFoundException",
        f"Failed to retrieve the {what} {id!r} because it doesn't exist. Retry your request with "
        "a different resource identifier.",
    )


def check_quota(count: int, most: int, what: str) -> None:
    """Refuses one more than there may be."""
    if count >= most:
        raise Fault(
            "ServiceQuotaExceededException",
            f"there are {count:,} {what}, and the most are {most:,}; delete one first",
        )


def check_tags(tags: Mapping[str, str], most: int = 50) -> None:
    """Refuses more tags of one thing than there may be."""
    if len(tags) > most:
        raise Fault(
            "ServiceQuotaExceededException",
            f"there would be {len(tags)} tags, and the most are {most}; remove some",
        )


def pick(members: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The members of these names that are there."""
    return {name: members[name] for name in names if members.get(name) is not None}


TagChange = Callable[[dict[str, str]], dict[str, str]]
"""What becomes of the tags of a thing."""

Handler = (
    Callable[[Request], Mapping[str, Any]]
    | Callable[[Request], Awaitable[Mapping[str, Any] | EventStream]]
)
"""Carries an operation out. One that is no coroutine function may block: it runs in a thread.

It raises a `Fault`, or an `OrchestratorError`, which names a Bedrock exception itself."""

Operations = Mapping[str, Mapping[str, Handler]]
"""Handlers by service and operation."""
