"""Servers in processes of their own, as the tests of serving start them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "serving"))

from serving_support import Start, processes


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `orchestrator serve` with some options."""
    with processes() as start:
        yield start
