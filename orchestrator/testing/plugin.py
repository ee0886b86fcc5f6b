"""The pytest plugin: fixtures for tests of agents; pytest finds it by itself."""

from __future__ import annotations

import pytest

from orchestrator.testing.fakes import FakeClock

__all__ = ["orchestrator_clock"]


@pytest.fixture
def orchestrator_clock() -> FakeClock:
    """A clock that moves only when it is told to."""
    return FakeClock()
