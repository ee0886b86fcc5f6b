"""The three services, carried out: an HTTP request in, an HTTP answer out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from inspect import iscoroutinefunction
from typing import Any, cast
from uuid import uuid4

from anyio import to_thread

from orchestrator.server.operations import Caller, EventStream, Fault, Handler, Operations, Request
from orchestrator.server.wire.faults import WrongOutput, as_fault
from orchestrator.server.wire.models import SERVICES, operation_model, service_model
from orchestrator.server.wire.requests import get_request_reader
from orchestrator.server.wire.responses import (
    HttpResponse,
    build_error_response,
    get_response_writer,
)
from orchestrator.server.wire.routes import Route, Routes
from orchestrator.server.wire.streams import get_stream_writer

_NOBODY = Caller()
_LARGE = 256 * 1024
_EVENT_STREAM = "application/vnd.amazon.eventstream"


@dataclass(frozen=True, slots=True)
class OperationMatch:
    """The operation that a request means.

    Attributes:
        routes: Where it lies; two, when two services have the same path.
        labels: The texts of the path's labels, as they were sent.
    """

    routes: tuple[Route, ...]
    labels: tuple[str, ...]

    @property
    def service(self) -> str:
        """boto3's name of the service."""
        return self.routes[0].service

    @property
    def operation(self) -> str:
        """The operation's name."""
        return self.routes[0].operation


@cache
def _build_routes() -> Routes:
    return Routes(
        (service, name, http["method"], http["requestUri"])
        for service in SERVICES
        for name in service_model(service).operation_names
        for http in [operation_model(service, name).http]
    )


class Api:
    """Answers HTTP requests with handlers of operations.

    Of operations that two services have at one path (those of tags), one handler serves both: the
    request is read as the first service whose model allows it.
    """

    def __init__(
        self, operations: Operations, fault_of: Callable[[BaseException, str], Fault] = as_fault
    ) -> None:
        """Takes the handlers.

        Args:
            operations: The handlers.
            fault_of: An error, and the request's id, as an exception of the service.

        Raises:
            ValueError: There is no such service or operation.
        """
        for service, handlers in operations.items():
            if service not in SERVICES:
                raise ValueError(f"there is no service {service!r} here, but {', '.join(SERVICES)}")
            for name in handlers.keys() - set(service_model(service).operation_names):
                raise ValueError(f"{service} has no operation {name!r} in botocore's model")
        self._operations = operations
        self._fault_of = fault_of
        self._handlers = {
            (service, name): (handler, iscoroutinefunction(handler))
            for service, handlers in operations.items()
            for name, handler in handlers.items()
        }
        self._routes = _build_routes()

    def list_operations(self) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        """By service: the operations that have a handler, and those that have none."""
        told = {}
        for service in SERVICES:
            names = service_model(service).operation_names
            there = tuple(name for name in names if self._has_handler(service, name))
            told[service] = there, tuple(name for name in names if name not in there)
        return told

    def _has_handler(self, service: str, name: str) -> bool:
        return any(
            (route.service, route.operation) in self._handlers
            for route in self._find_routes(service, name)
        )

    def _find_routes(self, service: str, name: str) -> tuple[Route, ...]:
        http = operation_model(service, name).http
        found = self._routes.match(http["method"], http["requestUri"].partition("?")[0])
        routes = tuple(found[0]) if found else ()
        own = Route(service, name)
        return (
            routes if any(r.service == service and r.operation == name for r in routes) else (own,)
        )

    def match(self, method: str, raw_path: str, query: str = "") -> OperationMatch | None:
        """The operation that a request means; `None` when there is none.

        Args:
            method: The HTTP method, in capitals.
            raw_path: The path as it was sent, percent-encoded, without the query.
            query: The query string, without its `?`.
        """
        found = self._routes.match(method, raw_path, query)
        return None if found is None else OperationMatch(tuple(found[0]), found[1])

    async def answer(
        self,
        method: str,
        raw_path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
        caller: Caller = _NOBODY,
        request_id: str = "",
    ) -> HttpResponse:
        """Answers a request; nothing that goes wrong is raised.

        Args:
            method: The HTTP method, in capitals.
            raw_path: The path as it was sent, percent-encoded, without the query.
            query: The query string, without its `?`.
            headers: By names in lower case.
            body: The whole body.
            caller: Who is calling.
            request_id: The request's id; a new UUID when it is empty.
        """
        request_id = request_id or str(uuid4())
        matched = self.match(method, raw_path, query)
        try:
            if matched is None:
                raise Fault("UnknownOperationException", _describe_unknown(method, raw_path))
            answer = await self._call_handler(matched, query, headers, body, caller, request_id)
        except Exception as error:
            return self.refuse(error, matched, request_id)
        answer.headers["x-amzn-RequestId"] = request_id
        return answer

    def refuse(
        self, error: BaseException, matched: OperationMatch | None = None, request_id: str = ""
    ) -> HttpResponse:
        """The answer to a request that failed, in the words of the operation that it meant."""
        request_id = request_id or str(uuid4())
        fault = self._fault_of(error, request_id)
        if matched is None:
            answer = build_error_response(fault, {}, None)
        else:
            out = get_response_writer(matched.service, matched.operation)
            answer = build_error_response(fault, out.errors, out.walks)
        answer.headers["x-amzn-RequestId"] = request_id
        return answer

    async def _call_handler(
        self,
        matched: OperationMatch,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
        caller: Caller,
        request_id: str,
    ) -> HttpResponse:
        handler, waits = self._find_handler(matched)
        read = partial(_read_params, matched, query, headers, body)
        # A large body takes long enough to keep others waiting.
        route, params = await to_thread.run_sync(read) if len(body) > _LARGE else read()
        request = Request(route.service, route.operation, params, caller, request_id)
        output: Any
        if waits:
            output = await cast(Callable[[Request], Awaitable[Any]], handler)(request)
        else:
            output = await to_thread.run_sync(handler, request)
        out = get_response_writer(route.service, route.operation)
        kind = Mapping if out.stream is None else EventStream
        if not isinstance(output, kind):
            wanted = "a mapping" if out.stream is None else "an EventStream"
            raise WrongOutput(f"{out.name} must give back {wanted}, not {type(output).__name__}")
        if not isinstance(output, EventStream):
            return out.answer(output)
        told = out.stream_headers(output.members)
        told.setdefault("Content-Type", _EVENT_STREAM)
        frames = get_stream_writer(route.service, route.operation)
        return HttpResponse(
            out.status,
            told,
            frames.encode_stream(output, lambda error: self._fault_of(error, request_id)),
        )

    def _find_handler(self, matched: OperationMatch) -> tuple[Handler, bool]:
        for route in matched.routes:
            found = self._handlers.get((route.service, route.operation))
            if found is not None:
                return found
        wrong = f"{matched.operation} of {matched.service} is not implemented by this server."
        raise Fault("ValidationException", wrong)


def _describe_unknown(method: str, raw_path: str) -> str:
    path = raw_path if len(raw_path) <= 100 else f"{raw_path[:100]}…"
    return f"there is no operation {method} {path!r}; check the address and the client's version"


def _read_params(
    matched: OperationMatch, query: str, headers: Mapping[str, str], body: bytes
) -> tuple[Route, dict[str, Any]]:
    """The parameters, as the first of the operations that may be meant which allows them."""
    first: Fault | None = None
    for route in matched.routes:
        labels = dict(zip(route.labels, matched.labels, strict=True))
        try:
            reader = get_request_reader(route.service, route.operation)
            return route, reader.read(labels, query, headers, body)
        except Fault as fault:
            first = first or fault
    assert first is not None
    raise first
