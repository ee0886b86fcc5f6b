"""Models behind OpenAI's chat completions protocol: OpenAI, Ollama, vLLM, llama.cpp and others.

Needs the extra `openai` (`pip install 'bedrock-orchestrator[openai]'`), which is imported at the
first request.
"""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from functools import cache
from itertools import cycle
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from orchestrator.errors import ModelNotReady, ValidationError
from orchestrator.models import _chat_completions as chat
from orchestrator.models._encoding import build_interrupted_error
from orchestrator.models._openai_errors import Tries, build_protocol_error, stream_error
from orchestrator.models.base import Model, ModelReply, ModelRequest

# Base url of OpenAI's own service.
OPENAI = "https://api.openai.com/v1"

_sleep = time.sleep
_asleep = asyncio.sleep


class OpenAIModel(Model):
    """A model of an OpenAI-compatible server.

    A prefill (a last message of role assistant) is left out by default: chat completions begin a
    new assistant message, and the parsers do not need the prefill's opening tag. Where the server
    continues such a message (vLLM, llama.cpp, Ollama), `continues_prefill=True` sends it.

    `topK` is no parameter of the protocol; servers that take one get it from the stage's
    `additionalModelRequestFields`. At most four stop sequences are sent. Parameters that a model
    refuses by name (OpenAI's reasoning models: `temperature`, `stop`) are left out from then on.
    """

    def __init__(
        self,
        model: str,
        base_url: str = OPENAI,
        *,
        api_key: str | None = None,
        model_id: str | None = None,
        continues_prefill: bool = False,
        max_concurrency: int = 256,
        connect_timeout: float = 10.0,
        read_timeout: float = 300.0,
        max_attempts: int = 5,
        deadline: float = 600.0,
    ) -> None:
        """Makes the model; nothing is imported or sent yet.

        Args:
            model: The model's name at the server.
            base_url: Where `/chat/completions` is found, as `http://127.0.0.1:11434/v1`.
            api_key: The key to send; by default the environment's `OPENAI_API_KEY`, which is sent
                over https and to this machine only.
            model_id: The id that chooses the dialect; `openai:<model>`, and so the dialect
                `tool-use`, by default.
            continues_prefill: Whether the server continues a last assistant message.
            max_concurrency: Connections at once; further requests wait for one.
            connect_timeout: Seconds to wait for a connection.
            read_timeout: Seconds to wait for the next bytes.
            max_attempts: Tries of one request.
            deadline: Seconds in which a request's tries have to begin.

        Raises:
            ValidationError: `base_url` is not an http or https address.
        """
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValidationError(f"the base url {base_url!r} is no http:// or https:// address")
        self.model_id = model_id or f"openai:{model}"
        self._model = model
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._api_key = api_key
        self._trusted = parts.scheme == "https" or parts.hostname in _LOOPBACK
        self._prefill = continues_prefill
        self._length = "max_completion_tokens" if parts.hostname in _OWN_HOSTS else "max_tokens"
        self._options = (max_concurrency, connect_timeout, read_timeout)
        self._max_attempts = max_attempts
        self._deadline = deadline
        self._refused: frozenset[str] = frozenset()
        self._tools: tuple[Any, str] = ((), "")
        self._lock = Lock()
        self._client: Any = None
        self._async_clients: dict[Any, tuple[Iterator[Any], AsyncIterator[None]]] = {}

    def complete(self, request: ModelRequest) -> ModelReply:
        """Answers `request`; see `Model.complete`."""
        return self._read(self._open(request, stream=False), request)

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        """Answers `request` piece by piece; closing the iterator closes the connection."""
        response = self._open(request, stream=True)
        reading = _ReplyStream(self.model_id, request)
        try:
            for data in response.iter_bytes():
                yield from reading.feed(data)
        except _http().HTTPError as error:
            reading.handle_interruption(error)
        finally:
            response.close()
        yield reading.reply()

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """`complete`, on the event loop itself."""
        return self._read(await self._aopen(request, stream=False), request)

    async def astream(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        """`stream`, on the event loop itself."""
        response = await self._aopen(request, stream=True)
        reading = _ReplyStream(self.model_id, request)
        try:
            async for data in response.aiter_bytes():
                for text in reading.feed(data):
                    yield text
        except _http().HTTPError as error:
            reading.handle_interruption(error)
        finally:
            await response.aclose()
        yield reading.reply()

    def _read(self, response: Any, request: ModelRequest) -> ModelReply:
        try:
            value = response.json()
            reply = chat.read_reply(value, len(request.messages))
        except (ValueError, AttributeError, TypeError, KeyError) as error:
            raise build_protocol_error(self.model_id) from error
        if reply is None:
            raise stream_error(self.model_id, value) or build_protocol_error(self.model_id)
        return reply

    def _body(self, request: ModelRequest, stream: bool, refused: frozenset[str]) -> bytes:
        cached, tools = self._tools
        if request.tools and cached is not request.tools:
            tools = chat.encode_tools(request.tools)
            self._tools = (request.tools, tools)
        body = chat.encode_body(
            self._model,
            request,
            tools=tools if request.tools else "",
            length=self._length,
            refused=refused,
            stream=stream,
            prefill=self._prefill,
        )
        return body.encode("utf-8", "replace")

    def _open(self, request: ModelRequest, *, stream: bool) -> Any:
        client, tries = self._sync_client(), self._tries()
        while True:
            refused = self._refused
            body = self._body(request, stream, refused)
            http_request = client.build_request("POST", self._url, content=body)
            try:
                response = client.send(http_request, stream=stream)
                if response.status_code == 200:
                    return response
                response.read()
                response.close()
                wait = self._refusal(tries, response, refused)
            except _http().HTTPError as error:
                wait = tries.handle_network_error(error)
            _sleep(wait)

    async def _aopen(self, request: ModelRequest, *, stream: bool) -> Any:
        client, tries = await self._async_client(), self._tries()
        while True:
            refused = self._refused
            body = self._body(request, stream, refused)
            http_request = client.build_request("POST", self._url, content=body)
            try:
                response = await client.send(http_request, stream=stream)
                if response.status_code == 200:
                    return response
                await response.aread()
                await response.aclose()
                wait = self._refusal(tries, response, refused)
            except _http().HTTPError as error:
                wait = tries.handle_network_error(error)
            await _asleep(wait)

    def _tries(self) -> Tries:
        return Tries(self.model_id, self._url, self._max_attempts, self._deadline)

    def _refusal(self, tries: Tries, response: Any, refused: frozenset[str]) -> float:
        # Seconds to wait before the next try; raises when there is none.
        parameter = tries.find_refused_parameter(response)
        if parameter and parameter not in refused:
            self._refused |= {parameter}
            return 0.0
        return tries.handle_error_response(response)

    # Clients

    def _headers(self) -> dict[str, str]:
        # Base urls come from definitions too, so the environment's key goes over https or to this
        # machine only.
        key = self._api_key
        if key is None and self._trusted:
            key = os.environ.get("OPENAI_API_KEY")
        headers = {"Content-Type": "application/json"}
        return {**headers, "Authorization": f"Bearer {key}"} if key else headers

    def _client_options(self, connections: int) -> dict[str, Any]:
        http, (_, connect, read) = _http(), self._options
        return {
            "headers": self._headers(),
            "timeout": http.Timeout(read, connect=connect),
            "limits": http.Limits(
                max_connections=connections, max_keepalive_connections=connections
            ),
            "verify": _tls(),
        }

    def _sync_client(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = _http().Client(**self._client_options(self._options[0]))
                weakref.finalize(self, self._client.close)
            return self._client

    async def _async_client(self) -> Any:
        # Connections belong to an event loop: each loop has its own clients, taken in turn.
        loop = asyncio.get_running_loop()
        entry = self._async_clients.get(loop)
        if entry is None:
            connections = self._options[0]
            # A pool looks at all of its connections at each request: small ones are faster.
            options = self._client_options(min(connections, _POOL))
            clients = [_http().AsyncClient(**options) for _ in range(-(-connections // _POOL))]
            # A loop that shuts down closes the generators that began on it, and so the clients.
            closing = _close_clients(clients, self._async_clients, loop)
            entry = self._async_clients[loop] = (cycle(clients), closing)
            await anext(closing)
        return next(entry[0])


_POOL = 32
_OWN_HOSTS = ("api.openai.com",)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


async def _close_clients(
    clients: list[Any], registry: dict[Any, Any], loop: Any
) -> AsyncIterator[None]:
    try:
        yield
    finally:
        registry.pop(loop, None)
        for client in clients:
            await client.aclose()


class _ReplyStream:
    def __init__(self, model_id: str, request: ModelRequest) -> None:
        self._model_id = model_id
        self._events = chat.EventReader()
        self._pieces = chat.Pieces(len(request.messages))

    def feed(self, data: bytes) -> Iterator[str]:
        try:
            chunks = self._events.feed(data)
        except ValueError as error:
            raise build_protocol_error(self._model_id) from error
        for chunk in chunks:
            failure = stream_error(self._model_id, chunk)
            if failure is not None:
                raise failure
            try:
                text = self._pieces.take(chunk)
            except (AttributeError, TypeError, KeyError) as error:
                raise build_protocol_error(self._model_id) from error
            if text:
                yield text

    def handle_interruption(self, error: Exception) -> None:
        # What breaks after the reply's end takes nothing from it.
        if not self._pieces.stop_reason:
            raise build_interrupted_error(self._model_id, error) from error

    def reply(self) -> ModelReply:
        if not self._pieces.stop_reason:
            raise build_interrupted_error(self._model_id)
        return self._pieces.reply()


def _http() -> Any:
    try:
        import httpx2
    except ImportError:
        raise ModelNotReady(
            "OpenAI-compatible servers need the extra 'openai': "
            "pip install 'bedrock-orchestrator[openai]'"
        ) from None
    return httpx2


@cache
def _tls() -> Any:
    # Reading the certificates takes longer than a request; all clients share them.
    return _http().create_ssl_context()


def split_address(rest: str) -> tuple[str, str]:
    """The model's name and the base url in the rest of a spec `openai:<model>@<base url>`."""
    model, at, base_url = rest.partition("@http")
    if not at and "@" in rest:
        raise ValidationError(
            f"the base url of 'openai:{rest}' has to begin with http:// or https://, as in "
            "'openai:llama3.2@http://127.0.0.1:11434/v1'"
        )
    if not model:
        raise ValidationError(f"'openai:{rest}' names no model: write 'openai:<model>@<base url>'")
    return model, f"http{base_url}" if at else OPENAI


def build_model(rest: str, folder: Path) -> OpenAIModel:
    """The model of a spec `openai:<rest>`."""
    return OpenAIModel(*split_address(rest))
