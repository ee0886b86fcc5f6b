"""Servers of the agents' API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from control_support import Served, says, served


@pytest.fixture
def server() -> Iterator[Served]:
    """A server in memory, whose model always says yes."""
    with served(lambda request: says("Yes.")) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_against_the_model(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No answer of a test has a value that botocore's model does not allow."""
    yield
    told = [it.getMessage() for it in caplog.get_records("call")]
    assert not [text for text in told if "its model does not allow" in text]
