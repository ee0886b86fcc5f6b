"""Servers of the guardrails' API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from control_support import Served, served


@pytest.fixture
def server() -> Iterator[Served]:
    """A server in memory, whose model repeats what it is asked last."""
    with served(repeat) as running:
        yield running


def repeat(request) -> str:
    return "\n".join(it["text"] for it in request.messages[-1]["content"] if "text" in it)
