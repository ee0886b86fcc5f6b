"""One connection to an MCP server: an event loop in a thread, which the SDK's client lives in.

The SDK is asynchronous, and its client has to be opened and closed by one task. That task is the
thread's main one; calls are others, handed over from any thread. Whoever waits says until when, on
the monotonic clock. This module needs the extra `mcp`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from orchestrator.actions._mcp_failures import (
    describe_unusable,
    describe_wrong_shape,
    expect_answer,
    note_answer,
    note_failure,
    to_exception,
)
from orchestrator.actions._mcp_process import MOST_BYTES, ServerProcess
from orchestrator.actions._mcp_spans import (
    TOOL_ERROR,
    fail_span,
    replace_sdk_spans,
    trace_request,
)
from orchestrator.actions._mcp_tools import MOST_CHARS, NoAnswer, NotAsked, Refusal
from orchestrator.actions.hosts import Hosts, RefusedAddress
from orchestrator.support.logs import get_logger
from orchestrator.support.tracing import build_trace_headers

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_log = get_logger("orchestrator.mcp")
_GRACE = 0.5  # seconds that answers may be late: the SDK's own limit ends first
_CLOSING = 2.0  # seconds that a server has to end by itself
_ENDING = 5.0  # seconds that the thread has besides, after its server was ended by force
_MOST_PAGES = 100
_LONGEST_LINE = 10_000  # characters of a line of the log
_LONGEST_ID = 200  # characters of a session's id in a span

T = TypeVar("T")

# The SDK logs what it cannot read, and Python writes it to stderr when nobody takes its records.
logging.getLogger("mcp.client").addHandler(logging.NullHandler())


class LinkSettings(NamedTuple):
    """How a server is reached."""

    command: Sequence[str] | None
    url: str | None
    environment: Mapping[str, str]
    headers: Mapping[str, str]
    folder: str | Path | None
    hosts: Hosts


class Link:
    """An open connection."""

    def __init__(self, start: LinkSettings, until: float) -> None:
        """Opens it; raises `NoAnswer` when the server did not start, or `Refusal`."""
        self._start = start
        self._process: ServerProcess | None = None
        self._main: asyncio.Task[None] | None = None
        self._grace = _CLOSING
        self._client: Any = None
        self._session_id = ""  # as the server calls the connection, over HTTP
        self._asked = 0  # questions that wait for an answer
        self._abandoned = False
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._open: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run, name="orchestrator-mcp", daemon=True)
        self._thread.start()
        try:
            self._open.result(max(until - time.monotonic(), 0))
        except concurrent.futures.TimeoutError:
            self.close(0)
            raise NoAnswer("it did not start before the time was up") from None
        except Exception as error:
            self._thread.join(_ENDING)
            if isinstance(first := _find_first(error), MCPError):
                raise to_exception(first, self._opening) from None
            raise NoAnswer(_reason(first)) from None
        except BaseException:  # of whoever waits, such as Ctrl-C
            self.close(0)
            raise

    @property
    def alive(self) -> bool:
        """Whether the connection has not ended."""
        return self._thread.is_alive()

    def tools(self, until: float) -> list[dict[str, Any]]:
        """The definitions of the server's tools; raises `NoAnswer` or `Refusal`."""

        async def ask() -> list[dict[str, Any]]:
            tools: list[dict[str, Any]] = []
            cursor, chars = None, 0
            for _ in range(_MOST_PAGES):
                page = await self._client.list_tools(cursor=cursor)
                tools += (more := [_to_dict(tool) for tool in page.tools])
                cursor = page.next_cursor
                chars += len(json.dumps(more))
                if not cursor or chars > MOST_CHARS:  # whoever reads them refuses so many
                    return tools
            raise Refusal(f"its list of tools has more than {_MOST_PAGES} pages")

        with self._trace("tools/list"):
            return self._ask(ask(), until)

    def call(self, name: str, arguments: dict[str, Any], until: float) -> dict[str, Any]:
        """What a tool returned, in MCP's members; raises as `tools` does."""

        async def ask() -> dict[str, Any]:
            left = max(until - time.monotonic(), 0.001)
            called = await self._client.call_tool(name, arguments, read_timeout_seconds=left)
            return _to_dict(called)

        with self._trace("tools/call", name) as span:
            called = self._ask(ask(), until + _GRACE)
            if called.get("isError"):
                fail_span(span, TOOL_ERROR)
            return called

    def _trace(self, method: str, tool: str = "") -> AbstractContextManager[Span]:
        version = str(self._client.protocol_version)
        http = self._start.url is not None
        return trace_request(method, tool, http=http, version=version, session=self._session_id)

    def _ask(self, question: Coroutine[Any, Any, T], until: float) -> T:
        with self._lock:
            if self._is_done:
                question.close()
                raise NotAsked("the connection to it has ended")
            self._asked += 1
        try:
            return self._wait_for(question, until)
        finally:
            with self._lock:
                self._asked -= 1
            self._close_if_abandoned()

    def _wait_for(self, question: Coroutine[Any, Any, T], until: float) -> T:
        async def ask() -> T:
            replace_sdk_spans()  # the task has a context of its own, with the caller's span
            answer = expect_answer()
            try:
                return await question
            except MCPError as error:
                raise to_exception(error, answer) from None
            except ValidationError as error:
                raise Refusal(describe_wrong_shape(error), begun=True) from None
            except RuntimeError as error:  # of the SDK, which could not use the answer
                raise Refusal(describe_unusable(error), begun=True) from None

        asked = ask()
        try:
            future = asyncio.run_coroutine_threadsafe(asked, self._loop)
        except RuntimeError:
            asked.close()
            question.close()
            raise NotAsked("the connection to it has ended") from None
        try:
            return future.result(max(until - time.monotonic(), 0))
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise NoAnswer("the time was up") from None
        except (NoAnswer, Refusal):
            raise
        except concurrent.futures.CancelledError:
            raise NoAnswer("it has ended") from None
        except Exception as error:  # of the SDK or its transports
            raise NoAnswer(_reason(error)) from None

    def abandon(self) -> None:
        """Ends a connection that nobody is to use any more.

        A process ends at once. Over HTTP, where requests do not depend on each other, those of
        other callers get their answers first.
        """
        if self._start.url is None:
            self.close(0)
            return
        with self._lock:
            self._abandoned = True
        self._close_if_abandoned()

    def _close_if_abandoned(self) -> None:
        with self._lock:
            done = self._is_done
        if done:
            self.close(0)

    @property
    def _is_done(self) -> bool:  # read under the lock: once it is so, no other call begins
        return self._abandoned and not self._asked

    def close(self, seconds: float = _CLOSING) -> None:
        """Ends the connection, and the server's process, and waits for both.

        The server has `seconds` to end by itself; with 0, it is ended at once.
        """
        with suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._end, seconds)
        if threading.current_thread() is not self._thread:
            self._thread.join(seconds + _ENDING)

    def _end(self, seconds: float) -> None:
        self._grace = seconds
        self._stop.set()
        if seconds > 0 and self._open.done():
            self._loop.call_later(seconds, self._end, 0)
            return
        if self._process is not None:
            self._process.kill()
            if self._open.done():  # without its process, the connection ends by itself
                return
        if self._main is not None:
            self._main.cancel()

    def _run(self) -> None:
        replace_sdk_spans()  # the handshake is no turn's
        self._opening = expect_answer()
        try:
            self._main = self._loop.create_task(self._keep_open())
            self._loop.run_until_complete(self._main)
        except BaseException as error:
            if not self._open.done():
                self._open.set_exception(error)
            else:
                _log.info("the connection to an MCP server ended: %s", _reason(error))
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _keep_open(self) -> None:
        async with self._transport() as transport:
            opening = Client(transport, cache=None)
            stop = asyncio.ensure_future(self._stop.wait())
            try:
                async with opening as client:
                    self._client = client
                    self._open.set_result(None)
                    await stop
            finally:
                stop.cancel()

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        start = self._start
        if start.url is not None:
            async with _open_http_client(start, self._note_answer) as client:
                yield streamable_http_client(
                    start.url, http_client=client, max_sse_event_size=MOST_BYTES
                )
            return
        # A process needs a file for its standard error; the lines go to the log `orchestrator.mcp`.
        reading, writing = os.pipe()
        with os.fdopen(writing, "w") as errors:
            threading.Thread(target=_log_lines, args=(reading,), daemon=True).start()
            if sys.platform == "win32":
                yield stdio_client(_parameters(start), errors)
                return
            process = self._process = await ServerProcess.start(
                start.command or (), start.environment, start.folder, errors
            )
        try:
            yield process.speak(lambda: self._grace)
        except Exception:
            if (error := process.find_start_error()) is not None:
                raise error from None
            raise
        finally:
            process.close()

    # The SDK keeps the id to itself, and the status.
    async def _note_answer(self, response: httpx2.Response) -> None:
        note_answer(response)
        self._session_id = response.headers.get("mcp-session-id", self._session_id)[:_LONGEST_ID]


def _open_http_client(
    start: LinkSettings, hear: Callable[[httpx2.Response], Coroutine[Any, Any, None]]
) -> httpx2.AsyncClient:
    # `hear` gets the heads of all answers.
    # A small compressed answer may be of any size: none is asked for, and none is unpacked.
    headers = {"Accept-Encoding": "identity", **start.headers}
    return httpx2.AsyncClient(
        headers=headers,
        timeout=httpx2.Timeout(30.0, read=300.0),
        transport=_CheckedTransport(start.hosts),
        trust_env=False,  # no proxies
        event_hooks={"response": [hear]},
    )


def _parameters(start: LinkSettings) -> StdioServerParameters:
    command, *arguments = start.command or ("",)
    return StdioServerParameters(
        command=command,
        args=arguments,
        env=dict(start.environment),
        cwd=start.folder,
        encoding_error_handler="replace",
    )


def _log_lines(reading: int) -> None:
    with os.fdopen(reading, errors="replace") as lines:
        while line := lines.readline(_LONGEST_LINE):
            _log.info("%s", line.rstrip())


def _to_dict(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found


def _find_first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _reason(error: BaseException) -> str:
    error = _find_first(error)
    reason = getattr(error, "strerror", None)
    return f"{type(error).__name__}{f': {reason}' if reason else ''}"


# Connects to an address that was checked, so that a name which means something else a moment later
# (DNS rebinding) leads nowhere; TLS and `Host` keep the name.
class _CheckedTransport(httpx2.AsyncHTTPTransport):
    def __init__(self, hosts: Hosts) -> None:
        # Who calls tools has limits of its own.
        super().__init__(trust_env=False, limits=httpx2.Limits(max_keepalive_connections=20))
        self._hosts = hosts

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await self._send(request)
        except httpx2.TransportError as error:
            if request.method != "POST":
                raise
            # The SDK would end with it, and the requests of everybody else: what it gets instead
            # is an answer that is an error to whoever asked.
            note_failure(error, request)
            return httpx2.Response(503, request=request)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        request.headers.update(build_trace_headers())
        host = request.url.host
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        try:
            addresses = await asyncio.to_thread(self._hosts.resolve, host, port)
        except (RefusedAddress, OSError) as error:
            raise httpx2.ConnectError(type(error).__name__, request=request) from None
        for last, address in enumerate(addresses, 1 - len(addresses)):
            try:
                sent = await super().handle_async_request(_pin_address(request, address))
                return _bound(sent, request)
            except httpx2.ConnectError:
                if not last:
                    raise
        raise httpx2.ConnectError("no address", request=request)


def _bound(response: httpx2.Response, request: httpx2.Request) -> httpx2.Response:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise httpx2.RemoteProtocolError("compressed, which was not asked for", request=request)
    # MCP: messages are UTF-8. The client library would take any of Python's codecs that it names.
    if "content-type" in response.headers:
        response.headers["content-type"] = response.headers["content-type"].partition(";")[0]
    response.stream = _BoundedStream(response.stream, request)
    return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: Any, request: httpx2.Request) -> None:
        self._stream = stream
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._read():
                yield chunk
        except httpx2.TransportError as error:
            note_failure(error, self._request)
            raise httpx2.StreamError(type(error).__name__) from None  # which ends no other request

    async def _read(self) -> AsyncIterator[bytes]:
        left = MOST_BYTES
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise httpx2.ReadError(f"an answer has more than {MOST_BYTES} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _pin_address(request: httpx2.Request, address: str) -> httpx2.Request:
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )
