"""Converse and ConverseStream over connections of our own, with botocore's rules for them.

Of the CPU time of a call through boto3 three quarters are its way of a request: hooks, the user
agent built twice, endpoint rules, urllib3. None of that differs from one call to the next. So a
client is asked once what it would send, and is stopped before it signs (`learn`); after
that only the body, the model's id and the signature change. Credentials, bearer tokens, what is
tried again and when, and how errors are read stay botocore's own functions, with the client's
retry quota.

Whatever is not exactly as expected has no `Service`, and goes through boto3: another signature
than SigV4 or a bearer token, a proxy, a client certificate, headers that are unknown here, a hook
that somebody else registered, or a method of botocore that somebody replaced, such as moto does.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from orchestrator.models._bounds import ModelReplyBounds
from orchestrator.models._converse import read_answer
from orchestrator.models.bedrock.frames import Frames
from orchestrator.models.bedrock.hooks import is_patched
from orchestrator.models.bedrock.signature import SigV4, quote_path
from orchestrator.support.aws import (
    STARTED,
    UnusableCredentials,
    credentials_of,
    note_sent_credentials,
)
from orchestrator.support.http import (
    Address,
    AsyncResponse,
    BadResponse,
    ConnectFailed,
    Connections,
    ConnectTimedOut,
    HTTPFailure,
    LoopConnections,
    ReadTimedOut,
    Response,
    TLSFailed,
    Waits,
    encode_head,
)
from orchestrator.support.threads import in_thread

_sleep = time.sleep
_asleep = asyncio.sleep


class Operation(NamedTuple):
    """What a client sends for an operation, apart from the model's id and the body."""

    name: str
    model: Any  # botocore's description of it
    before_id: str  # the URL up to the model's id
    after_id: str
    signed: dict[str, str]  # header fields
    unsigned: tuple[tuple[str, str], ...]


class Signing(NamedTuple):
    """How a client signs: what it gives to `RequestSigner.get_auth_instance`, and that signer."""

    signer: Any
    name: str
    region: str
    version: str


class Place(NamedTuple):
    """Where the requests for one model go."""

    url: str
    host: str
    path: str
    signed_path: str  # as it is signed


_MOST_PLACES = 256


class Service:
    """Bedrock's runtime at one address, with one client's credentials and configuration."""

    def __init__(
        self, client: Any, operations: Mapping[str, Operation], signing: Signing, address: Address
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
        self._pools = LoopConnections(address, self._waits, self._most)
        self._sigv4 = SigV4(signing.name, signing.region)
        self._places: dict[tuple[str, str], Place] = {}
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
        pool = self._pools.get()
        while True:
            try:
                request = await self._asign(exchange, bounds)
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

    def sign(self, place: Place, fields: Mapping[str, str], body: bytes) -> dict[str, str]:
        """The header fields with the signature, made with the credentials as they are now."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import NoCredentialsError

        signer, *scope = self._signing
        auth = signer.get_auth_instance(*scope)  # botocore refreshes credentials here
        if type(auth) is not SigV4Auth:
            request = AWSRequest("POST", place.url, fields, body)
            auth.add_auth(request)
            return dict(request.headers.items())
        if auth.credentials is None:
            raise NoCredentialsError()
        return self._sigv4.sign(auth.credentials, place.signed_path, fields, body)

    def find_place(self, operation: Operation, model_id: str) -> Place:
        """Where a request for a model goes."""
        place = self._places.get((operation.name, model_id))
        if place is None:
            from botocore.utils import percent_encode

            url = f"{operation.before_id}{percent_encode(model_id)}{operation.after_id}"
            _, _, host, path = url.split("/", 3)
            place = Place(url, host, f"/{path}", quote_path(f"/{path}"))
            if len(self._places) < _MOST_PLACES:
                self._places[operation.name, model_id] = place
        return place

    def build_error(self, parsed: dict[str, Any], operation: Operation) -> Exception:
        """Boto3's error for an answer."""
        kind = self._client.exceptions.from_code(parsed.get("Error", {}).get("Code"))
        error: Exception = kind(parsed, operation.name)
        return error

    async def _asign(self, exchange: _Exchange, bounds: ModelReplyBounds) -> bytes:
        # Fresh credentials may have to be asked for, from a server or a program.
        credentials = getattr(self._signing.signer, "_credentials", None)
        needed = getattr(credentials, "refresh_needed", None)
        if needed is None or not needed():
            return exchange.sign()
        try:
            async with asyncio.timeout(bounds.compute_time_left()):
                return await asyncio.wrap_future(in_thread(exchange.sign, at_once=False))
        except TimeoutError:
            bounds.check_time()
            raise


class _Exchange:
    """One call: its requests, and what becomes of their responses. Without I/O."""

    def __init__(
        self,
        service: Service,
        operation: Operation,
        model_id: str,
        body: bytes,
        bounds: ModelReplyBounds,
    ) -> None:
        self.streamed = operation.name == "ConverseStream"
        self.sent: tuple[str, ...] = ()
        self._service = service
        self._operation = operation
        self._place = service.find_place(operation, model_id)
        self._body = body
        self._bounds = bounds
        self._attempt = 0
        self._invocation = str(uuid.uuid4())
        # Where botocore's handlers keep what they have to know of a call.
        self._context: dict[str, Any] = {STARTED: time.monotonic()}

    def sign(self) -> bytes:
        """The next request."""
        self._attempt += 1
        place, body = self._place, self._body
        fields = self._service.sign(place, {**self._operation.signed, "host": place.host}, body)
        self.sent = credentials_of(fields)
        note_sent_credentials(self.sent)
        try:
            head = encode_head("POST", place.path, [*fields.items(), *self._list_fields()])
        except ValueError:  # all else in it is botocore's or quoted
            raise UnusableCredentials(
                "the access key, the session token or the bearer token has a line's end or "
                "another character in it that cannot be sent"
            ) from None
        return head + body

    def _list_fields(self) -> list[tuple[str, str]]:
        # Header fields that are not signed.
        return [
            ("accept-encoding", "identity"),
            ("content-length", str(len(self._body))),
            ("amz-sdk-invocation-id", self._invocation),
            ("amz-sdk-request", f"attempt={self._attempt}; max={self._service.attempts}"),
            *self._operation.unsigned,
        ]

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
                body = Body(response, self._place.url)
                return {"stream": Frames(body, body.request_id)}
            return {"stream": AsyncBody(response, self._place.url)}
        return read_answer(response.content) or self._parse(response)

    def wait_after_refusal(self, response: Response | AsyncResponse) -> float:
        """Seconds until the next try of an error response; raises when there is none."""
        parsed = self._parse(response)
        wait = self._ask((_to_botocore(self._place.url, response), parsed), None)
        if wait is None:
            raise self._service.build_error(parsed, self._operation)
        return wait

    def wait_after_failure(self, failure: HTTPFailure) -> float:
        """Seconds until the next try where there was no response; raises when there is none."""
        note_sent_credentials(self.sent)
        error = _translate(failure, self._place.url)
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
        left = self._bounds.compute_time_left()
        return float(wait if left is None else min(wait, left))

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
    """The bytes of a stream of events, with botocore's errors, as `Frames` reads them.

    Attributes:
        request_id: The id that Bedrock gave to the request; empty when it gave none.
    """

    def __init__(self, response: Any, url: str) -> None:
        self._response = response
        self._url = url
        self.request_id = response.headers.get("x-amzn-requestid", "")

    def read(self) -> bytes:
        """The next piece; empty at the end."""
        try:
            piece: bytes = self._response.read()
        except HTTPFailure as failure:
            raise _translate_in_stream(failure, self._url) from None
        return piece

    def stream(self) -> Iterator[bytes]:
        """All pieces."""
        return iter(self.read, b"")

    def close(self) -> None:
        """Ends the connection, unless the stream was read to its end."""
        self._response.close()


class AsyncBody(Body):
    """The same, for an event loop."""

    async def read(self) -> bytes:  # type: ignore[override]
        """The next piece; empty at the end."""
        try:
            piece: bytes = await self._response.read()
        except HTTPFailure as failure:
            raise _translate_in_stream(failure, self._url) from None
        return piece


def _translate(failure: HTTPFailure, url: str) -> Exception:
    # Named as botocore's session names them, which decides what is tried again.
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    if isinstance(failure, BadResponse):
        # Somebody answered, whatever it was: the model is not asked to do the same work again.
        return ResponseParserError(str(failure))
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
