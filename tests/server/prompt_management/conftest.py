"""Servers of the prompts' API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from control_support import Served, served


@pytest.fixture
def server() -> Iterator[Served]:
    """A server in memory, whose model answers with what it is asked."""
    with served(lambda request: "Yes.") as running:
        yield running
