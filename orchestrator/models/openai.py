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
from contextlib import aclosing, closing
from functools import cache
from itertools import cycle
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from orchestrator.errors import ModelNotReady, ResourceNotFound, ValidationError
from orchestrator.models import _chat_completions as chat
from orchestrator.models._bounds import BoundedBody, ModelReplyBounds
from orchestrator.models._encoding import build_interrupted_error, decode
from orchestrator.models._http_waits import Until, bound_reads
from orchestrator.models._openai_errors import (
    ErrorResponse,
    SentKey,
    Tries,
    build_key_error,
    build_protocol_error,
    stream_error,
)
from orchestrator.models._server_models import ModelList
from orchestrator.models.base import Model, ModelReply, ModelRequest
from orchestrator.support.lazy_imports import describe_missing_extra
from orchestrator.support.redaction import secrets_of_url
from orchestrator.support.tracing import build_trace_headers

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
            read_timeout: Seconds to wait for the next bytes. A whole reply has the seconds of its
                request, which in a turn are those that are left of `Limits.seconds`.
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
        self._base_url = base_url.rstrip("/")
        self._url = f"{self._base_url}/chat/completions"
        self._api_key = api_key
        self._trusted = parts.scheme == "https" or parts.hostname in LOOPBACK
        self._prefill = continues_prefill
        self._reply_seconds: float | None = None
        self._own_host = parts.hostname in _OWN_HOSTS
        self._length = "max_completion_tokens" if self._own_host else "max_tokens"
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
        return self._read(self._ask(request), request)

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        """Answers `request` piece by piece; closing the iterator closes the connection."""
        tries = self._tries(request, stream=True)
        response = self._send(request, tries, stream=True)
        reading = _ReplyStream(self.model_id, request, tries)
        try:
            for data in response.iter_raw():
                yield from reading.feed(data)
        except _http().HTTPError as error:
            reading.handle_interruption(error)
        finally:
            response.close()
        yield reading.reply()

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """`complete`, on the event loop itself."""
        tries = self._tries(request, stream=False)
        return self._read(await self._asend(request, tries, stream=False), request)

    async def astream(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        """`stream`, on the event loop itself."""
        tries = self._tries(request, stream=True)
        response = await self._asend(request, tries, stream=True)
        reading = _ReplyStream(self.model_id, request, tries)
        try:
            async for data in response.aiter_raw():
                for text in reading.feed(data):
                    yield text
        except _http().HTTPError as error:
            reading.handle_interruption(error)
        finally:
            await response.aclose()
        yield reading.reply()

    def _ask(self, request: ModelRequest) -> bytearray:
        body: bytearray = self._send(request, self._tries(request, stream=False), stream=False)
        return body

    def _read(self, body: bytearray, request: ModelRequest) -> ModelReply:
        try:
            value = decode(body)
            reply = chat.read_reply(value, len(request.messages))
        except (ValueError, AttributeError, TypeError, KeyError):
            raise build_protocol_error(self.model_id) from None
        if reply is None:
            failure = stream_error(self.model_id, value, self._secrets())
            raise failure or build_protocol_error(self.model_id)
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

    # The response whose events are still to come, or an answer's body.
    def _send(self, request: ModelRequest, tries: Tries, *, stream: bool) -> Any:
        client = self._sync_client()
        while True:
            body = self._body(request, stream, self._refused)
            try:
                response = client.send(self._build(client, body, tries), stream=True)
                if stream and response.status_code == 200:
                    return response
                read = BoundedBody(tries.bounds, of_reply=response.status_code == 200)
                with closing(response):
                    all(read.add(data) for data in response.iter_raw())
                if response.status_code == 200:
                    return read.content
                wait = self._refusal(request, tries, response, read.content, body, stream)
            except ResourceNotFound as error:
                raise self._explain(error, client, tries) from None
            except _http().HTTPError as error:
                wait = tries.handle_network_error(error)
            _sleep(wait)

    async def _asend(self, request: ModelRequest, tries: Tries, *, stream: bool) -> Any:
        client = await self._async_client()
        while True:
            body = self._body(request, stream, self._refused)
            try:
                response = await client.send(self._build(client, body, tries), stream=True)
                if stream and response.status_code == 200:
                    return response
                read = BoundedBody(tries.bounds, of_reply=response.status_code == 200)
                async with aclosing(response):
                    async for data in response.aiter_raw():
                        if not read.add(data):
                            break
                if response.status_code == 200:
                    return read.content
                wait = self._refusal(request, tries, response, read.content, body, stream)
            except ResourceNotFound as error:
                raise await self._aexplain(error, client, tries) from None
            except _http().HTTPError as error:
                wait = tries.handle_network_error(error)
            await _asleep(wait)

    def _build(self, client: Any, body: bytes, tries: Tries) -> Any:
        tries.bounds.check_time()
        ends, (_, connect, read) = tries.bounds.ends, self._options
        traced = build_trace_headers()
        if ends is None:
            return client.build_request("POST", self._url, content=body, headers=traced)
        waits = {"connect": connect, "read": read, "write": read, "pool": read}
        timeout = {name: Until.build(seconds, ends) for name, seconds in waits.items()}
        return client.build_request(
            "POST", self._url, content=body, headers=traced, extensions={"timeout": timeout}
        )

    def _tries(self, request: ModelRequest, *, stream: bool) -> Tries:
        bounds = ModelReplyBounds(
            self.model_id, request, stream=stream, seconds=self._reply_seconds
        )
        if self._own_host and not self._key():
            raise build_key_error(self.model_id)
        limits = self._max_attempts, self._deadline
        sent = SentKey(bool(self._key()), self._api_key is not None, self._trusted)
        return Tries(self.model_id, self._url, *limits, bounds, self._secrets(), sent)

    def _refusal(
        self,
        request: ModelRequest,
        tries: Tries,
        response: Any,
        content: bytearray,
        body: bytes,
        stream: bool,
    ) -> float:
        # Seconds to wait before the next try; raises when there is none.
        retry_after = response.headers.get("retry-after")
        refusal = ErrorResponse(response.status_code, retry_after, content)
        parameter = tries.find_refused_parameter(refusal)
        # Only what was sent can be left out: a server that names ever new parameters gets no more
        # tries than there are members in the request.
        refused = self._refused | {parameter}
        if parameter and self._body(request, stream, refused) != body:
            self._refused = refused
            return 0.0
        return tries.handle_error_response(refusal)

    def _explain(self, error: ResourceNotFound, client: Any, tries: Tries) -> ResourceNotFound:
        listed = self._list_models(tries)
        try:
            with closing(client.send(listed.build_request(client), stream=True)) as response:
                listed.read(response)
        except _http().HTTPError:
            return error
        return listed.explain(error)

    async def _aexplain(
        self, error: ResourceNotFound, client: Any, tries: Tries
    ) -> ResourceNotFound:
        listed = self._list_models(tries)
        try:
            response = await client.send(listed.build_request(client), stream=True)
            async with aclosing(response):
                await listed.aread(response)
        except _http().HTTPError:
            return error
        return listed.explain(error)

    def _list_models(self, tries: Tries) -> ModelList:
        url = f"{self._base_url}/models"
        return ModelList(self._model, url, tries.secrets, tries.bounds.ends)

    # Clients

    def _key(self) -> str | None:
        # Base urls come from definitions too, so the environment's key goes over https or to this
        # machine only.
        if self._api_key is None and self._trusted:
            return os.environ.get("OPENAI_API_KEY")
        return self._api_key

    def _secrets(self) -> list[str]:
        # What a server was sent, it may repeat in what it says is wrong.
        key = self._key()
        return [*([key] if key else []), *secrets_of_url(self._url)]

    def _headers(self) -> dict[str, str]:
        key = self._key()
        # Compressed, a few bytes could become any number.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
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
                bound_reads(self._client)
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
            for client in clients:
                bound_reads(client)
            # A loop that shuts down closes the generators that began on it, and so the clients.
            closing = _close_clients(clients, self._async_clients, loop)
            entry = self._async_clients[loop] = (cycle(clients), closing)
            await anext(closing)
        return next(entry[0])


_POOL = 32
_OWN_HOSTS = ("api.openai.com",)
LOOPBACK = ("localhost", "127.0.0.1", "::1")


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
    def __init__(self, model_id: str, request: ModelRequest, tries: Tries) -> None:
        self._model_id = model_id
        self._tries = tries
        self._events = chat.EventReader(request.reply_bytes)
        self._pieces = chat.Pieces(len(request.messages))

    def feed(self, data: bytes) -> Iterator[str]:
        self._tries.bounds.take(len(data))
        try:
            for chunk in self._events.feed(data):
                failure = stream_error(self._model_id, chunk, self._tries.secrets)
                if failure is not None:
                    raise failure
                text = self._pieces.take(chunk)
                if text:
                    yield text
        except (ValueError, AttributeError, TypeError, KeyError):
            raise build_protocol_error(self._model_id) from None

    def handle_interruption(self, error: Exception) -> None:
        # What breaks after the reply's end takes nothing from it.
        if not self._pieces.stop_reason:
            self._tries.bounds.check_time()
            raise build_interrupted_error(self._model_id, error) from None

    def reply(self) -> ModelReply:
        if not self._pieces.stop_reason:
            raise build_interrupted_error(self._model_id)
        return self._pieces.reply()


def _http() -> Any:
    try:
        import httpx2
    except ImportError as error:
        needs = "OpenAI-compatible servers need"
        raise ModelNotReady(describe_missing_extra(needs, "openai", error.name)) from None
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
