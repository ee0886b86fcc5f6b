"""moto's DynamoDB over HTTP on this machine, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

REGION = "eu-central-1"
_NUMBERS = count()


@pytest.fixture(scope="session")
def dynamodb_endpoint() -> Iterator[str]:
    """The address of moto's server, for the tests of this process."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def dynamodb_url(dynamodb_endpoint: str, aws: object) -> str:
    """The URL of a new, empty table."""
    from orchestrator.support.dynamodb import DynamoTable
    from orchestrator.support.store_urls import DynamoUrl, parse_store

    name = f"dynamodb://test-{next(_NUMBERS)}?region={REGION}&endpoint_url={dynamodb_endpoint}"
    url = parse_store(name)
    assert isinstance(url, DynamoUrl)
    DynamoTable(url, "the store").create()
    return name
