"""Servers of flows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bedrock_flow_support import model
from control_support import Served, served


@pytest.fixture
def server() -> Iterator[Served]:
    """A server whose model says what it was asked, in angle brackets."""
    with served(model=model()) as running:
        yield running
