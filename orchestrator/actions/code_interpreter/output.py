"""What a program prints, with a bound."""

from __future__ import annotations

__all__ = ["Output"]


class Output:
    """Keeps the beginning and the end of a stream of bytes."""

    __slots__ = ("_first", "_half", "_last", "_left_out")

    def __init__(self, most: int) -> None:
        """Makes an empty one that keeps about `most` bytes."""
        self._half = max(most // 2, 1)
        self._first = bytearray()
        self._last = bytearray()
        self._left_out = 0

    def take(self, data: bytes) -> None:
        """Takes what was printed next."""
        free = self._half - len(self._first)
        self._first += data[:free] if free > 0 else b""
        self._last += data[max(free, 0) :]
        if (extra := len(self._last) - self._half) > 0:
            self._left_out += extra
            del self._last[:extra]

    def text(self) -> str:
        """The text, which says how much was left out of its middle."""
        if not self._left_out:
            return (self._first + self._last).decode(errors="replace")
        first, last = self._first.decode(errors="ignore"), self._last.decode(errors="ignore")
        return f"{first}\n[... {self._left_out} bytes were left out here ...]\n{last}"
