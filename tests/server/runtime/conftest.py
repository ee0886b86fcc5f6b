"""Agents and servers of the runtime API's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from runtime_support import CLAUDE, Runtime, definition, running, write_agent

from orchestrator.testing import ScriptedModel

Start = Callable[..., Runtime]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a server of one agent, whose model answers from a script."""
    with ExitStack() as stack:

        def started(
            script: list[Any] | Any, members: dict[str, Any] | None = None, **options: Any
        ) -> Runtime:
            model = ScriptedModel(script, CLAUDE) if isinstance(script, list) else script
            write_agent(tmp_path / "agents" / "own", definition(**(members or {})))
            agents = tmp_path / "agents"
            return stack.enter_context(running(model, agents, **options))

        yield started
