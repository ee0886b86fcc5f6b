"""The models that an OpenAI-compatible server lists, for whoever named one that it does not have.

It is asked for them once, for a few seconds; whatever it answers then, the first error stays.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from orchestrator.errors import ResourceNotFound
from orchestrator.models._encoding import decode
from orchestrator.support.http import AsyncResponse, ReadTimedOut, Request, Response
from orchestrator.support.redaction import redact
from orchestrator.support.reply_bounds import ReplyBounds
from orchestrator.support.spelling import find_close

_SECONDS = 3.0
_MOST_BYTES = 1_000_000
_MOST_NAMES = 2_000
_LONGEST_NAME = 200
_SHOWN = 10
_MOST_SHOWN = 2_000  # characters


class _ListBounds(ReplyBounds):
    # It answers in time, or not at all.
    def __init__(self, ends: float) -> None:
        super().__init__(_MOST_BYTES, "a list of models")
        self.ends = ends

    def check_time(self) -> None:
        if self.ends is not None and time.monotonic() >= self.ends:
            raise ReadTimedOut("no list of models in time")


class ModelList:
    """Asks a server for its models, and puts them into the error of one that it does not have.

    Attributes:
        bounds: What the answer may take.
    """

    def __init__(
        self, model: str, url: str, secrets: Sequence[str], ends: float | None = None
    ) -> None:
        """`ends` is when the request that failed has to end, if it has to."""
        self._model = model
        self._url = url
        self._secrets = secrets
        self.bounds = _ListBounds(
            min(time.monotonic() + _SECONDS, math.inf if ends is None else ends)
        )

    def build_request(self, fields: Sequence[tuple[str, str]]) -> Request:
        """The request, with the header fields of the one that failed."""
        return Request("GET", self._url, fields)

    def explain(
        self, error: ResourceNotFound, response: Response | AsyncResponse
    ) -> ResourceNotFound:
        """The error with the names of the models in a response; the same without any."""
        names = _read_names(response.content) if response.status == 200 else []
        # It has the model: something else is not there.
        if not names or self._model in names:
            return error
        close = find_close(self._model, names, 0.5)
        meant = f": did you mean {close!r}?" if close else "."
        shown = ", ".join(map(repr, names[:_SHOWN]))
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        # A server may repeat what it was sent.
        names_text = redact(f"{meant} It has {shown}{more}", self._secrets, _MOST_SHOWN)
        where = self._url.removesuffix("/models").rpartition("@")[2]
        return ResourceNotFound(f"the server at {where} has no model {self._model!r}{names_text}")


def _read_names(content: bytes) -> list[str]:
    try:
        listed = decode(content)["data"][:_MOST_NAMES]
        found = [one["id"] for one in listed]
    except (ValueError, TypeError, KeyError):
        return []
    return sorted(one for one in found if isinstance(one, str) and 0 < len(one) <= _LONGEST_NAME)
