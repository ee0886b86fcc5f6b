"""What a request shows of who sent it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request as it came over the wire.

    Attributes:
        method: The HTTP method.
        path: The path as it was sent, percent-encoded.
        query: The query string as it was sent.
        headers: Names, in lower case, and values, in the order in which they came.
    """

    method: str
    path: bytes
    query: bytes = b""
    headers: Sequence[tuple[bytes, bytes]] = field(default=(), repr=False)

    def all(self, name: str) -> list[bytes]:
        """The values of all headers of a name."""
        wanted = name.encode("ascii", "replace")
        return [value for header, value in self.headers if header == wanted]

    def one(self, name: str) -> str:
        """The value of a header; empty when it is not there, or there more than once."""
        values = self.all(name)
        return values[0].decode("latin-1").strip() if len(values) == 1 else ""
