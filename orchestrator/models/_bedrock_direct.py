"""Converse and ConverseStream over connections of our own, with botocore's rules for them.

Of the CPU time of a call through boto3 three quarters are its way of a request: hooks, the user
agent built twice, endpoint rules, urllib3. None of that differs from one call to the next. So a
client is asked once what it would send, and is stopped before it signs (`learn`); after that only
the body, the model's id and the signature change. Credentials, the signature, what is tried again
and when, and how errors are read stay botocore's own functions, with the client's retry quota.

Whatever is not exactly as expected has no `Service`, and goes through boto3: another signature
than SigV4 or a bearer token, a proxy, a client certificate, headers that are unknown here, a hook
that somebody else registered, or a method of botocore that somebody replaced, such as moto does.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
import uuid
from collections.abc import Iterator, Mapping
from functools import cache, partial
from types import FunctionType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from orchestrator.models._bedrock_frames import Frames
from orchestrator.models._bounds import ModelReplyBounds
from orchestrator.models._converse import read_answer
from orchestrator.support.aws import STARTED, credentials_of, note_sent_credentials
from orchestrator.support.http import (
    Address,
    AsyncConnections,
    AsyncResponse,
    ConnectFailed,
    Connections,
    ConnectTimedOut,
    HTTPFailure,
    ReadTimedOut,
    Response,
    TLSFailed,
    Waits,
    encode_head,
)

_sleep = time.sleep
_asleep = asyncio.sleep


class _Operation(NamedTuple):
    """What a client sends for an operation, apart from the model's id and the body."""

    name: str
    model: Any  # botocore's description of it
    before_id: str  # the URL up to the model's id
    after_id: str
    signed: dict[str, str]  # header fields
    unsigned: tuple[tuple[str, str], ...]


class _Signing(NamedTuple):
    signer: Any
    name: str
    region: str
    version: str


class Service:
    """Bedrock's runtime at one address, with one client's credentials and configuration."""

    def __init__(
        self, client: Any, operations: Mapping[str, _Operation], signing: _Signing, address: Address
    ) -> None:
        """Opens nothing yet; see `learn`."""
        config = client.meta.config
        self._client = client
        self._operations = operations
        self._signing = signing
        self._address = address
        self._waits = Waits(config.connect_timeout, config.read_timeout)
        self._most = config.max_pool_connections
        self._connections = Connections(address, self._waits, self._most)
        self._pools: dict[asyncio.AbstractEventLoop, AsyncConnections] = {}
        self.attempts = config.retries["total_max_attempts"]

    def call(
        self, operation: str, model_id: str, body: bytes, bounds: ModelReplyBounds
    ) -> dict[str, Any]:
        """What boto3's method of that name returns; a stream is a `Body`.

        Raises:
            ClientError: Bedrock refused the request, after retries.
            BotoCoreError: It was not answered, after retries.
        """
        exchange = _Exchange(self, self._operations[operation], model_id, body, bounds)
        while True:
            try:
                response = self._connections.send(
                    exchange.sign(), bounds, streamed=exchange.streamed
                )
            except HTTPFailure as error:
                wait = exchange.wait_after_failure(error)
            else:
                if response.status < 300:
                    return exchange.read(response)
                wait = exchange.wait_after_refusal(response)
            _sleep(wait)

    async def acall(
        self, operation: str, model_id: str, body: bytes, bounds: ModelReplyBounds
    ) -> dict[str, Any]:
        """`call`, on the event loop itself; a stream is an `AsyncBody`."""
        exchange = _Exchange(self, self._operations[operation], model_id, body, bounds)
        pool = self._pool()
        while True:
            try:
                request = await self._asign(exchange)
                response = await pool.send(request, bounds, streamed=exchange.streamed)
            except HTTPFailure as error:
                wait = exchange.wait_after_failure(error)
            else:
                note_sent_credentials(exchange.sent)
                if response.status < 300:
                    return exchange.read(response)
                wait = exchange.wait_after_refusal(response)
            await _asleep(wait)

    def is_bypassed(self) -> bool:
        """Whether somebody who replaced parts of boto3 would not see what is sent here."""
        return is_patched()

    def emit(self, event: str, /, **members: Any) -> Any:
        """Has botocore's handlers answer an event; the first answer, or `None`."""
        responses = self._client.meta.events.emit(event, **members)
        return next((found for _, found in responses if found is not None), None)

    def sign(self, request: Any) -> None:
        """Adds the signature, with the credentials as they are now."""
        signer, *scope = self._signing
        signer.get_auth_instance(*scope).add_auth(request)

    def build_error(self, parsed: dict[str, Any], operation: _Operation) -> Exception:
        """Boto3's error for an answer."""
        kind = self._client.exceptions.from_code(parsed.get("Error", {}).get("Code"))
        error: Exception = kind(parsed, operation.name)
        return error

    def _pool(self) -> AsyncConnections:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            for other in [other for other in self._pools if other.is_closed()]:
                del self._pools[other]
            pool = self._pools[loop] = AsyncConnections(self._address, self._waits, self._most)
        return pool

    async def _asign(self, exchange: _Exchange) -> bytes:
        # Fresh credentials may have to be asked for, from a server or a program.
        credentials = getattr(self._signing.signer, "_credentials", None)
        needed = getattr(credentials, "refresh_needed", None)
        if needed is not None and needed():
            return await asyncio.to_thread(exchange.sign)
        return exchange.sign()


class _Exchange:
    """One call: its requests, and what becomes of their responses. Without I/O."""

    def __init__(
        self,
        service: Service,
        operation: _Operation,
        model_id: str,
        body: bytes,
        bounds: ModelReplyBounds,
    ) -> None:
        from botocore.utils import percent_encode

        self.streamed = operation.name == "ConverseStream"
        self.sent: tuple[str, ...] = ()
        self._service = service
        self._operation = operation
        self._url = f"{operation.before_id}{percent_encode(model_id)}{operation.after_id}"
        self._body = body
        self._bounds = bounds
        self._attempt = 0
        self._invocation = str(uuid.uuid4())
        # Where botocore's handlers keep what they have to know of a call.
        self._context: dict[str, Any] = {STARTED: time.monotonic()}

    def sign(self) -> bytes:
        """The next request."""
        from botocore.awsrequest import AWSRequest

        self._attempt += 1
        request = AWSRequest("POST", self._url, self._operation.signed, self._body)
        self._service.sign(request)
        self.sent = credentials_of(dict(request.headers.items()))
        note_sent_credentials(self.sent)
        _, _, host, target = self._url.split("/", 3)
        head = encode_head(
            "POST",
            f"/{target}",
            [
                ("Host", host),
                ("Accept-Encoding", "identity"),
                ("Content-Length", str(len(self._body))),
                ("amz-sdk-invocation-id", self._invocation),
                ("amz-sdk-request", f"attempt={self._attempt}; max={self._service.attempts}"),
                *self._operation.unsigned,
                *request.headers.items(),
            ],
        )
        return head + self._body

    def read(self, response: Response | AsyncResponse) -> dict[str, Any]:
        """What boto3 would return of a response that is no error."""
        self._service.emit(
            f"after-call.bedrock-runtime.{self._operation.name}",
            http_response=response_of_status(response.status),
            parsed={},
            model=self._operation.model,
            context=self._context,
        )
        if self.streamed:
            if isinstance(response, Response):
                return {"stream": Frames(Body(response, self._url, self.sent))}
            return {"stream": AsyncBody(response, self._url, self.sent)}
        return read_answer(response.content) or self._parse(response)

    def wait_after_refusal(self, response: Response | AsyncResponse) -> float:
        """Seconds until the next try of an error response; raises when there is none."""
        parsed = self._parse(response)
        wait = self._ask((_to_botocore(self._url, response), parsed), None)
        if wait is None:
            raise self._service.build_error(parsed, self._operation)
        return wait

    def wait_after_failure(self, failure: HTTPFailure) -> float:
        """Seconds until the next try where there was no response; raises when there is none."""
        note_sent_credentials(self.sent)
        error = _translate(failure, self._url)
        wait = self._ask(None, error)
        if wait is None:
            raise error from None
        return wait

    def _ask(self, response: Any, error: Exception | None) -> float | None:
        wait = self._service.emit(
            f"needs-retry.bedrock-runtime.{self._operation.name}",
            response=response,
            endpoint=None,
            operation=self._operation.model,
            attempts=self._attempt,
            caught_exception=error,
            request_dict={"context": self._context},
        )
        if wait is None or wait is False:
            return None
        ends = self._bounds.ends
        return float(wait if ends is None else max(min(wait, ends - time.monotonic()), 0.0))

    def _parse(self, response: Response | AsyncResponse) -> dict[str, Any]:
        from botocore.parsers import create_parser

        model = self._operation.model
        answered = {
            "headers": _headers_of(response),
            "status_code": response.status,
            "body": response.content,
            "context": {"operation_name": model.name},
        }
        parser = create_parser(model.service_model.resolved_protocol)
        parsed: dict[str, Any] = parser.parse(answered, model.output_shape)
        return parsed


class Body:
    """The bytes of a stream of events, with botocore's errors, as `Frames` reads them."""

    def __init__(self, response: Any, url: str, sent: tuple[str, ...]) -> None:
        self._response = response
        self._url = url
        self._sent = sent

    def read(self) -> bytes:
        """The next piece; empty at the end."""
        try:
            piece: bytes = self._response.read()
        except HTTPFailure as failure:
            raise self._translate(failure) from None
        return piece

    def stream(self) -> Iterator[bytes]:
        """All pieces."""
        return iter(self.read, b"")

    def close(self) -> None:
        """Ends the connection, unless the stream was read to its end."""
        self._response.close()

    def _translate(self, failure: HTTPFailure) -> Exception:
        note_sent_credentials(self._sent)
        return _translate_in_stream(failure, self._url)


class AsyncBody(Body):
    """The same, for an event loop."""

    async def read(self) -> bytes:  # type: ignore[override]
        """The next piece; empty at the end."""
        try:
            piece: bytes = await self._response.read()
        except HTTPFailure as failure:
            raise self._translate(failure) from None
        return piece

    def note_credentials(self) -> None:
        """Before an error is made of what was read: it may repeat them."""
        note_sent_credentials(self._sent)


def _translate(failure: HTTPFailure, url: str) -> Exception:
    # Named as botocore's session names them, which decides what is tried again.
    from botocore import exceptions

    kinds: dict[type[HTTPFailure], Any] = {
        ConnectFailed: exceptions.EndpointConnectionError,
        ConnectTimedOut: exceptions.ConnectTimeoutError,
        ReadTimedOut: exceptions.ReadTimeoutError,
        TLSFailed: exceptions.SSLError,
    }
    kind = kinds.get(type(failure), exceptions.ConnectionClosedError)
    error: Exception = kind(endpoint_url=url, error=failure)
    return error


def _translate_in_stream(failure: HTTPFailure, url: str) -> Exception:
    from botocore.exceptions import ReadTimeoutError
    from urllib3.exceptions import ProtocolError

    if isinstance(failure, ReadTimedOut):
        timeout: Exception = ReadTimeoutError(endpoint_url=url, error=failure)
        return timeout
    return ProtocolError(str(failure))


def _headers_of(response: Response | AsyncResponse) -> Any:
    from botocore.awsrequest import HeadersDict

    return HeadersDict(response.headers)


def _to_botocore(url: str, response: Response | AsyncResponse) -> Any:
    from botocore.awsrequest import AWSResponse

    headers: Any = _headers_of(response)
    return AWSResponse(url, response.status, headers, None)


@cache
def response_of_status(status: int) -> Any:
    """A response of which botocore's handlers only read the status."""
    from botocore.awsrequest import AWSResponse, HeadersDict

    headers: Any = HeadersDict()
    return AWSResponse("", status, headers, None)


# Learning what a client sends.

_NAMES = {"converse": "Converse", "converse_stream": "ConverseStream"}
_SIGNED = ("content-type", "accept")
_UNSIGNED = ("user-agent",)  # (SigV4: proxies may change it)
# The last two tell Bedrock which tries belong together, and each call has its own.
_FIELDS = frozenset({*_SIGNED, *_UNSIGNED, "amz-sdk-invocation-id", "amz-sdk-request"})


class _Stopped(Exception):
    """A request was made, and not signed."""


def learn(client: Any) -> Service | None:
    """What a new client sends and how; `None` where it does anything that is not known here.

    Nothing is sent. The client must not be shared yet: other requests would be stopped, too.
    """
    try:
        made = {method: _stop_before_signing(client, method) for method in _NAMES}
        if _is_hooked(client) or is_patched():
            return None
        return _build_service(client, made)
    except Exception:
        # Another botocore than this was written for, a profile that is wrong, no certificates:
        # whatever it is, boto3 deals with it, or says it at the first request.
        return None


def _stop_before_signing(client: Any, method: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def stop(**event: Any) -> None:
        found.update(event)
        raise _Stopped

    event = f"before-sign.bedrock-runtime.{_NAMES[method]}"
    client.meta.events.register_first(event, stop)
    try:
        getattr(client, method)(modelId="m")
    except _Stopped:
        pass
    finally:
        client.meta.events.unregister(event, stop)
    return found


def _build_service(client: Any, made: Mapping[str, Mapping[str, Any]]) -> Service | None:
    operations, scopes = {}, []
    for method, event in made.items():
        request, context = event["request"], event["request"].context
        model = client.meta.service_model.operation_model(_NAMES[method])
        before, _, after = request.url.rpartition("/m/")
        fields = {name.lower(): _to_text(value) for name, value in request.headers.items()}
        if not fields.keys() <= _FIELDS or request.params:
            return None
        signed = {name: fields[name] for name in _SIGNED if name in fields}
        unsigned = tuple((name, fields[name]) for name in _UNSIGNED if name in fields)
        names = _NAMES[method], model, f"{before}/", f"/{after}"
        operations[method] = _Operation(*names, signed, unsigned)
        scope = context.get("signing") or {}
        if not scope.keys() <= {"signing_name", "region"}:
            return None
        name = scope.get("signing_name", event["signing_name"])
        region = scope.get("region", event["region_name"])
        scopes.append(_Signing(event["request_signer"], name, region, event["signature_version"]))
    address = _find_address(client, operations["converse"].before_id)
    if address is None or scopes[0] != scopes[1] or scopes[0].version not in ("v4", "bearer"):
        return None
    return Service(client, operations, scopes[0], address)


def _find_address(client: Any, url: str) -> Address | None:
    from botocore.utils import get_environ_proxies

    parts = urlsplit(url)
    config, session = client.meta.config, client._endpoint.http_session
    if config.proxies or get_environ_proxies(url) or config.client_cert:
        return None
    if not parts.hostname or parts.username is not None or parts.query:
        return None
    if parts.scheme == "http":
        return Address(parts.hostname, parts.port or 80, None)
    # The session has the certificates of `AWS_CA_BUNDLE`, the profile or botocore itself.
    return Address(parts.hostname, parts.port or 443, _tls(session._verify))


@cache
def _tls(verify: Any) -> ssl.SSLContext:
    # Reading the certificates takes longer than a request; all services share them.
    from botocore.httpsession import create_urllib3_context, get_cert_path

    context: ssl.SSLContext = create_urllib3_context()
    # urllib3 looks at the certificate's names itself, and so has the context not look.
    context.check_hostname = bool(verify)
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    if verify:
        path = str(get_cert_path(verify))
        context.load_verify_locations(**{"capath" if os.path.isdir(path) else "cafile": path})
    return context


# What a request of boto3's goes through. Handlers of others may change it, or answer themselves.
_EVENTS = tuple(
    """
    provide-client-params before-parameter-build before-endpoint-resolution before-call
    request-created choose-signer before-sign before-send response-received before-parse
    needs-retry after-call after-call-error
    """.split()
)
_OWN = ("botocore.", "boto3.", "orchestrator.")


def _is_hooked(client: Any) -> bool:
    emitter = client.meta.events._emitter
    handlers = (
        handler
        for event in _EVENTS
        for name in _NAMES.values()
        for handler in emitter._handlers.prefix_search(f"{event}.bedrock-runtime.{name}")
    )
    return any(not _module_of(handler).startswith(_OWN) for handler in handlers)


def _module_of(handler: Any) -> str:
    while isinstance(handler, partial):
        handler = handler.func
    return str(getattr(getattr(handler, "__func__", handler), "__module__", ""))


def is_patched() -> bool:
    """Whether somebody replaced a method of botocore's that every request goes through."""
    return not all(
        type(method) is FunctionType and method.__module__ == module
        for method, module in _list_methods()
    )


def _list_methods() -> list[tuple[Any, str]]:
    from botocore.client import BaseClient
    from botocore.endpoint import Endpoint
    from botocore.httpsession import URLLib3Session

    return [
        (BaseClient.__dict__["_make_api_call"], "botocore.client"),
        (Endpoint.__dict__["make_request"], "botocore.endpoint"),
        (Endpoint.__dict__["_send"], "botocore.endpoint"),
        (URLLib3Session.__dict__["send"], "botocore.httpsession"),
    ]


def _to_text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
