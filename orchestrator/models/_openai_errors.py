"""What went wrong at an OpenAI-compatible server, and whether to try again."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from orchestrator.errors import (
    AccessDenied,
    DependencyFailed,
    ModelNotReady,
    OrchestratorError,
    ResourceNotFound,
    ThrottlingError,
    ValidationError,
)
from orchestrator.models._bounds import ModelReplyBounds
from orchestrator.models._encoding import decode, encode
from orchestrator.support.http import (
    ConnectFailed,
    ConnectTimedOut,
    HTTPFailure,
    ProxyRefused,
    ReadTimedOut,
    TLSFailed,
)
from orchestrator.support.redaction import redact

_RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
_FINAL = (ConnectFailed, ConnectTimedOut, ProxyRefused, ReadTimedOut, TLSFailed)
_LONGEST_WAIT = 60.0
_HINT = "--model local needs no key"


class ErrorResponse(NamedTuple):
    """A response that is no answer."""

    status: int
    retry_after: str | None  # its header `Retry-After`
    body: bytes | bytearray  # the beginning of its body


class SentKey(NamedTuple):
    """Which key a server was sent."""

    sent: bool = True
    given: bool = False  # whether it was `api_key=`, and not the environment's
    trusted: bool = True  # whether the server may have the environment's


def build_key_error(model_id: str) -> AccessDenied:
    """There is no key for OpenAI's own service, which answers nobody without one."""
    return AccessDenied(
        f"there is no key for the model {model_id!r} at OpenAI: set the environment variable "
        "OPENAI_API_KEY, or pass api_key=...; a model of another server is "
        f"{model_id + '@http://localhost:11434/v1'!r}, with its base URL",
        resource=model_id,
        signed_in=False,
        hint=_HINT,
    )


def build_protocol_error(model_id: str, url: str) -> DependencyFailed:
    """The server's answer is no chat completion."""
    return DependencyFailed(
        f"the server of the model {model_id!r} at {get_address(url)} answered with something that "
        "is no chat completion; check the base url (it usually ends in /v1)",
        resource=model_id,
    )


def stream_error(
    model_id: str, chunk: Mapping[str, Any], secrets: Sequence[str]
) -> OrchestratorError | None:
    """The error that an answer or a chunk of a stream reports, if any."""
    error = chunk.get("error") if isinstance(chunk, Mapping) else None
    if not error:
        return None
    code = error.get("code") if isinstance(error, Mapping) else None
    status = code if isinstance(code, int) else 500
    return _of_status(status, _text(error, secrets), model_id, "")


class Tries:
    """The tries of one request: says how long to wait before the next, or raises.

    Attributes:
        url: What is asked.
        bounds: The time and the bytes that the reply may take.
        secrets: What was sent that no error may repeat.
    """

    def __init__(
        self,
        model_id: str,
        url: str,
        attempts: int,
        deadline: float,
        bounds: ModelReplyBounds,
        secrets: Sequence[str],
        key: SentKey,
    ) -> None:
        self._key = key
        self.bounds = bounds
        self.secrets = secrets
        self._model_id = model_id
        self.url = url
        self._attempts = attempts
        self._deadline = deadline
        self._begun = time.monotonic()
        self._tried = 0

    def handle_network_error(self, error: HTTPFailure) -> float:
        """The seconds to wait after a network error; raises when there is no next try."""
        self.bounds.check_time()
        # A connection that broke is tried again; one that was refused or timed out is not: a local
        # server that is not running will not answer in a second either.
        wait = None if isinstance(error, _FINAL) else self._wait(None)
        if wait is not None:
            return wait
        where = get_address(self.url)
        if isinstance(error, ReadTimedOut):
            text = f"did not answer in time: {where} sends nothing; is the server overloaded?"
        else:
            text = f"could not be reached at {where} ({error}); is the server running there?"
        raise DependencyFailed(f"the model {self._model_id!r} {text}", resource=self._model_id)

    def handle_error_response(self, response: ErrorResponse) -> float:
        """The seconds to wait after an error response; raises when there is no next try."""
        status = response.status
        wait = self._wait(response.retry_after) if status in _RETRIED else None
        if wait is not None:
            return wait
        text = _text(_error(response), self.secrets)
        raise _of_status(status, text, self._model_id, get_address(self.url), self._key)

    def find_refused_parameter(self, response: ErrorResponse) -> str:
        """The parameter that the model says it does not take; empty when it says nothing alike."""
        error = _error(response) if response.status == 400 else {}
        unsupported = error.get("code") in ("unsupported_parameter", "unsupported_value")
        return str(error.get("param") or "") if unsupported else ""

    def _wait(self, retry_after: str | None) -> float | None:
        self._tried += 1
        if self._tried >= self._attempts:
            return None
        wait = _seconds(retry_after)
        if wait is None:
            wait = min(0.5 * 2 ** (self._tried - 1), 8.0) * random.uniform(0.5, 1.0)
        ends = min(self._begun + self._deadline, self.bounds.ends or math.inf)
        return None if wait > _LONGEST_WAIT or time.monotonic() + wait > ends else wait


def _seconds(retry_after: str | None) -> float | None:
    """What `Retry-After` asks for; `None` when it says nothing that is a time from now."""
    try:
        wait = float(retry_after or "")
    except ValueError:
        wait = _seconds_until(retry_after or "")
    # "nan" and "inf" are numbers to Python.
    return wait if math.isfinite(wait) and wait >= 0 else None


def _seconds_until(date: str) -> float:
    try:
        return max(parsedate_to_datetime(date).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return math.nan


def _error(response: ErrorResponse) -> Mapping[str, Any]:
    try:
        value = decode(response.body)
    except ValueError:
        return {}
    error = value.get("error", value) if isinstance(value, dict) else value
    return error if isinstance(error, dict) else {"message": error}


def _text(error: Any, secrets: Sequence[str]) -> str:
    message = error.get("message") if isinstance(error, Mapping) else error
    given = message if isinstance(message, str) else message or error
    # A proxy's own page is no JSON: of it there is nothing to repeat.
    text = given if isinstance(given, str) else _to_json(given) if given else ""
    return redact(text.strip(), secrets) or "no reason given"


def _to_json(value: Any) -> str:
    try:
        return encode(value)
    except (ValueError, TypeError, RecursionError):
        return ""


def get_address(url: str) -> str:
    """A URL as messages show it: without a name, a password or a query."""
    return url.partition("?")[0].rpartition("@")[2]


def _refuse_key(status: int, model_id: str, place: str, key: SentKey) -> AccessDenied:
    # Servers repeat parts of the key in what they say.
    if key.sent:
        which = "that was passed (api_key=...)" if key.given else "in OPENAI_API_KEY"
        text = f"refused the key {which} (HTTP {status}): it is wrong, or may not use the model"
    elif key.trusted:
        text = (
            f"wants a key (HTTP {status}), and none was sent: set the environment variable "
            "OPENAI_API_KEY, or pass api_key=..."
        )
    else:
        text = (
            f"wants a key (HTTP {status}), and none was sent: pass api_key=..., or use https; "
            "the one in OPENAI_API_KEY is not sent over plain http to other machines"
        )
    return AccessDenied(
        f"the server of the model {model_id!r}{place} {text}",
        resource=model_id,
        signed_in=False,
        hint=_HINT,
    )


def _of_status(
    status: int, text: str, model_id: str, where: str, key: SentKey | None = None
) -> OrchestratorError:
    place = f" at {where}" if where else ""
    if status in (401, 403):
        return _refuse_key(status, model_id, place, key or SentKey())
    if status == 429:
        return ThrottlingError(
            f"the server of the model {model_id!r}{place} refused more requests for now, after "
            f"retries: {text}",
            resource=model_id,
        )
    if status == 404:
        return ResourceNotFound(
            f"the server{place} has no model {model_id.partition(':')[2] or model_id!r}, or no "
            f"chat completions there: {text}"
        )
    if status == 503 and "loading" in text.lower():
        return ModelNotReady(f"the model {model_id!r} is still loading", resource=model_id)
    if 400 <= status < 500:
        return ValidationError(
            f"the server of the model {model_id!r}{place} refused the request (HTTP {status}): "
            f"{text}"
        )
    return DependencyFailed(
        f"the server of the model {model_id!r}{place} failed (HTTP {status}): {text}",
        resource=model_id,
    )
