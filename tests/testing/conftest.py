"""Agents that tests make show as prepared soon: a server of users takes a second for it."""

from __future__ import annotations

import pytest

from orchestrator.server.control import agents


@pytest.fixture(autouse=True)
def _prepared_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "PREPARING_SECONDS", 0.05)
