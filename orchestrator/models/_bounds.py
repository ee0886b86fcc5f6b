"""What one reply of a model's server may take, by the turn's limits.

`ModelReplyBounds` is asked wherever bytes or events come in.
"""

from __future__ import annotations

import time

from orchestrator.errors import DependencyFailed, LimitExceeded, OrchestratorError
from orchestrator.models.base import ModelRequest
from orchestrator.support.reply_bounds import ReplyBounds

# A token of a stream is an event of its own, with the stream's id, model and time: up to 350 bytes.
_STREAM = 8
# Blocks and tool calls of one reply.
MOST_BLOCKS = 1_000


class ModelReplyBounds(ReplyBounds):
    """The time and the bytes that one reply may still take, over all tries."""

    def __init__(
        self, model_id: str, request: ModelRequest, *, stream: bool, seconds: float | None = None
    ) -> None:
        """Begins to count; `seconds` hold where the request has no time of its own."""
        super().__init__(request.reply_bytes * (_STREAM if stream else 1))
        self._model_id = model_id
        self._of_turn = request.seconds is not None
        self._seconds = request.seconds if self._of_turn else seconds
        self.ends = None if self._seconds is None else time.monotonic() + self._seconds

    def check_time(self) -> None:
        """Raises when the time is over."""
        # An event loop's timer may go off a little early.
        if self.ends is not None and time.monotonic() >= self.ends - 0.001:
            raise self._build_time_error()

    def build_size_error(self) -> OrchestratorError:
        """The error when there are more bytes."""
        return DependencyFailed(
            f"the model {self._model_id!r} sent more than {self.most:,} bytes in one reply; "
            "if it really has so much to say, raise the limit 'reply_bytes'",
            resource=self._model_id,
        )

    def _build_time_error(self) -> OrchestratorError:
        if self._of_turn:
            return LimitExceeded(
                f"the model {self._model_id!r} did not answer within the {self._seconds:.3g} "
                "seconds that were left of the turn's time; raise the limit 'seconds', or find out "
                "from the trace what is slow",
                limit="seconds",
            )
        return DependencyFailed(
            f"the model {self._model_id!r} did not answer within {self._seconds:g} seconds",
            resource=self._model_id,
        )
