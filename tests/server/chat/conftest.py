"""Servers of the tests of chat clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from chat_support import CLAUDE, Server, served, write_agent

from orchestrator.testing import ScriptedModel


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts a server of one agent, `vacations`, whose model answers from a script."""
    with ExitStack() as stack:

        def started(script: Any, *, chunk: int = 0, members: Any = None, **settings: Any) -> Server:
            model = script
            if isinstance(script, list):
                model = ScriptedModel(script, CLAUDE, chunk=chunk)
            write_agent(tmp_path / "agents" / "vacations", "vacations", **(members or {}))
            return stack.enter_context(served(model, tmp_path / "agents", **settings))

        yield started
