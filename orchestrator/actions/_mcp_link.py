"""One connection to an MCP server: an event loop in a thread, which the SDK's client lives in.

The SDK is asynchronous, and its client has to be opened and closed by one task. That task is the
thread's main one; calls are others, handed over from any thread. This module needs the extra `mcp`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, REQUEST_TIMEOUT

from orchestrator.actions._mcp_tools import NoAnswer, Refusal
from orchestrator.actions.hosts import Hosts, RefusedAddress

_log = logging.getLogger("orchestrator.mcp")
_GRACE = 2.0  # seconds that answers may be late: the SDK's own limit ends first
_CLOSING = 15.0  # more than the SDK gives a process to end, to end by force, and to be killed
_MOST_PAGES = 100

T = TypeVar("T")


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

    def __init__(self, start: LinkSettings, seconds: float) -> None:
        """Opens it; raises `NoAnswer` when the server did not start, or does not speak MCP."""
        self._start = start
        self._client: Any = None
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._open: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run, name="orchestrator-mcp", daemon=True)
        self._thread.start()
        try:
            self._open.result(seconds)
        except concurrent.futures.TimeoutError:
            self.close()
            raise NoAnswer(f"it did not start within {seconds:g} seconds") from None
        except BaseException as error:
            self._thread.join(_CLOSING)
            raise NoAnswer(_reason(error)) from None

    @property
    def alive(self) -> bool:
        """Whether the connection has not ended."""
        return self._thread.is_alive()

    def tools(self, seconds: float) -> list[dict[str, Any]]:
        """The definitions of the server's tools; raises `NoAnswer` or `Refusal`."""

        async def ask() -> list[dict[str, Any]]:
            tools: list[dict[str, Any]] = []
            cursor = None
            for _ in range(_MOST_PAGES):
                page = await self._client.list_tools(cursor=cursor)
                tools += [_to_dict(tool) for tool in page.tools]
                cursor = page.next_cursor
                if not cursor:
                    return tools
            raise Refusal(f"its list of tools has more than {_MOST_PAGES} pages")

        return self._ask(ask(), seconds)

    def call(self, name: str, arguments: dict[str, Any], seconds: float) -> dict[str, Any]:
        """What a tool returned, in MCP's members; raises as `tools` does."""

        async def ask() -> dict[str, Any]:
            called = await self._client.call_tool(name, arguments, read_timeout_seconds=seconds)
            return _to_dict(called)

        return self._ask(ask(), seconds + _GRACE)

    def _ask(self, question: Coroutine[Any, Any, T], seconds: float) -> T:
        try:
            future = asyncio.run_coroutine_threadsafe(question, self._loop)
        except RuntimeError:
            question.close()
            raise NoAnswer("it has ended") from None
        try:
            return future.result(seconds)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise NoAnswer(f"the {seconds:g} seconds were up") from None
        except MCPError as error:
            raise _to_exception(error) from None
        except Refusal:
            raise
        except concurrent.futures.CancelledError:
            raise NoAnswer("it has ended") from None
        except Exception as error:  # of the SDK, its transports, or a result of the wrong shape
            raise NoAnswer(_reason(error)) from None

    def close(self) -> None:
        """Ends the connection, and the server's process, and waits for both."""
        with suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._stop.set)
        if threading.current_thread() is not self._thread:
            self._thread.join(_CLOSING)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._keep_open())
        except BaseException as error:
            if not self._open.done():
                self._open.set_exception(error)
            else:
                _log.info("the connection to an MCP server ended: %s", _reason(error))
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _keep_open(self) -> None:
        async with _transport(self._start) as transport:
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
async def _transport(start: LinkSettings) -> AsyncIterator[Any]:
    if start.url is not None:
        async with httpx2.AsyncClient(
            headers=dict(start.headers),
            timeout=httpx2.Timeout(30.0, read=300.0),
            transport=_CheckedTransport(start.hosts),
            trust_env=False,  # no proxies
        ) as client:
            yield streamable_http_client(start.url, http_client=client)
        return
    command, *arguments = start.command or ("",)
    parameters = StdioServerParameters(
        command=command,
        args=arguments,
        env=dict(start.environment),
        cwd=start.folder,
        encoding_error_handler="replace",
    )
    # A process needs a file for its standard error; the lines go to the log `orchestrator.mcp`.
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as errors:
        threading.Thread(target=_log_lines, args=(reading,), daemon=True).start()
        yield stdio_client(parameters, errors)


def _log_lines(reading: int) -> None:
    with os.fdopen(reading, errors="replace") as lines:
        for line in lines:
            _log.info("%s", line.rstrip())


def _to_dict(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found


def _to_exception(error: Any) -> Exception:
    code = error.error.code
    if code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
        return NoAnswer("the connection broke" if code == CONNECTION_CLOSED else "the time was up")
    # Its message may hold anything; only what is wrong with the arguments helps a model.
    advice = str(error.error.message)[:2000] if code == INVALID_PARAMS else None
    return Refusal(f"error {code}", advice)


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    reason = getattr(error, "strerror", None)
    return f"{type(error).__name__}{f': {reason}' if reason else ''}"


# Connects to an address that was checked, so that a name which means something else a moment later
# (DNS rebinding) leads nowhere; TLS and `Host` keep the name.
class _CheckedTransport(httpx2.AsyncHTTPTransport):
    def __init__(self, hosts: Hosts) -> None:
        super().__init__(trust_env=False)
        self._hosts = hosts

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        try:
            addresses = await asyncio.to_thread(self._hosts.resolve, host, port)
        except (RefusedAddress, OSError) as error:
            raise httpx2.ConnectError(type(error).__name__, request=request) from None
        for last, address in enumerate(addresses, 1 - len(addresses)):
            try:
                return await super().handle_async_request(_pin_address(request, address))
            except httpx2.ConnectError:
                if not last:
                    raise
        raise httpx2.ConnectError("no address", request=request)


def _pin_address(request: httpx2.Request, address: str) -> httpx2.Request:
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )
