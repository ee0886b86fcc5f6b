"""What a check found: a message with its place and a remedy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["Diagnostic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding about a file or text.

    Attributes:
        severity: `error` (it will not work), `warning` (it may not do what was meant) or `info`.
        code: A short stable name, such as `unknown-placeholder`.
        message: What is the matter.
        suggestion: What to do about it; may be empty.
        file: The file, when there is one.
        line: Line, from 1.
        column: Column, from 1.
    """

    severity: Literal["error", "warning", "info"]
    code: str
    message: str
    suggestion: str = ""
    file: str | None = None
    line: int | None = None
    column: int | None = None

    @property
    def place(self) -> str:
        """`file:line:column`, as far as known."""
        parts = [self.file or "<text>", self.line, self.column]
        return ":".join(str(part) for part in parts if part is not None)

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON members."""
        return asdict(self)
