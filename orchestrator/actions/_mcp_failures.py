"""What went wrong at a request to an MCP server, of which the SDK raises one kind of error.

The server may have answered with an error of its own. Or the SDK made one, with a code of the
protocol: of a connection that broke, and of an HTTP answer that is no message of MCP. Which it was
decides whether a tool may have taken effect. This module needs the extra `mcp`.
"""

from __future__ import annotations

from contextvars import ContextVar
from http.client import responses
from typing import TYPE_CHECKING

import httpx2
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
)

from orchestrator.actions._mcp_tools import NoAnswer, NotAsked, Refusal

if TYPE_CHECKING:
    from mcp.shared.exceptions import MCPError
    from pydantic import ValidationError

# JSON-RPC: what is wrong with the request itself, so that nothing was done.
_NOT_BEGUN = (INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR)
# HTTP: the request was not accepted, so that nothing was done either.
_NOT_ACCEPTED = (307, 308, 401, 403, 404, 405, 406, 407, 413, 415, 429)
# HTTP: what is wrong is who asks, or how often, and not the request.
_OF_THE_CALLER = (401, 403, 407, 429)
# MCP: 404 says that the session has ended; many servers say 400.
_NO_SESSION = (400, 404)
# The codes are for servers, too. These are the messages of errors that the SDK makes.
_BROKEN = ("Connection closed", "SSE stream ")
_LATE = "Request '"
_STAND_INS = ("Not Found", "Server returned an error response", "Session terminated")
# Of these, the request was not sent.
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_JSON, _EVENTS = "application/json", "text/event-stream"
_LONGEST_TYPE = 100  # characters
_LONGEST_PLACE = 200


class HttpAnswer:
    """The head of the last answer to one request; without one, `status` is 0."""

    def __init__(self) -> None:
        self.status = 0
        self.media_type = ""
        self.had_session = False  # whether the request was one of a session
        self.failure: httpx2.TransportError | None = None  # why the whole of it did not come

    def note(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.media_type = response.headers.get("content-type", "").partition(";")[0].lower()
        self.had_session = "mcp-session-id" in response.request.headers

    @property
    def ends_session(self) -> bool:
        """Whether the server may have forgotten the session, as one that was started again has."""
        return self.had_session and self.status in _NO_SESSION

    def find_fault(self, code: int, message: str) -> str:
        """Why it is no message of MCP; empty where it is one, or there is none."""
        if self.status >= 300:
            is_own = self.status >= 400 and self.media_type == _JSON and message not in _STAND_INS
            return "" if is_own else self._describe_status()
        if self.status == 202:
            return "HTTP 202 Accepted, which has no result"
        if self.status and self.media_type not in (_JSON, _EVENTS):
            return f"its answer has the type {self.media_type[:_LONGEST_TYPE]!r}"
        if self.status and code == PARSE_ERROR:  # said of the answer, and not of the request
            return "its answer is not a message of MCP"
        return ""

    def describe_error(self, code: int) -> str:
        """An error of MCP, with the status of HTTP where that says more than the code."""
        of_caller = self.status in _OF_THE_CALLER
        return f"{self._describe_status()}, error {code}" if of_caller else f"error {code}"

    def _describe_status(self) -> str:
        return f"HTTP {self.status} {responses.get(self.status, '')}".rstrip()


_answer: ContextVar[HttpAnswer | None] = ContextVar("orchestrator_mcp_answer", default=None)


def expect_answer() -> HttpAnswer:
    """Has `note_answer` note the answers to what the calling context sends from now on."""
    answer = HttpAnswer()
    _answer.set(answer)
    return answer


def note_answer(response: httpx2.Response) -> None:
    """Notes the head of an answer; the SDK receives it in the context of who asked."""
    answer = _answer.get()
    if answer is None:
        return
    if response.request.method == "POST":
        answer.note(response)
    else:
        answer.failure = None  # the SDK resumes the answer that broke off


def note_failure(error: httpx2.TransportError, request: httpx2.Request) -> None:
    """Notes why a request has no answer, or not the whole of one."""
    answer = _answer.get()
    if answer is not None and request.method == "POST":
        answer.failure = error


def to_exception(error: MCPError, answer: HttpAnswer) -> NoAnswer | Refusal:
    """What an error of the SDK comes to, with what HTTP said before."""
    if isinstance(answer.failure, _UNSENT):
        return NotAsked(f"it could not be reached ({type(answer.failure).__name__})")
    code, message = error.error.code, str(error.error.message)
    if answer.failure is not None or (code == CONNECTION_CLOSED and message.startswith(_BROKEN)):
        return NoAnswer("the connection broke")
    if code == REQUEST_TIMEOUT and message.startswith(_LATE):
        return NoAnswer("the time was up")
    fault = answer.find_fault(code, message)
    # Its message may hold anything; only what is wrong with the arguments helps a model.
    helps = code == INVALID_PARAMS and answer.status not in _OF_THE_CALLER
    begun = answer.status not in _NOT_ACCEPTED and (bool(fault) or code not in _NOT_BEGUN)
    return Refusal(
        fault or answer.describe_error(code),
        message if helps and not fault else None,
        begun=begun,
        kind=str(code),
        said="" if fault else message,
        status=answer.status,
        lost=answer.ends_session,
    )


def describe_wrong_shape(error: ValidationError) -> str:
    """Where a result is not as MCP has it; its values are left out."""
    first = error.errors(include_input=False, include_context=False, include_url=False)[0]
    place = ".".join(map(str, first["loc"]))[:_LONGEST_PLACE]
    return f"its answer is not as MCP has it: {place}: {first['msg']}"


def describe_unusable(error: RuntimeError) -> str:
    """Why the SDK does not take a result; the error's message may have the result's values."""
    if type(error) is RuntimeError:
        return "its result is not as the tool's outputSchema says"
    return f"its answer cannot be used: {type(error).__name__}"
