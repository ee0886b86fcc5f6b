"""Servers of the agents' API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from control_support import Served, says, served


@pytest.fixture
def server() -> Iterator[Served]:
    """A server in memory, whose model says its prompt's system text is read."""
    with served(lambda request: says("Yes.")) as running:
        yield running
