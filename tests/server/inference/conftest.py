"""Servers of the inference tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from inference_support import CLAUDE, Served, served

from orchestrator.testing import ScriptedModel


@pytest.fixture
def start() -> Iterator[Callable[..., Served]]:
    """Starts a server whose model answers from a script, or is the one that is given."""
    with ExitStack() as stack:

        def started(script: Any, *, chunk: int = 0, **settings: Any) -> Served:
            model = ScriptedModel(script, CLAUDE, chunk=chunk) if isinstance(script, list) else None
            return stack.enter_context(served(model or script, **settings))

        yield started
