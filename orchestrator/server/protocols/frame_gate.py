"""What a client may send over an HTTP/2 connection besides requests, and how much of it.

`h2` keeps to the protocol, but not to any budget: whoever sends pings, settings, resets or empty
frames without end has a server busy for nothing (CVE-2019-9512 to 9518, CVE-2023-44487). So frames
are counted by their heads (RFC 9113, section 4.1) before `h2` sees them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    RstStreamFrame,
)

# The least that a peer may allow, and what is not raised here (RFC 9113, section 6.5.2).
FRAME_BYTES = 16_384
# Of a request's headers, compressed or not; HTTP/1.1 takes 16 KB, without 32 bytes for each.
HEAD_BYTES = 32_768

_PREFACE_BYTES = 24
_FRAME_HEAD_BYTES = 9
_END_STREAM, _END_HEADERS = 0x1, 0x4
_MOST_CONTINUATIONS = 8
# Frames that carry no request are paid for with credits: so many at once, so many a second, and
# one for each 50 bytes that the client was sent, as it opens windows for them.
_CREDITS = 1000.0
_CREDITS_PER_SECOND = 200.0
_BYTES_PER_CREDIT = 50
# A reset also ends what the server had begun.
_RESET_COST = 5
# A body may come in small pieces, but not in any number of them.
_SMALL_BYTES = 256


class FloodError(Exception):
    """A client sends more, or larger frames, than any client needs to."""


class FrameGate:
    """Passes on what a client sends, without its GOAWAY frames, and counts its frames.

    `h2` sends nothing more after a GOAWAY. A client may say goodbye and still wait for the answers
    to what it has asked (RFC 9113, section 6.8), as Node.js does.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.in_head = False  # whether a request's headers have begun, and not ended
        self.goodbye = False  # whether the client has sent a GOAWAY
        self._frame_head = bytearray()
        self._left = _PREFACE_BYTES  # bytes of the current frame that are still to come
        self._is_dropped = False  # whether the current frame is not passed on
        self._block_bytes = 0
        self._continuations = 0
        self._clock = clock
        self._credits = _CREDITS
        self._counted = clock()

    def pass_on(self, data: bytes) -> bytes:
        """What `h2` may see of some data.

        Raises:
            FloodError: It is too much.
        """
        passed = bytearray()
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                self._left -= len(piece)
                if not self._is_dropped:
                    passed += piece
            else:
                piece = data[at : at + _FRAME_HEAD_BYTES - len(self._frame_head)]
                self._frame_head += piece
                if len(self._frame_head) == _FRAME_HEAD_BYTES:
                    passed += self._begin_frame()
            at += len(piece)
        return bytes(passed)

    def earn(self, sent: float) -> None:
        """Adds credits for bytes that the client was sent."""
        self._credits = min(_CREDITS, self._credits + sent / _BYTES_PER_CREDIT)

    def refund(self) -> None:
        """Gives back what the headers of a request have cost."""
        self._credits += 1

    def _begin_frame(self) -> bytes:
        head = bytes(self._frame_head)
        self._frame_head.clear()
        self._left = int.from_bytes(head[:3], "big")
        kind, flags = head[3], head[4]
        # `h2` would keep up to 16 MB of such a frame before it says so.
        if self._left > FRAME_BYTES:
            raise FloodError(f"a frame of {self._left:,} bytes")
        if kind in (HeadersFrame.type, ContinuationFrame.type):
            self._count_head(kind, flags)
        self._pay(self._find_cost(kind, flags))
        self._is_dropped = kind == GoAwayFrame.type
        self.goodbye |= self._is_dropped
        return b"" if self._is_dropped else head

    def _count_head(self, kind: int, flags: int) -> None:
        if kind == HeadersFrame.type:
            self._block_bytes = self._continuations = 0
        else:
            self._continuations += 1
        self._block_bytes += self._left
        self.in_head = not flags & _END_HEADERS
        if self._block_bytes > HEAD_BYTES or self._continuations > _MOST_CONTINUATIONS:
            raise FloodError(f"headers of {self._block_bytes:,} bytes or more")

    def _find_cost(self, kind: int, flags: int) -> int:
        if kind == DataFrame.type:
            return 0 if self._left > _SMALL_BYTES or flags & _END_STREAM else 1
        return _RESET_COST if kind == RstStreamFrame.type else 1

    def _pay(self, cost: int) -> None:
        now = self._clock()
        self.earn((now - self._counted) * _CREDITS_PER_SECOND * _BYTES_PER_CREDIT)
        self._counted = now
        self._credits -= cost
        if self._credits < 0:
            raise FloodError("frames that carry no request")
