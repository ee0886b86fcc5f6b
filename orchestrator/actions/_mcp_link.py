"""One connection to an MCP server: an event loop in a thread, which the SDK's client lives in.

The SDK is asynchronous, and its client has to be opened and closed by one task. That task is the
thread's main one; calls are others, handed over from any thread.
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

from orchestrator.actions.hosts import Hosts
from orchestrator.errors import ModelNotReady

_log = logging.getLogger("orchestrator.mcp")
_GRACE = 2.0  # seconds that answers may be late: the SDK's own limit ends first
_CLOSING = 15.0  # more than the SDK gives a process to end, to end by force, and to be killed
_MOST_PAGES = 100

T = TypeVar("T")


class NoAnswer(Exception):
    """The server did not start, ended, or did not answer in time."""


class Refusal(Exception):
    """The server answered with an error of the protocol."""

    def __init__(self, message: str, advice: str | None = None) -> None:
        super().__init__(message)
        self.advice = advice  # a text for the model, when it can mend the call


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
        try:
            import mcp  # noqa: F401
        except ImportError as error:
            raise ModelNotReady(
                "MCP servers need the extra `mcp`: pip install 'bedrock-orchestrator[mcp]'"
            ) from error
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
        from mcp.shared.exceptions import MCPError

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
            from mcp.client import Client

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
        from mcp.client.streamable_http import streamable_http_client

        from orchestrator.actions._mcp_http import client_of

        async with client_of(start.headers, start.hosts) as client:
            yield streamable_http_client(start.url, http_client=client)
        return
    from mcp.client.stdio import StdioServerParameters, stdio_client

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
    from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, REQUEST_TIMEOUT

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
