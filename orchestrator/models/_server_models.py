"""The models that an OpenAI-compatible server lists, for whoever named one that it does not have.

It is asked for them once, for a few seconds; whatever it answers then, the first error stays.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from orchestrator.errors import ResourceNotFound
from orchestrator.models._encoding import decode
from orchestrator.models._http_waits import Until
from orchestrator.support.redaction import redact
from orchestrator.support.spelling import find_close

_SECONDS = 3.0
_MOST_BYTES = 1_000_000
_MOST_NAMES = 2_000
_LONGEST_NAME = 200
_SHOWN = 10
_MOST_SHOWN = 2_000  # characters


class ModelList:
    """Asks a server for its models, and puts them into the error of one that it does not have."""

    def __init__(
        self, model: str, url: str, secrets: Sequence[str], ends: float | None = None
    ) -> None:
        """`ends` is when the request that failed has to end, if it has to."""
        self._model = model
        self._url = url
        self._secrets = secrets
        self._ends = min(time.monotonic() + _SECONDS, math.inf if ends is None else ends)
        self._content = bytearray()

    def build_request(self, client: Any) -> Any:
        """The request, which ends in time however slowly it is answered."""
        timeout = {name: Until.build(_SECONDS, self._ends) for name in _WAITS}
        return client.build_request("GET", self._url, extensions={"timeout": timeout})

    def read(self, response: Any) -> None:
        """Reads an answer, as far as it is one."""
        if response.status_code == 200:
            all(map(self._add, response.iter_raw()))

    async def aread(self, response: Any) -> None:
        """The same, on the event loop."""
        if response.status_code == 200:
            async for data in response.aiter_raw():
                if not self._add(data):
                    break

    def _add(self, data: bytes) -> bool:
        self._content += data
        return len(self._content) <= _MOST_BYTES

    def explain(self, error: ResourceNotFound) -> ResourceNotFound:
        """The error with the names of the models; the same without any."""
        names = self._read_names()
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

    def _read_names(self) -> list[str]:
        if len(self._content) > _MOST_BYTES:
            return []
        try:
            listed = decode(self._content)["data"][:_MOST_NAMES]
            found = [one["id"] for one in listed]
        except (ValueError, TypeError, KeyError):
            return []
        return sorted(
            one for one in found if isinstance(one, str) and 0 < len(one) <= _LONGEST_NAME
        )


_WAITS = ("connect", "read", "write", "pool")
