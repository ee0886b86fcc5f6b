"""The four services, carried out: an HTTP request in, an HTTP answer out."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from inspect import iscoroutinefunction
from typing import Any, cast
from urllib.parse import parse_qsl, unquote
from uuid import uuid4

from anyio import to_thread

from orchestrator.server.large_bodies import read_body
from orchestrator.server.operations import Caller, EventStream, Fault, Handler, Operations, Request
from orchestrator.server.wire.faults import WrongOutput, as_fault
from orchestrator.server.wire.requests import get_request_reader
from orchestrator.server.wire.responses import (
    HttpResponse,
    MessageStream,
    build_error_response,
    get_response_writer,
    get_stream_writer,
)
from orchestrator.server.wire.shapes import SERVICES, operation_model, service_model
from orchestrator.support.user_code import is_own_failure

_NOBODY = Caller()
_EVENT_STREAM = "application/vnd.amazon.eventstream"


@dataclass(frozen=True, slots=True)
class OperationMatch:
    """The operation that a request means."""

    routes: tuple[Route, ...]  # where it lies; two, when two services have the same path
    labels: tuple[str, ...]  # the texts of the path's labels, as they were sent

    @property
    def service(self) -> str:
        """boto3's name of the service."""
        return self.routes[0].service

    @property
    def operation(self) -> str:
        """The operation's name."""
        return self.routes[0].operation

    def get_label(self, name: str) -> str:
        """The text of a label of the path, decoded; empty where it has none of the name."""
        labels = dict(zip(self.routes[0].labels, self.labels, strict=True))
        return unquote(labels.get(name, ""))


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
        result = {}
        for service in SERVICES:
            names = service_model(service).operation_names
            there = tuple(name for name in names if self._has_handler(service, name))
            result[service] = there, tuple(name for name in names if name not in there)
        return result

    def _has_handler(self, service: str, name: str) -> bool:
        http = operation_model(service, name).http
        found = self.match(http["method"], *http["requestUri"].split("?"))
        routes = found.routes if found is not None else ()
        return any((route.service, route.operation) in self._handlers for route in routes)

    def match(self, method: str, raw_path: str, query: str = "") -> OperationMatch | None:
        """The operation that a request means; `None` when there is none."""
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
        """Answers a request; nothing that goes wrong is raised."""
        matched = self.match(method, raw_path, query)
        id = request_id or str(uuid4())
        return await self.answer_as(matched, method, raw_path, query, headers, body, caller, id)

    async def answer_as(
        self,
        matched: OperationMatch | None,
        method: str,
        raw_path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
        caller: Caller,
        request_id: str,
    ) -> HttpResponse:
        """`answer`, for who has asked `match` already."""
        try:
            if matched is None:
                raise Fault("UnknownOperationException", _describe_unknown(method, raw_path))
            answer = await self._call_handler(matched, query, headers, body, caller, request_id)
        except BaseException as error:
            if not is_own_failure(error):
                raise
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
        route, params = await read_body(partial(_read_params, matched, query, headers), body)
        request = Request(route.service, route.operation, params, caller, request_id)
        output: Any
        if waits:
            output = await cast("Callable[[Request], Awaitable[Any]]", handler)(request)
        else:
            output = await to_thread.run_sync(handler, request)
        out = get_response_writer(route.service, route.operation)
        kind = Mapping if out.stream is None else EventStream
        if not isinstance(output, kind):
            wanted = "a mapping" if out.stream is None else "an EventStream"
            raise WrongOutput(f"{out.name} must give back {wanted}, not {type(output).__name__}")
        if not isinstance(output, EventStream):
            return out.answer(output)
        result = out.stream_headers(output.members)
        result.setdefault("Content-Type", _EVENT_STREAM)
        writer = get_stream_writer(route.service, route.operation)
        frames = MessageStream(writer, output, lambda error: self._fault_of(error, request_id))
        return HttpResponse(out.status, result, frames)

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


# Paths are compared as they were sent, piece by piece between slashes: a slash inside a label is
# percent-encoded (an ARN is one label), and a slash at the end is a last, empty piece, because
# `POST /agents/ID/` and `POST /agents/ID` are two operations. Labels are never empty.


@dataclass(frozen=True, slots=True)
class Route:
    """An operation and where it lies."""

    service: str  # boto3's name of the service
    operation: str  # the operation's name
    labels: tuple[str, ...] = ()  # the names of the labels in its path, in order
    fixed: frozenset[tuple[str, str]] = frozenset()  # what its query string must have


# What stands for a label, and twice for a greedy one: it sorts after all that a path may have, so
# that literal pieces go before labels.
_ANY = "\uffff"
_LABEL = re.compile(r"\{([^{}+]+)(\+?)\}")


class Routes:
    """A routing table."""

    def __init__(self, operations: Iterable[tuple[str, str, str, str]]) -> None:
        """Makes the table of operations: service, name, method and `requestUri`, in order."""
        routes: dict[tuple[str, str], list[Route]] = {}
        for service, operation, method, uri in operations:
            path, _, query = uri.partition("?")
            labels = tuple(name for name, _ in _LABEL.findall(path))
            fixed = frozenset(parse_qsl(query, keep_blank_values=True))
            shape = _LABEL.sub(lambda label: _ANY * (1 + len(label[2])), path)
            routes.setdefault((method, shape), []).append(Route(service, operation, labels, fixed))
        # By the number of slashes in a path; 0 with a greedy label, which may hold many.
        self._table: dict[tuple[str, int], list[tuple[re.Pattern[str], list[Route]]]] = {}
        for (method, shape), found in sorted(routes.items(), key=lambda pair: pair[0]):
            found.sort(key=lambda route: -len(route.fixed))
            text = re.escape(shape).replace(2 * _ANY, "([^/].*)").replace(_ANY, "([^/]+)")
            slashes = 0 if 2 * _ANY in shape else shape.count("/")
            table = self._table.setdefault((method, slashes), [])
            table.append((re.compile(text, re.DOTALL), found))

    def match(
        self, method: str, path: str, query: str = ""
    ) -> tuple[list[Route], tuple[str, ...]] | None:
        """The operations that a request can mean, and the texts of their labels as they were sent.

        There are two when two services have the same path. A path that means nothing is tried
        again with a slash more, or less, at its end.
        """
        found = self._match_exactly(method, path, query)
        if found is None and not path.endswith("//"):
            other = path[:-1] if path.endswith("/") else f"{path}/"
            found = self._match_exactly(method, other, query)
        return found

    def _match_exactly(
        self, method: str, path: str, query: str
    ) -> tuple[list[Route], tuple[str, ...]] | None:
        for slashes in (path.count("/"), 0):
            for pattern, routes in self._table.get((method, slashes), ()):
                found = pattern.fullmatch(path)
                fitting = [it for it in routes if _is_match(it, query)] if found else []
                if found and fitting:
                    return fitting, found.groups()
        return None


def _is_match(route: Route, query: str) -> bool:
    return not route.fixed or route.fixed <= set(parse_qsl(query, keep_blank_values=True))
