"""Findings on a flow, as Bedrock's `FlowValidation`s.

Each has one of Bedrock's types (FlowValidationType). `Error`s keep a flow from being prepared,
`Warning`s do not. `Unspecified` is what Bedrock has no type for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class FlowValidation:
    """One finding."""

    type: str  # Bedrock's FlowValidationType
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)  # the members of its details
    severity: str = "Error"  # or `Warning`

    def to_api(self) -> dict[str, Any]:
        """It as Bedrock has it."""
        member = self.type[:1].lower() + self.type[1:]
        return {
            "type": self.type,
            "message": self.message,
            "severity": self.severity,
            "details": {member: dict(self.details)},
        }


Findings = Iterator[FlowValidation]
