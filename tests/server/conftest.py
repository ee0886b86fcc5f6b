"""A guard of all tests of the server: what it answers is what AWS's models allow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orchestrator.server.agents import store
from orchestrator.server.wire import responses


@pytest.fixture(autouse=True)
def _prepared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits until an agent shows as prepared."""
    monkeypatch.setattr(store, "PREPARING_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def _answers_are_as_modelled(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fails a test in which a value was answered that a length, range, pattern or enum forbids.

    The server sends it all the same, and logs it once; a test that means it clears its log.
    """
    responses._log_limit.cache_clear()
    yield
    told = [
        it.getMessage() for it in caplog.get_records("call") if it.name == "orchestrator.server"
    ]
    assert not [it for it in told if "what its model does not allow" in it]
