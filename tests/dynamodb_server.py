"""moto's DynamoDB over HTTP on this machine, for tests."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from io import BytesIO
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import pytest
from loopback import reserve_port

REGION = "eu-central-1"
_NUMBERS = count()
_TRANSACTION = "DynamoDB_20120810.TransactWriteItems"


class DynamoServer:
    """moto's server in threads of this process, one request after the other.

    moto undoes a transaction by putting back all tables as they were before it, also what another
    request has written meanwhile; DynamoDB does not. Nor does it carry out a transaction twice that
    a client repeats: its token names it, which moto does not look at.
    """

    def __init__(self, socket: Path | None = None) -> None:
        """Starts it, on a free port and, if one is named, on a socket in the file system."""
        from moto.server import DomainDispatcherApplication, create_backend_app

        self._app = DomainDispatcherApplication(create_backend_app)
        self._lock, self._answers = Lock(), dict[str, Any]()
        self._starts = 0
        self._socket = socket
        self._reserved = ExitStack()
        self.port = self._reserved.enter_context(reserve_port())
        self.endpoint = f"http://127.0.0.1:{self.port}"
        _undo_only_what_is_written()
        self._start()

    def _start(self) -> None:
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Quiet(WSGIRequestHandler):
            def log(self, type: str, message: str, *args: object) -> None:
                """Says nothing."""

        options: dict[str, Any] = {"threaded": True, "request_handler": Quiet}
        self._servers = [make_server("127.0.0.1", self.port, self._serve, **options)]
        if self._socket is not None:
            self._servers.append(make_server(f"unix://{self._socket}", 0, self._serve, **options))
        self._threads = [
            Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            for server in self._servers
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self, environ: Any, start: Any) -> list[bytes]:
        starts = self._starts
        with self._lock:
            if starts == self._starts:
                answer = self._answer(environ, start)
        if starts != self._starts:
            raise ConnectionResetError  # whoever asked never learns what came of it
        return answer

    def _answer(self, environ: Any, start: Any) -> list[bytes]:
        if environ.get("HTTP_X_AMZ_TARGET") != _TRANSACTION:
            return list(self._app(environ, start))
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        token = json.loads(body).get("ClientRequestToken", "")
        head, answer = self._answers.get(token, ((), []))
        if head and head[0].startswith("200"):
            start(*head)
            return list(answer)

        def note(*given: Any) -> Any:
            nonlocal head
            head = given
            return start(*given)

        answer = list(self._app({**environ, "wsgi.input": BytesIO(body)}, note))
        self._answers[token] = head, answer
        return answer

    def create_table(self, name: str) -> str:
        """The URL of a new, empty table."""
        from orchestrator.support.dynamodb import DynamoTable
        from orchestrator.support.store_urls import DynamoUrl, parse_store

        text = f"dynamodb://{name}?region={REGION}&endpoint_url={self.endpoint}"
        url = parse_store(text)
        assert isinstance(url, DynamoUrl)
        DynamoTable(url, "the store").create()
        return text

    def restart(self) -> None:
        """Ends the server and starts it again; the answers that were on their way are lost."""
        self._starts += 1
        self._stop()
        self._start()

    def _stop(self) -> None:
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()
        if self._socket is not None:
            self._socket.unlink()

    def close(self) -> None:
        """Ends the server."""
        self._stop()
        self._reserved.close()


# moto copies all of a table before each transaction, and once more for each of its writes: with
# some thousand items an append took seconds. What other items have, no transaction changes.
def _undo_only_what_is_written() -> None:
    from moto.dynamodb.models import DynamoDBBackend
    from moto.dynamodb.models.dynamo_type import DynamoType
    from moto.dynamodb.models.table import Table

    whole, written = DynamoDBBackend.transact_write_items, list[Any]()
    if hasattr(Table, "__deepcopy__"):
        return

    def transact(self: Any, transact_items: list[dict[str, Any]]) -> None:
        writes: list[Mapping[str, Any]] = [next(iter(it.values())) for it in transact_items]
        written[:] = [it.get("Item", it.get("Key", {})) for it in writes]
        try:
            whole(self, transact_items)
        finally:
            written.clear()

    def copy_written(table: Any, memo: dict[int, Any]) -> Any:
        twin = copy.copy(table)
        twin.items = copy.copy(table.items)
        for one in written:
            partition = table.items.get(key := DynamoType(one[table.hash_key_attr]))
            if partition is None:
                continue
            if twin.items[key] is partition:
                twin.items[key] = copy.copy(partition)
            place = DynamoType(one[table.range_key_attr])
            if place in partition:
                twin.items[key][place] = copy.deepcopy(partition[place], memo)
        return twin

    backend: Any = DynamoDBBackend
    backend.transact_write_items = transact
    table: Any = Table
    table.__deepcopy__ = copy_written


@pytest.fixture(scope="session")
def dynamodb_server() -> Iterator[DynamoServer]:
    """moto's server, for the tests of this process."""
    server = DynamoServer()
    yield server
    server.close()


@pytest.fixture
def dynamodb_url(dynamodb_server: DynamoServer, aws: object) -> str:
    """The URL of a new, empty table."""
    return dynamodb_server.create_table(f"test-{next(_NUMBERS)}")
