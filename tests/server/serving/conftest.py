"""Servers in processes of their own, and a model to wait for."""

from collections.abc import Iterator

import pytest
from serving_support import Start, WaitingModel, processes, waiting_model


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `orchestrator serve` with some options."""
    with processes() as start:
        yield start


@pytest.fixture
def model() -> Iterator[WaitingModel]:
    """A model that answers when it is let."""
    with waiting_model() as model:
        yield model
