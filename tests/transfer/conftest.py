"""Servers to carry agents to and from, and what agents that use everything are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from transfer_support import Place, place


@pytest.fixture
def there(canaries: object) -> Iterator[Place]:
    """An empty server."""
    with place() as one:
        yield one


@pytest.fixture
def another(canaries: object) -> Iterator[Callable[[], Place]]:
    """Makes further empty servers."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(place())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to write into, which is not there yet."""
    return tmp_path / "agent"
