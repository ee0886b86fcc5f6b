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
