"""moto's DynamoDB over HTTP on this machine, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from threading import Lock, Thread
from typing import Any

import pytest

REGION = "eu-central-1"
_NUMBERS = count()


class DynamoServer:
    """moto's server in threads of this process, one request after the other.

    moto undoes a transaction by putting back all tables as they were before it, also what another
    request has written meanwhile; DynamoDB does not.
    """

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Quiet(WSGIRequestHandler):
            def log(self, type: str, message: str, *args: object) -> None:
                """Says nothing."""

        inner, lock = DomainDispatcherApplication(create_backend_app), Lock()

        def serialise(environ: Any, start: Any) -> list[bytes]:
            with lock:
                return list(inner(environ, start))

        self._server = make_server("127.0.0.1", 0, serialise, threaded=True, request_handler=Quiet)
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def create_table(self, name: str) -> str:
        """The URL of a new, empty table."""
        from orchestrator.support.dynamodb import DynamoTable
        from orchestrator.support.store_urls import DynamoUrl, parse_store

        text = f"dynamodb://{name}?region={REGION}&endpoint_url={self.endpoint}"
        url = parse_store(text)
        assert isinstance(url, DynamoUrl)
        DynamoTable(url, "the store").create()
        return text

    def close(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


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
