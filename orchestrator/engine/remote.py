"""The seam to remote agents: a message in, an answer out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(slots=True)
class RemoteReply:
    """What a remote agent answered."""

    text: str
    citations: Sequence[Mapping[str, Any]] = field(default_factory=list)  # Bedrock's citations
    # Its trace parts, if it gave any
    trace: Sequence[Mapping[str, Any]] = field(default_factory=list)
    # Files that it made: `name`, `type` and `bytes` of each
    files: Sequence[Mapping[str, Any]] = field(default_factory=list)


@runtime_checkable
class RemoteAgent(Protocol):
    """A remote agent. Safe for many threads at once."""

    alias_arn: str  # the ARN of its alias

    def invoke(
        self,
        text: str,
        session_id: str,
        session_attributes: Mapping[str, str],
        prompt_session_attributes: Mapping[str, str],
    ) -> RemoteReply:
        """Has the agent answer `text`. May block.

        Raises:
            DependencyFailed: It failed, or could not be reached.
        """
        ...
