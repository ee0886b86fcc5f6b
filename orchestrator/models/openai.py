"""Models behind OpenAI's chat completions protocol: OpenAI, Ollama, vLLM, llama.cpp and others."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orchestrator.errors import (
    DependencyFailed,
    OrchestratorError,
    ResourceNotFound,
    ValidationError,
)
from orchestrator.models import _chat_completions as chat
from orchestrator.models._bounds import ModelReplyBounds
from orchestrator.models._encoding import build_interrupted_error, decode
from orchestrator.models._openai_errors import (
    ErrorResponse,
    SentKey,
    Tries,
    build_key_error,
    build_protocol_error,
    get_address,
    stream_error,
)
from orchestrator.models._server_models import ModelList
from orchestrator.models.base import Model, ModelReply, ModelRequest
from orchestrator.support.http import AsyncResponse, HTTPFailure, Request, Response, Server, Waits
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
        waits = Waits(connect_timeout, read_timeout)
        try:
            parts = urlsplit(base_url)
            self._server = Server(base_url, waits, max_concurrency)
        except ValueError:
            raise ValidationError(
                f"the base url {base_url!r} is no http:// or https:// address"
            ) from None
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
        self._max_attempts = max_attempts
        self._deadline = deadline
        self._refused: frozenset[str] = frozenset()
        self._tools: tuple[Any, str] = ((), "")

    def complete(self, request: ModelRequest) -> ModelReply:
        """Answers `request`; see `Model.complete`."""
        return self._read(self._ask(request), request)

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        """Answers `request` piece by piece; closing the iterator closes the connection."""
        tries = self._tries(request, stream=True)
        response = self._send(request, tries, stream=True)
        reading = _ReplyStream(self.model_id, request, tries)
        try:
            while data := response.read():
                yield from reading.feed(data)
        except HTTPFailure as error:
            reading.handle_interruption(error)
        finally:
            response.close()
        yield reading.reply()

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """`complete`, on the event loop itself."""
        tries = self._tries(request, stream=False)
        response = await self._asend(request, tries, stream=False)
        return self._read(response.content, request)

    async def astream(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        """`stream`, on the event loop itself."""
        tries = self._tries(request, stream=True)
        response = await self._asend(request, tries, stream=True)
        reading = _ReplyStream(self.model_id, request, tries)
        try:
            while data := await response.read():
                for text in reading.feed(data):
                    yield text
        except HTTPFailure as error:
            reading.handle_interruption(error)
        finally:
            response.close()
        yield reading.reply()

    def _ask(self, request: ModelRequest) -> bytes:
        return self._send(request, self._tries(request, stream=False), stream=False).content

    def _read(self, body: bytes, request: ModelRequest) -> ModelReply:
        try:
            value = decode(body)
            reply = chat.read_reply(value, len(request.messages))
        except (ValueError, AttributeError, TypeError, KeyError):
            raise build_protocol_error(self.model_id, self._url) from None
        if reply is None:
            failure = stream_error(self.model_id, value, self._secrets())
            raise failure or build_protocol_error(self.model_id, self._url)
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

    def _send(self, request: ModelRequest, tries: Tries, *, stream: bool) -> Response:
        # The response whose events are still to come, or a whole one.
        while True:
            body = self._body(request, stream, self._refused)
            try:
                response = self._server.send(self._build(body), tries.bounds, streamed=stream)
                if response.status == 200:
                    return response
                wait = self._refusal(request, tries, response, body, stream)
            except ResourceNotFound as error:
                raise self._explain(error, tries) from None
            except HTTPFailure as error:
                wait = tries.handle_network_error(error)
            _sleep(wait)

    async def _asend(self, request: ModelRequest, tries: Tries, *, stream: bool) -> AsyncResponse:
        while True:
            body = self._body(request, stream, self._refused)
            try:
                response = await self._server.asend(
                    self._build(body), tries.bounds, streamed=stream
                )
                if response.status == 200:
                    return response
                wait = self._refusal(request, tries, response, body, stream)
            except ResourceNotFound as error:
                raise await self._aexplain(error, tries) from None
            except HTTPFailure as error:
                wait = tries.handle_network_error(error)
            await _asleep(wait)

    def _build(self, body: bytes) -> Request:
        fields = [*self._fields(), *build_trace_headers().items()]
        return Request("POST", self._url, fields, body)

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
        response: Response | AsyncResponse,
        body: bytes,
        stream: bool,
    ) -> float:
        # Seconds to wait before the next try; raises when there is none.
        retry_after = response.headers.get("retry-after")
        refusal = ErrorResponse(response.status, retry_after, response.content)
        parameter = tries.find_refused_parameter(refusal)
        # Only what was sent can be left out: a server that names ever new parameters gets no more
        # tries than there are members in the request.
        refused = self._refused | {parameter}
        if parameter and self._body(request, stream, refused) != body:
            self._refused = refused
            return 0.0
        return tries.handle_error_response(refusal)

    def _explain(self, error: ResourceNotFound, tries: Tries) -> ResourceNotFound:
        listed = self._list_models(tries)
        try:
            response = self._server.send(listed.build_request(self._fields()), listed.bounds)
        except (HTTPFailure, OrchestratorError):
            return error
        return listed.explain(error, response)

    async def _aexplain(self, error: ResourceNotFound, tries: Tries) -> ResourceNotFound:
        listed = self._list_models(tries)
        try:
            response = await self._server.asend(listed.build_request(self._fields()), listed.bounds)
        except (HTTPFailure, OrchestratorError):
            return error
        return listed.explain(error, response)

    def _list_models(self, tries: Tries) -> ModelList:
        url = f"{self._base_url}/models"
        return ModelList(self._model, url, tries.secrets, tries.bounds.ends)

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

    def _fields(self) -> list[tuple[str, str]]:
        key = self._key()
        fields = [("content-type", "application/json"), ("user-agent", "bedrock-orchestrator")]
        return [*fields, ("authorization", f"Bearer {key}")] if key else fields


_OWN_HOSTS = ("api.openai.com",)
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class _ReplyStream:
    def __init__(self, model_id: str, request: ModelRequest, tries: Tries) -> None:
        self._model_id = model_id
        self._tries = tries
        self._events = chat.EventReader(request.reply_bytes)
        self._pieces = chat.Pieces(len(request.messages))

    def feed(self, data: bytes) -> Iterator[str]:
        try:
            for chunk in self._events.feed(data):
                failure = stream_error(self._model_id, chunk, self._tries.secrets)
                if failure is not None:
                    raise failure
                text = self._pieces.take(chunk)
                if text:
                    yield text
        except (ValueError, AttributeError, TypeError, KeyError):
            raise build_protocol_error(self._model_id, self._tries.url) from None

    def handle_interruption(self, error: Exception) -> None:
        # What breaks after the reply's end takes nothing from it.
        if not self._pieces.stop_reason:
            self._tries.bounds.check_time()
            raise self._build_interrupted_error(error) from None

    def reply(self) -> ModelReply:
        if not self._pieces.stop_reason:
            raise self._build_interrupted_error()
        return self._pieces.reply()

    def _build_interrupted_error(self, error: Exception | None = None) -> DependencyFailed:
        return build_interrupted_error(self._model_id, error, get_address(self._tries.url))


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
